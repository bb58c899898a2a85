"""Metrics of summaries against references: ROUGE-1, ROUGE-2 and ROUGE-L (Lin, 2004), compared with the lead.

The lead is the beginning of the source, a simple baseline. ROUGE is computed by rouge-score, Google's port of
ROUGE-1.5.5, which is an optional dependency.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from dragoman.errors import SettingsError
from dragoman.evaluation.metrics import bleu_tokenizer_for
from dragoman.evaluation.references import References, check_references, number_of_references
from dragoman.evaluation.significance import SAMPLES, SEED, BootstrapResult, Significance, percentage, resample

# Names of the metrics in tables, and their names in rouge-score.
METRICS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
# Name of the lead in tables; the parentheses distinguish it from names of models.
LEAD = "(lead)"


class RougeTokenizer(Protocol):
    """Interface of a tokenizer for rouge-score."""

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a text that are compared."""


@dataclass(frozen=True, kw_only=True)
class RougeValues:
    """Means of a ROUGE metric over summaries, 0 to 100, higher is better.

    Let m be the number of n-grams that summary and reference have in common (for ROUGE-L, the length of their longest
    common subsequence). If there are several references, the one with the highest f1 is used.

    Attributes:
        precision: ROUGE precision, m / the number of n-grams of the summary.
        recall: ROUGE recall, m / the number of n-grams of the reference.
        f1: harmonic mean of precision and recall.
    """

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class SummaryMetrics:
    """ROUGE of the summaries of a system and of the lead of the source; a `Report`.

    Attributes:
        rouge: values of the system, by "rouge1", "rouge2" and "rougeL".
        lead: values of the lead, by the same names.
        lead_words: number of words in the lead.
        significance: significance test of the f1 of the system against that of the lead.
        summaries: number of summaries.
        unreadable: number of references in which ROUGE's tokenizer finds no words; no summary matches them.
        signature: how the values were computed.
    """

    rouge: Mapping[str, RougeValues]
    lead: Mapping[str, RougeValues]
    lead_words: int
    significance: Significance
    summaries: int
    unreadable: int
    signature: str

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""
        return {
            **{name: asdict(values) for name, values in self.rouge.items()},
            "lead": {name: asdict(values) for name, values in self.lead.items()},
            "lead_words": self.lead_words,
            "against_lead": self.significance.to_json(),
            "summaries": self.summaries,
            "unreadable": self.unreadable,
            "signatures": {"rouge": self.signature},
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, value, and how it was computed."""
        return [
            (name, f"{self.rouge[key].f1:.2f}", f"F1; {self.signature}" if key == "rouge1" else "")
            for name, key in METRICS.items()
        ]

    def details(self) -> str:
        """Return a plain-text table of system and lead, with notes."""
        lines = [
            f"{self.significance.table()}",
            f"{LEAD}: the first {self.lead_words} words of the source, the mean length of the references",
        ]
        if self.unreadable:
            lines.append(
                f"{self.unreadable:,} references contain no words that ROUGE's tokenizer (tok: above) recognises; was "
                "the model trained with the correct target_language?"
            )
        return "\n".join(lines)


def summary_metrics(
    summaries: Sequence[str],
    references: Sequence[References],
    sources: Sequence[str],
    *,
    system: str = "model",
    language: str | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> SummaryMetrics:
    """Return ROUGE of summaries, each compared with the best of its references, and of the lead of the sources.

    The lead is a simple baseline that a good system must exceed: the first words of the source, as many as the
    references have on average.

    For English and for an unknown language, words are those of ROUGE-1.5.5: runs of the letters a to z and digits in
    lower case, stemmed (Porter, 1980). For other languages, text is converted to lower case and split by a tokenizer of
    sacrebleu ("zh" for Chinese, "char" for other languages without spaces, otherwise "intl"), punctuation is removed,
    and words are not stemmed.

    Args:
        summaries: summaries of the system.
        references: references of each summary.
        sources: source of each summary.
        system: name of the system in tables.
        language: language code of the summaries; None if it is not known.
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        CorpusError: if the numbers of lines differ or are zero.
        SettingsError: if rouge-score is not installed, or see `resample`.

    Example:
        >>> metrics = summary_metrics(["a cat"], [["a cat sat"]], ["a cat sat on the mat"], samples=10)
        >>> round(metrics.rouge["rouge1"].recall, 1)
        66.7
    """
    check_references("the summaries", summaries, references)
    assert len(sources) == len(summaries)
    words = lead_words(references)
    systems = {LEAD: [lead(source, words) for source in sources], system: summaries}
    tokenizer, tokenized = _tokenizer_for(language)
    values = {name: _rouge(outputs, references, tokenizer) for name, outputs in systems.items()}
    signature = _signature(references, tokenized)
    return SummaryMetrics(
        rouge=_means(values[system]),
        lead=_means(values[LEAD]),
        lead_words=words,
        significance=_significance(values, LEAD, signature, samples, seed),
        summaries=len(summaries),
        unreadable=sum(not tokenizer.tokenize(reference) for group in references for reference in group),
        signature=signature,
    )


def compare_summaries(
    references: Sequence[References],
    baseline: str,
    systems: Mapping[str, Sequence[str]],
    *,
    language: str | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Significance:
    """Return a paired bootstrap test of the mean f1 of systems against that of a baseline.

    Args:
        references: references of each source.
        baseline: name of the system that is the baseline.
        systems: summaries of each system by its name, including the baseline.
        language: language code of the summaries; None if it is not known.
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        CorpusError: see `summary_metrics`.
        SettingsError: see `summary_metrics`.
    """
    for name, summaries in systems.items():
        check_references(f"the summaries of {name}", summaries, references)
    tokenizer, tokenized = _tokenizer_for(language)
    values = {name: _rouge(summaries, references, tokenizer) for name, summaries in systems.items()}
    return _significance(values, baseline, _signature(references, tokenized), samples, seed)


def check_installed() -> None:
    """Raise SettingsError unless rouge-score is installed."""
    if find_spec("rouge_score") is None:
        raise SettingsError("ROUGE needs rouge-score, which is not installed: pip install 'dragoman[summaries]'")


def lead_words(references: Sequence[References]) -> int:
    """Return the mean number of words, separated by white space, of all references, rounded and at least 1."""
    return max(round(statistics.fmean(len(reference.split()) for group in references for reference in group)), 1)


def lead(source: str, words: int) -> str:
    """Return the first `words` words, separated by white space, of a source."""
    return " ".join(source.split()[:words])


def _rouge(
    summaries: Sequence[str], references: Sequence[References], tokenizer: RougeTokenizer
) -> dict[str, NDArray[np.float64]]:
    """Return precision, recall and f1 of each summary [N, 3], 0 to 1, by the names of rouge-score."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(METRICS.values()), tokenizer=tokenizer)
    values = [scorer.score_multi(group, summary) for summary, group in zip(summaries, references, strict=True)]
    return {name: np.array([row[name] for row in values], dtype=np.float64) for name in METRICS.values()}


def _means(values: Mapping[str, NDArray[np.float64]]) -> dict[str, RougeValues]:
    means = {name: (100 * table.mean(axis=0)).tolist() for name, table in values.items()}
    return {name: RougeValues(precision=mean[0], recall=mean[1], f1=mean[2]) for name, mean in means.items()}


def _significance(
    values: Mapping[str, Mapping[str, NDArray[np.float64]]], baseline: str, signature: str, samples: int, seed: int
) -> Significance:
    results: list[BootstrapResult] = []
    for metric, key in METRICS.items():
        # A mean is the sum of f1 divided by the sum of ones: [N] -> [N, 2]
        f1 = {name: np.stack([table[key][:, 2], np.ones(len(table[key]))], axis=1) for name, table in values.items()}
        results += resample(metric, f1, baseline, percentage, samples=samples, seed=seed)
    return Significance(
        results=tuple(results),
        signatures={"ROUGE": signature},
        sentences=len(next(iter(f1.values()))),
        samples=samples,
        seed=seed,
    )


@dataclass(frozen=True)
class _WordsWithoutPunctuation:
    """Tokenizer that returns the tokens of a sacrebleu tokenizer that contain a letter or digit, in lower case."""

    split: Callable[[str], str]

    def tokenize(self, text: str) -> list[str]:
        return [word for word in self.split(text.lower()).split() if any(map(str.isalnum, word))]


def _tokenizer_for(language: str | None) -> tuple[RougeTokenizer, str]:
    """Return the tokenizer for a language such as "de", "zh-Hans" or "pt_BR", and its name in a signature."""
    check_installed()
    from rouge_score.tokenizers import DefaultTokenizer

    if language is None or language.replace("_", "-").split("-")[0].lower() in ("en", "eng"):
        return DefaultTokenizer(use_stemmer=True), "tok:rouge|stem:porter"
    name = bleu_tokenizer_for(language)
    name = "intl" if name == "13a" else name
    return _WordsWithoutPunctuation(BLEU(tokenize=name).tokenizer), f"tok:{name}|stem:no"


def _signature(references: Sequence[References], tokenized: str) -> str:
    nrefs, installed = number_of_references(references), version("rouge-score")
    return f"nrefs:{nrefs}|case:lc|{tokenized}|lib:rouge-score|version:{installed}"
