"""What `dragoman evaluate` can score: translations, sequences of symbols, summaries."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from dragoman.data.readers import Pair
from dragoman.evaluation.error_rates import SymbolScores, check_length_bounds, compare_symbols, score_symbols
from dragoman.evaluation.metrics import Scores, bleu_tokenizer_for, score_translations
from dragoman.evaluation.references import group_references
from dragoman.evaluation.rouge import SummaryScores, check_installed, compare_summaries, score_summaries
from dragoman.evaluation.significance import BASELINE, Significance, paired_bootstrap


class Report(Protocol):
    """Scores as a person or a program reads them."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value, and how it was computed."""

    def details(self) -> str:
        """What else there is to see, in plain text; "" for nothing."""

    def to_json(self) -> dict[str, object]:
        """Plain values for json.dump."""


class Task(ABC):
    """A test set, and how outputs for it are scored. What would keep them from being scored is raised at once.

    Args:
        sources: given to the model once each.
        references: those of each source.
        rows: for each line of the test set, the number of its source.
    """

    def __init__(self, sources: Sequence[str], references: Sequence[Sequence[str]], rows: Sequence[int]) -> None:
        self.sources = sources
        self.references = references
        self.rows = rows

    @abstractmethod
    def score(self, outputs: Sequence[str], name: str) -> Report:
        """Score one output for each source; `name` is the system's in tables."""

    @abstractmethod
    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """How sure the difference is between the outputs of the system `name` and those of another."""


class Translations(Task):
    """Lines and their translations, each line for itself."""

    def __init__(self, pairs: Sequence[Pair], language: str | None) -> None:
        super().__init__([pair.source for pair in pairs], [[pair.target] for pair in pairs], range(len(pairs)))
        self._targets = [pair.target for pair in pairs]
        self._tokenize = bleu_tokenizer_for(language)

    def score(self, outputs: Sequence[str], name: str) -> Scores:
        """See `Task`."""
        return score_translations(outputs, self._targets, tokenize=self._tokenize)

    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """See `Task`."""
        return paired_bootstrap(self._targets, baseline, {name: outputs}, tokenize=self._tokenize)


class Symbols(Task):
    """Sequences of symbols that white space separates, with one or more references for each source."""

    def __init__(self, pairs: Sequence[Pair], length_bounds: Sequence[int]) -> None:
        check_length_bounds(length_bounds)
        super().__init__(*_grouped(pairs))
        self._length_bounds = length_bounds

    def score(self, outputs: Sequence[str], name: str) -> SymbolScores:
        """See `Task`."""
        return score_symbols(outputs, self.references, self.sources, length_bounds=self._length_bounds)

    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """See `Task`."""
        return compare_symbols(self.references, BASELINE, {BASELINE: baseline, name: outputs})


class Summaries(Task):
    """Texts and their summaries, with one or more references for each text."""

    def __init__(self, pairs: Sequence[Pair], language: str | None) -> None:
        check_installed()
        super().__init__(*_grouped(pairs))
        self._language = language

    def score(self, outputs: Sequence[str], name: str) -> SummaryScores:
        """See `Task`."""
        return score_summaries(outputs, self.references, self.sources, system=name, language=self._language)

    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """See `Task`."""
        systems = {BASELINE: baseline, name: outputs}
        return compare_summaries(self.references, BASELINE, systems, language=self._language)


def _grouped(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]], list[int]]:
    """Each source once, all its references, and the number of each line's source."""
    grouped = group_references(pairs)
    numbers = {source: number for number, source in enumerate(grouped)}
    return list(grouped), list(grouped.values()), [numbers[pair.source] for pair in pairs]
