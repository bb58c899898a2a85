"""Scores of summaries against references: ROUGE-1, ROUGE-2 and ROUGE-L (Lin, 2004), beside the lead of the source.

Computed by rouge-score, Google's port of ROUGE-1.5.5, an optional extra.
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

# Names in tables, and in rouge-score.
METRICS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
# No model directory is called so in a table.
LEAD = "(lead)"


class RougeTokenizer(Protocol):
    """What rouge-score asks of a tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        """The words that count."""


@dataclass(frozen=True, kw_only=True)
class RougeValues:
    """Means over summaries, 0 to 100, higher is better.

    With m the n-grams that summary and reference share (ROUGE-L: the length of their longest common subsequence),
    precision is m over the summary's n-grams, recall m over the reference's, and f1 their harmonic mean; of several
    references that with the highest f1 counts.
    """

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class SummaryMetrics:
    """Scores of one system and of the lead of the source.

    Attributes:
        rouge, lead: by "rouge1", "rouge2" and "rougeL".
        lead_words: how many words of the source the lead has.
        significance: the f1 of both, with intervals, and of their difference.
        summaries: how many there are.
        unreadable: references without any word that ROUGE's tokenizer knows; nothing equals them.
        signature: how all this was computed.
    """

    rouge: Mapping[str, RougeValues]
    lead: Mapping[str, RougeValues]
    lead_words: int
    significance: Significance
    summaries: int
    unreadable: int
    signature: str

    def to_json(self) -> dict[str, object]:
        """Plain values for json.dump."""
        return {
            **{name: asdict(score) for name, score in self.rouge.items()},
            "lead": {name: asdict(score) for name, score in self.lead.items()},
            "lead_words": self.lead_words,
            "against_lead": asdict(self.significance),
            "summaries": self.summaries,
            "unreadable": self.unreadable,
            "signatures": {"rouge": self.signature},
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value, and how it was computed."""
        return [
            (name, f"{self.rouge[key].f1:.2f}", f"F1; {self.signature}" if key == "rouge1" else "")
            for name, key in METRICS.items()
        ]

    def details(self) -> str:
        """A table in plain text of system and lead, and what should be known of them."""
        lines = [
            f"{self.significance.table()}",
            f"{LEAD}: the first {self.lead_words} words of the source, as many as the mean reference has",
        ]
        if self.unreadable:
            lines.append(
                f"references without any word that ROUGE's tokenizer knows (tok: above): {self.unreadable:,}; was the "
                "model trained with its target_language?"
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
    """Score summaries[i] of sources[i] against the best of references[i], and beside it the lead of the source.

    The lead is the simplest summary, which good ones must beat: the first words of the source, as many as the mean
    reference has. `system` is what the table calls the summaries.

    Words are ROUGE-1.5.5's for English and where the language is not known: runs of the letters a to z and digits,
    lower case, stemmed (Porter, 1980). Other languages have other letters: lower-cased words by sacrebleu's
    "intl", Chinese by its "zh" and what else has no spaces by its "char", without punctuation and not stemmed.

    Raises CorpusError when the numbers of lines differ or are zero, SettingsError when rouge-score is not installed.
    """
    check_references("the summaries", summaries, references)
    assert len(sources) == len(summaries)
    words = lead_words(references)
    systems = {LEAD: [lead(source, words) for source in sources], system: summaries}
    tokenizer, tokenized = _tokenizer_for(language)
    scores = {name: _score(outputs, references, tokenizer) for name, outputs in systems.items()}
    signature = _signature(references, tokenized)
    return SummaryMetrics(
        rouge=_means(scores[system]),
        lead=_means(scores[LEAD]),
        lead_words=words,
        significance=_significance(scores, LEAD, signature, samples, seed),
        summaries=len(summaries),
        unreadable=sum(not tokenizer.tokenize(reference) for each in references for reference in each),
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
    """Paired bootstrap of the mean f1 of systems, given as {name: summaries}, against the one named `baseline`.

    Raises what `summary_metrics` raises.
    """
    for name, summaries in systems.items():
        check_references(f"the summaries of {name}", summaries, references)
    tokenizer, tokenized = _tokenizer_for(language)
    scores = {name: _score(summaries, references, tokenizer) for name, summaries in systems.items()}
    return _significance(scores, baseline, _signature(references, tokenized), samples, seed)


def check_installed() -> None:
    """Raise SettingsError unless rouge-score can be used."""
    if find_spec("rouge_score") is None:
        raise SettingsError("ROUGE needs rouge-score, which is not installed: pip install 'dragoman[summaries]'")


def lead_words(references: Sequence[References]) -> int:
    """The mean number of white-space separated words of all references, rounded, at least 1."""
    return max(round(statistics.fmean(len(reference.split()) for each in references for reference in each)), 1)


def lead(source: str, words: int) -> str:
    """The first so many white-space separated words of a source."""
    return " ".join(source.split()[:words])


def _score(
    summaries: Sequence[str], references: Sequence[References], tokenizer: RougeTokenizer
) -> dict[str, NDArray[np.float64]]:
    """Precision, recall and f1 of each summary [N, 3], 0 to 1, by rouge-score's names."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(METRICS.values()), tokenizer=tokenizer)
    scores = [scorer.score_multi(each, summary) for summary, each in zip(summaries, references, strict=True)]
    return {name: np.array([score[name] for score in scores], dtype=np.float64) for name in METRICS.values()}


def _means(scores: Mapping[str, NDArray[np.float64]]) -> dict[str, RougeValues]:
    means = {name: (100 * table.mean(axis=0)).tolist() for name, table in scores.items()}
    return {name: RougeValues(precision=mean[0], recall=mean[1], f1=mean[2]) for name, mean in means.items()}


def _significance(
    scores: Mapping[str, Mapping[str, NDArray[np.float64]]], baseline: str, signature: str, samples: int, seed: int
) -> Significance:
    comparisons: list[BootstrapResult] = []
    for metric, key in METRICS.items():
        # A mean is the sum of f1 over the sum of ones: [N] -> [N, 2]
        f1 = {name: np.stack([table[key][:, 2], np.ones(len(table[key]))], axis=1) for name, table in scores.items()}
        comparisons += resample(metric, f1, baseline, percentage, samples=samples, seed=seed)
    return Significance(
        comparisons=tuple(comparisons),
        signatures={"ROUGE": signature},
        sentences=len(next(iter(f1.values()))),
        samples=samples,
        seed=seed,
    )


@dataclass(frozen=True)
class _WordsWithoutPunctuation:
    """Tokens of a sacrebleu tokenizer that hold a letter or digit, in lower case."""

    split: Callable[[str], str]

    def tokenize(self, text: str) -> list[str]:
        return [word for word in self.split(text.lower()).split() if any(map(str.isalnum, word))]


def _tokenizer_for(language: str | None) -> tuple[RougeTokenizer, str]:
    """The tokenizer for a language ("de", "zh-Hans", "pt_BR"), and its name in a signature."""
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
