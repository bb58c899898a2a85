"""Metrics of translations against references: BLEU, chrF and TER (computed by sacrebleu), and perplexity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import CorpusError, SettingsError

# Tokenizers of sacrebleu that need no further packages or downloads.
TOKENIZERS = ("13a", "intl", "zh", "char", "none")

# Primary language subtags of BCP 47: Chinese languages, and other languages written without spaces or scored by
# characters.
_CHINESE = frozenset({"zh", "cmn", "yue", "lzh"})
_BY_CHARACTER = frozenset({"ja", "ko", "th", "lo", "km", "my", "bo", "dz"})


@dataclass(frozen=True, kw_only=True)
class TranslationMetrics:
    """Corpus-level metrics of detokenised translations; a `Report`.

    Attributes:
        bleu: BLEU, 0 to 100, higher is better (Papineni et al., 2002; exponential smoothing).
        chrf: chrF2, 0 to 100, higher is better (Popović, 2015).
        ter: edits per 100 reference words, lower is better (Snover et al., 2006); may exceed 100.
        sentences: number of translations.
        signatures: sacrebleu's signature of each metric, by the names "bleu", "chrf" and "ter".
    """

    bleu: float
    chrf: float
    ter: float
    sentences: int
    signatures: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, value, and how it was computed."""
        return [
            ("BLEU", f"{self.bleu:.1f}", self.signatures["bleu"]),
            ("chrF", f"{self.chrf:.1f}", self.signatures["chrf"]),
            ("TER", f"{self.ter:.1f}", self.signatures["ter"]),
        ]

    def details(self) -> str:
        """Return "": there is nothing more to show."""
        return ""


def translation_metrics(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a"
) -> TranslationMetrics:
    """Return the metrics of translations, each with one reference.

    The time for TER is cubic in the length of a sentence: a sentence of 500 words may take a second.

    Args:
        hypotheses: detokenised translations.
        references: reference of each translation.
        tokenize: tokenizer of sacrebleu for BLEU, see `bleu_tokenizer_for`. With "zh" and "char", TER also counts
            Chinese and Japanese text by characters.

    Raises:
        CorpusError: if the numbers of lines differ or are zero.
        SettingsError: if the tokenizer is unknown.

    Example:
        >>> metrics = translation_metrics(["The light is off now."], ["The light is off now."])
        >>> round(metrics.bleu), metrics.ter
        (100, 0.0)
    """
    check_parallel("the hypotheses", hypotheses, references)
    check_tokenizer(tokenize)
    by_character = tokenize in ("zh", "char")
    metrics = {
        "bleu": BLEU(tokenize=tokenize),
        "chrf": CHRF(),
        "ter": TER(normalized=by_character, asian_support=by_character),
    }
    values = {name: float(metric.corpus_score(hypotheses, [references]).score) for name, metric in metrics.items()}
    return TranslationMetrics(
        **values,
        sentences=len(references),
        signatures={name: str(metric.get_signature()) for name, metric in metrics.items()},
    )


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return the chrF2 of each translation by itself, 0 to 100.

    Args:
        hypotheses: detokenised translations.
        references: reference of each translation.

    Raises:
        CorpusError: if the numbers of lines differ or are zero.

    Example:
        >>> [round(value) for value in sentence_chrf(["The light is off."], ["The light is off."])]
        [100]
    """
    check_parallel("the hypotheses", hypotheses, references)
    metric = CHRF()
    return [
        float(metric.sentence_score(hypothesis, [reference]).score)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]


def bleu_tokenizer_for(target_language: str | None) -> str:
    """Return sacrebleu's tokenizer for BLEU in a language, "13a" by default.

    Japanese and Korean are compared by characters, because sacrebleu's tokenizers for them need MeCab and dictionaries.

    Args:
        target_language: language code such as "de", "zh-Hans" or "pt_BR"; None if it is not known.

    Example:
        >>> bleu_tokenizer_for("zh-Hans")
        'zh'
    """
    if target_language is None:
        return "13a"
    primary = target_language.replace("_", "-").split("-")[0].lower()
    if primary in _CHINESE:
        return "zh"
    return "char" if primary in _BY_CHARACTER else "13a"


def perplexity(log_probability_sum: float, tokens: int) -> float:
    """Return exp(-log_probability_sum / tokens), or infinity if that is too large.

    Args:
        log_probability_sum: sum of the natural logarithms of the tokens' probabilities.
        tokens: number of tokens.

    Raises:
        CorpusError: if there are no tokens.
    """
    if tokens < 1:
        raise CorpusError(f"cannot compute the perplexity of {tokens} tokens; there must be at least one")
    try:
        return math.exp(-log_probability_sum / tokens)
    except OverflowError:
        return math.inf


def check_parallel(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise CorpusError unless the numbers of hypotheses and references are equal and not zero.

    Args:
        name: name of the hypotheses in messages, such as "the hypotheses".
        hypotheses: the translations.
        references: reference of each translation.
    """
    if len(hypotheses) != len(references):
        raise CorpusError(
            f"{name} have {len(hypotheses)} lines, the references {len(references)}; "
            "line n of both must be translations of the same source"
        )
    if not references:
        raise CorpusError("there is nothing to evaluate: the test set has no lines")


def check_tokenizer(tokenize: str) -> None:
    """Raise SettingsError unless `tokenize` is one of `TOKENIZERS`."""
    if tokenize not in TOKENIZERS:
        raise SettingsError(f"unknown BLEU tokenizer {tokenize!r}; choose one of {', '.join(TOKENIZERS)}")
