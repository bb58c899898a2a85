"""Interface of evaluation tasks: a test set, and the metrics computed from outputs for it.

A new task is a subclass of `Task` in a file of its own and a line in the table of `tasks`. Slow imports are inside its
methods, because the command line imports the table to list the choices of --metric.
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
    """Interface of metrics, for printing as text or JSON."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, value and method of computation of each metric."""

    def details(self) -> str:
        """Return further tables and notes as plain text; "" if there are none."""

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options of evaluation tasks; a task ignores those that it does not use.

    Attributes:
        language: language code of the references; None if it is not known.
        length_bounds: largest source length in each row of a table by length; if empty, the bounds are derived from the
            longest source.
    """

    language: str | None = None
    length_bounds: Sequence[int] = ()


class Task(ABC):
    """A test set, and the metrics of outputs for it.

    The constructor raises the errors that would prevent the evaluation, such as a missing package, so that they are
    reported before the test set is translated.

    Attributes:
        sources: inputs of the model.
        references: references of each source.
        rows: index of the source of each line of the test set.
        options: options of the task.
        grouped: True if lines with equal sources give the several references of one source; False if each line is a
            source of its own.
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
    def evaluate(self, outputs: Sequence[str], name: str) -> Report:
        """Return the metrics of a system.

        Args:
            outputs: output of the system for each source.
            name: name of the system in tables.
        """

    @abstractmethod
    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """Return a significance test of the difference between two systems.

        Args:
            baseline: output of the baseline for each source.
            name: name of the other system in tables.
            outputs: output of the other system for each source.
        """
