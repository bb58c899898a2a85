"""Translate a test set with a model and score the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dragoman.evaluation.alignment import AlignmentMetrics, Reference, alignment_metrics
from dragoman.evaluation.metrics import perplexity
from dragoman.evaluation.significance import Significance
from dragoman.evaluation.task import Report, Task
from dragoman.search.config import DEFAULT_SEARCH, SearchConfig

if TYPE_CHECKING:
    from dragoman.alignment.heads import AlignmentHead
    from dragoman.models.token_statistics import TokenStatistic
    from dragoman.translation.results import Translation
    from dragoman.translation.translator import Translator

# Called with the number of lines translated so far and the number of all lines.
OnProgress = Callable[[int, int], None]


def _nothing(*_: object) -> None:
    """Report to nobody."""


@dataclass(frozen=True, kw_only=True)
class ReferenceAlignment:
    """A reference of word alignments for each pair of a test set, and the head whose links are scored against it."""

    head: AlignmentHead
    references: Sequence[Reference]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model reached on a test set.

    name               the model's in tables
    task, search       what was scored, and how it was translated
    outputs            one for each source of the task
    scores             of the outputs
    perplexity         of the references, per subword
    figures            what the model reports of itself, by name
    split, truncated   sources that were split, outputs that the maximum length ended
    copied             sources of which something, or all, was copied rather than translated
    not_scored         pairs too long to count in perplexity and figures
    max_source_tokens  longer sources were split
    engine             what translated, in a few words
    comparison         with another model, see `against`
    alignment          scores of word alignments, if there was a reference
    """

    name: str
    task: Task
    search: SearchConfig
    outputs: Sequence[str]
    scores: Report
    perplexity: float
    figures: Mapping[str, TokenStatistic]
    split: int
    truncated: int
    copied: int
    not_scored: int
    max_source_tokens: int
    engine: str
    comparison: Significance | None = None
    alignment: AlignmentMetrics | None = None

    def against(self, other: Translator, *, on_progress: OnProgress = _nothing) -> Evaluation:
        """Return this evaluation with a comparison: how sure the difference from another model is.

        The other model translates the same sources by the same search.
        """
        found = _translate(other, self.task.sources, self.search, on_progress)
        baseline = [translation.text for translation in found]
        return replace(self, comparison=self.task.compare(baseline, self.name, self.outputs))

    def to_json(self) -> dict[str, object]:
        """Return plain values; figures, alignment and comparison only if there are any."""
        report: dict[str, object] = {
            **self.scores.to_json(),
            "perplexity": self.perplexity,
            "split": self.split,
            "truncated": self.truncated,
            "copied": self.copied,
            "not_scored": self.not_scored,
            "max_source_tokens": self.max_source_tokens,
            "engine": self.engine,
        }
        if self.figures:
            report["figures"] = {name: figure.to_json() for name, figure in self.figures.items()}
        if self.alignment is not None:
            report["alignment"] = asdict(self.alignment)
        if self.comparison is not None:
            report["against"] = asdict(self.comparison)
        return report

    def table(self) -> str:
        """Return name, value and note of each figure in columns of plain text."""
        rows = [*self.scores.rows(), ("perplexity", f"{self.perplexity:.2f}", "per subword of the reference")]
        for name, figure in self.figures.items():
            rows.append((name, f"{figure.mean:.2f}", f"mean over tokens; at most {figure.maximum:g}"))
        if self.alignment is not None:
            found = self.alignment
            rows.append(("AER", f"{100 * found.error_rate:.1f}", "alignment error rate, %; lower is better"))
            rows.append(("alignment precision", f"{100 * found.precision:.1f}", f"% of {found.links:,} links"))
            rows.append(("alignment recall", f"{100 * found.recall:.1f}", "% of the sure links"))
        names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
        return "\n".join(f"{name:<{names}}  {value:>{max(values, 6)}}   {note}".rstrip() for name, value, note in rows)

    def notes(self) -> Iterator[str]:
        """Yield what should be known of the outputs."""
        sources = len(self.task.sources)
        if self.split:
            yield (
                f"{self.split:,} of {sources:,} sources had more than {self.max_source_tokens:,} subwords and were "
                "split into pieces; --max-source-tokens sets this limit"
            )
        if self.truncated:
            yield f"{self.truncated:,} of {sources:,} outputs were ended by the maximum length, not by the model"
        if self.copied:
            yield (
                f"{self.copied:,} of {sources:,} sources were copied, in part or as a whole: runs of one character and "
                "other text that no model has learned, or lines longer than --max-line-characters"
            )
        if self.not_scored:
            yield f"the perplexity is without {self.not_scored:,} pairs, longer than --max-line-characters"

    def examples(self, wanted: int) -> list[tuple[str, Sequence[str], str]]:
        """Return source, references and output of up to `wanted` sources, evenly over the test set."""
        count = len(self.outputs)
        wanted = min(wanted, count)
        chosen = [number * count // wanted for number in range(wanted)]
        return [(self.task.sources[i], self.task.references[i], self.outputs[i]) for i in chosen]


def evaluate(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    task: Task,
    *,
    name: str = "model",
    search: SearchConfig = DEFAULT_SEARCH,
    alignment: ReferenceAlignment | None = None,
    keep: Callable[[Sequence[str]], None] = _nothing,
    on_progress: OnProgress = _nothing,
) -> Evaluation:
    """Translate the sources of a test set and score the outputs.

    Args:
        pairs: the lines of the test set, of which `task` is made.
        task: how the outputs are scored: see `evaluation.tasks`.
        name: the model's in tables.
        search: how to translate.
        alignment: also score how the model aligns the pairs.
        keep: called with the outputs, one for each source, before anything is scored.
        on_progress: called with progress.

    Raises:
        UserError: when the outputs cannot be scored, or the models cannot do what is asked.
    """
    translations = _translate(translator, task.sources, search, on_progress)
    outputs = [translation.text for translation in translations]
    keep(outputs)
    scorable = [pair for pair, takes in zip(pairs, translator.scorable(pairs), strict=True) if takes]
    likelihood = translator.score(scorable)
    return Evaluation(
        name=name,
        task=task,
        search=search,
        outputs=outputs,
        scores=task.score(outputs, name),
        perplexity=perplexity(
            sum(score.log_probability for score in likelihood), sum(score.tokens for score in likelihood)
        ),
        figures=translator.token_statistics(scorable),
        split=sum(translation.pieces > 1 for translation in translations),
        truncated=sum(translation.truncated for translation in translations),
        copied=sum(translation.copied > 0 for translation in translations),
        not_scored=len(pairs) - len(scorable),
        max_source_tokens=translator.max_source_tokens,
        engine=translator.engine,
        alignment=None if alignment is None else _score_alignment(translator, pairs, alignment),
    )


def _translate(
    translator: Translator, sources: Sequence[str], search: SearchConfig, on_progress: OnProgress
) -> list[Translation]:
    translations = []
    on_progress(0, len(sources))
    for translation in translator.translate_stream(iter(sources), search=search):
        translations.append(translation)
        on_progress(len(translations), len(sources))
    return translations


def _score_alignment(
    translator: Translator, pairs: Sequence[tuple[str, str]], alignment: ReferenceAlignment
) -> AlignmentMetrics:
    return alignment_metrics(translator.align(pairs, alignment.head), alignment.references)
