"""Scores of translations against references: BLEU, chrF, TER (by sacrebleu) and perplexity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from dragoman.errors import CorpusError, SettingsError

# What sacrebleu can do without further packages or downloads.
TOKENIZERS = ("13a", "intl", "zh", "char", "none")

# Primary language subtags, of BCP 47. The others: scripts that put no spaces between words.
_CHINESE = frozenset({"zh", "cmn", "yue", "lzh"})
_BY_CHARACTER = frozenset({"ja", "ko", "th", "lo", "km", "my", "bo", "dz"})


@dataclass(frozen=True, kw_only=True)
class TranslationMetrics:
    """Corpus scores of detokenised text.

    Attributes:
        bleu: 0 to 100, higher is better (Papineni et al., 2002; exponential smoothing).
        chrf: chrF2, 0 to 100, higher is better (Popović, 2015).
        ter: edits per 100 reference words, lower is better (Snover et al., 2006); may exceed 100.
        sentences: how many there are.
        signatures: sacrebleu's statement of how each was computed, by the names above.
    """

    bleu: float
    chrf: float
    ter: float
    sentences: int
    signatures: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """Plain values for json.dump."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value, and how it was computed."""
        return [
            ("BLEU", f"{self.bleu:.1f}", self.signatures["bleu"]),
            ("chrF", f"{self.chrf:.1f}", self.signatures["chrf"]),
            ("TER", f"{self.ter:.1f}", self.signatures["ter"]),
        ]

    def details(self) -> str:
        """Nothing more."""
        return ""


def translation_metrics(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a"
) -> TranslationMetrics:
    """Score hypotheses[i] against its one reference references[i].

    `tokenize` is sacrebleu's tokenizer for BLEU: see `bleu_tokenizer_for`. With "zh" and "char",
    TER counts Chinese and Japanese by characters too. TER slows down with the cube of a sentence's
    length: a sentence of 500 words may take a second.

    Raises CorpusError when the numbers of lines differ or are zero, SettingsError for an unknown tokenizer.
    """
    check_parallel("the hypotheses", hypotheses, references)
    check_tokenizer(tokenize)
    by_character = tokenize in ("zh", "char")
    metrics = {
        "bleu": BLEU(tokenize=tokenize),
        "chrf": CHRF(),
        "ter": TER(normalized=by_character, asian_support=by_character),
    }
    scores = {name: float(metric.corpus_score(hypotheses, [references]).score) for name, metric in metrics.items()}
    return TranslationMetrics(
        **scores,
        sentences=len(references),
        signatures={name: str(metric.get_signature()) for name, metric in metrics.items()},
    )


def bleu_tokenizer_for(target_language: str | None) -> str:
    """The tokenizer to use for BLEU in a language ("de", "zh-Hans", "pt_BR"), "13a" by default.

    Japanese and Korean are scored by characters: sacrebleu's own ways need MeCab and dictionaries.
    """
    if target_language is None:
        return "13a"
    primary = target_language.replace("_", "-").split("-")[0].lower()
    if primary in _CHINESE:
        return "zh"
    return "char" if primary in _BY_CHARACTER else "13a"


def perplexity(log_probability_sum: float, tokens: int) -> float:
    """exp(-log_probability_sum / tokens), of natural logarithms; infinite when too large.

    Raises CorpusError when there are no tokens.
    """
    if tokens < 1:
        raise CorpusError(f"perplexity over {tokens} tokens; there must be at least one")
    try:
        return math.exp(-log_probability_sum / tokens)
    except OverflowError:
        return math.inf


def check_parallel(what: str, hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise CorpusError unless there are as many hypotheses as references, and some."""
    if len(hypotheses) != len(references):
        raise CorpusError(
            f"{what} have {len(hypotheses)} lines, the references {len(references)}; "
            "line n of one must translate what line n of the other does"
        )
    if not references:
        raise CorpusError("nothing to score: there are no lines")


def check_tokenizer(tokenize: str) -> None:
    """Raise SettingsError unless BLEU can use this tokenizer here."""
    if tokenize not in TOKENIZERS:
        raise SettingsError(f"no BLEU tokenizer {tokenize!r}; choose from {', '.join(TOKENIZERS)}")
