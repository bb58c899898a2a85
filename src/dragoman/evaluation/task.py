"""What an evaluation can score: a test set, and how outputs for it are scored.

A kind of score is a subclass of `Task` in a file of its own, and a line in the table of `tasks`. Imports that take time
are inside its methods, as the command line imports the table for its choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from dragoman.evaluation.references import group_references

if TYPE_CHECKING:
    from dragoman.evaluation.significance import Significance

# A source and its reference, such as `data.readers.Pair`.
TextPair = tuple[str, str]


class Report(Protocol):
    """Scores as a person or a program reads them."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, value, and how it was computed."""

    def details(self) -> str:
        """Return what else there is to see, in plain text; "" for nothing."""

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What a task may use.

    language        code of the references' language; None when it is not known
    length_bounds   the longest source in each row of a table by length; without any, chosen by the longest of all
    """

    language: str | None = None
    length_bounds: Sequence[int] = ()


class Task(ABC):
    """A test set, and how outputs for it are scored. What would keep them from being scored is raised at once.

    Attributes:
        sources: given to the model once each.
        references: those of each source.
        rows: for each line of the test set, the number of its source.
        options: see `TaskOptions`.
        grouped: whether lines of one source are its several references; otherwise each line is a source of its own.
    """

    grouped: ClassVar[bool] = True

    def __init__(self, pairs: Sequence[TextPair], options: TaskOptions) -> None:
        self.options = options
        self.sources: Sequence[str]
        self.references: Sequence[Sequence[str]]
        self.rows: Sequence[int]
        if self.grouped:
            grouped = group_references(pairs)
            numbers = {source: number for number, source in enumerate(grouped)}
            self.sources, self.references = list(grouped), list(grouped.values())
            self.rows = [numbers[source] for source, _ in pairs]
        else:
            self.sources = [source for source, _ in pairs]
            self.references = [[reference] for _, reference in pairs]
            self.rows = range(len(pairs))

    @abstractmethod
    def score(self, outputs: Sequence[str], name: str) -> Report:
        """Score one output for each source; `name` is the system's in tables."""

    @abstractmethod
    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """Return how sure the difference is between the outputs of the system `name` and those of another."""
