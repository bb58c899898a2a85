"""Evaluation of a model on a test set."""

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
    """Ignore a report."""


@dataclass(frozen=True, kw_only=True)
class ReferenceAlignment:
    """Reference word alignments of a test set, and the attention head to compare with them.

    Attributes:
        head: the attention head.
        references: one per pair of the test set.
    """

    head: AlignmentHead
    references: Sequence[Reference]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of the evaluation of a model on a test set.

    Attributes:
        name: name of the model in tables.
        task: the task, which holds sources and references.
        search: settings of the search.
        outputs: one per source of the task.
        metrics: metrics of the outputs.
        perplexity: of the references, per subword.
        token_statistics: statistics that the model reports about tokens, by name.
        split: number of sources that were split.
        truncated: number of outputs ended by the maximum length.
        copied: number of sources that were copied in part or as a whole.
        not_scored: number of pairs too long to be included in `perplexity` and `token_statistics`.
        max_source_tokens: sources of more tokens were split.
        engine: short description of the engine.
        significance: significance test against another model, see `against`.
        alignment: metrics of word alignments, if there were reference alignments.
    """

    name: str
    task: Task
    search: SearchConfig
    outputs: Sequence[str]
    metrics: Report
    perplexity: float
    token_statistics: Mapping[str, TokenStatistic]
    split: int
    truncated: int
    copied: int
    not_scored: int
    max_source_tokens: int
    engine: str
    significance: Significance | None = None
    alignment: AlignmentMetrics | None = None

    def against(self, other: Translator, *, on_progress: OnProgress = _nothing) -> Evaluation:
        """Return this evaluation with a test of the significance of the difference from another model.

        Args:
            other: the model to compare with; it translates the same sources with the same search settings.
            on_progress: called with the number of lines translated so far and the number of all lines.

        Returns:
            A copy with `significance` set.

        Raises:
            FloatingPointError: if the other model computes probabilities that are not finite.

        Example:
            >>> from dragoman import Translator
            >>> from dragoman.evaluation.task import TaskOptions
            >>> from dragoman.evaluation.tasks import task_named
            >>> from dragoman.translation.evaluation import evaluate
            >>> pairs = [("Turn off the light.", "Schalte das Licht aus."), ("Please wait.", "Bitte warten.")]
            >>> task = task_named("translation", pairs, TaskOptions())
            >>> evaluation = evaluate(Translator.load("models/mine"), pairs, task)
            >>> evaluation = evaluation.against(Translator.load("models/mine", engine="torch"))
            >>> table = evaluation.significance.table()
        """
        translations = translate_all(other, self.task.sources, self.search, on_progress)
        baseline = [translation.text for translation in translations]
        return replace(self, significance=self.task.compare(baseline, self.name, self.outputs))

    def to_json(self) -> dict[str, object]:
        """Return plain values for `json.dump`; optional parts are left out if they were not computed."""
        report: dict[str, object] = {
            **self.metrics.to_json(),
            "perplexity": self.perplexity,
            "split": self.split,
            "truncated": self.truncated,
            "copied": self.copied,
            "not_scored": self.not_scored,
            "max_source_tokens": self.max_source_tokens,
            "engine": self.engine,
        }
        if self.token_statistics:
            report["token_statistics"] = {name: value.to_json() for name, value in self.token_statistics.items()}
        if self.alignment is not None:
            report["alignment"] = asdict(self.alignment)
        if self.significance is not None:
            report["against"] = self.significance.to_json()
        return report

    def table(self) -> str:
        """Return name, value and note of each metric as columns of plain text."""
        rows = [*self.metrics.rows(), ("perplexity", f"{self.perplexity:.2f}", "per subword of the reference")]
        for name, value in self.token_statistics.items():
            rows.append((name, f"{value.mean:.2f}", f"mean over tokens; maximum {value.maximum:g}"))
        if self.alignment is not None:
            metrics = self.alignment
            rows.append(("AER", f"{100 * metrics.error_rate:.1f}", "alignment error rate, %; lower is better"))
            rows.append(("link precision", f"{100 * metrics.precision:.1f}", f"% of {metrics.links:,} links"))
            rows.append(("link recall", f"{100 * metrics.recall:.1f}", "% of the sure links"))
        names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
        return "\n".join(f"{name:<{names}}  {value:>{max(values, 6)}}   {note}".rstrip() for name, value, note in rows)

    def notes(self) -> Iterator[str]:
        """Yield remarks on outputs that were split, truncated, copied or not scored."""
        sources = len(self.task.sources)
        if self.split:
            yield (
                f"{self.split:,} of {sources:,} sources had more than {self.max_source_tokens:,} subwords and were "
                "split into segments; --max-source-tokens sets this limit"
            )
        if self.truncated:
            yield f"{self.truncated:,} of {sources:,} outputs were ended by the maximum length, not by the model"
        if self.copied:
            yield (
                f"{self.copied:,} of {sources:,} sources were copied, in part or as a whole: runs of one character and "
                "other text that no model has learned, or lines longer than --max-line-characters"
            )
        if self.not_scored:
            yield f"the perplexity excludes {self.not_scored:,} pairs longer than --max-line-characters"

    def examples(self, count: int) -> list[tuple[str, Sequence[str], str]]:
        """Return source, references and output of up to `count` sources, evenly spaced over the test set."""
        sources = len(self.outputs)
        count = min(count, sources)
        rows = [number * sources // count for number in range(count)]
        return [(self.task.sources[row], self.task.references[row], self.outputs[row]) for row in rows]


def evaluate(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    task: Task,
    *,
    name: str = "model",
    search: SearchConfig = DEFAULT_SEARCH,
    alignment: ReferenceAlignment | None = None,
    on_outputs: Callable[[Sequence[str]], None] = _nothing,
    on_progress: OnProgress = _nothing,
) -> Evaluation:
    """Translate the sources of a test set and compute metrics of the outputs.

    Args:
        translator: the model or ensemble to evaluate.
        pairs: the (source, reference) pairs of the test set, from which `task` was made.
        task: computes the metrics; see `evaluation.tasks`.
        name: name of the model in tables.
        search: settings of the search.
        alignment: reference alignments; if given, the model's word alignments of the pairs are evaluated too.
        on_outputs: called with the outputs, one per source, before any metric is computed.
        on_progress: called with the number of lines translated so far and the number of all lines.

    Returns:
        The evaluation.

    Raises:
        UserError: if the metrics cannot be computed, or the models lack what `alignment` needs.
        FloatingPointError: if the models compute probabilities that are not finite.

    Example:
        >>> from dragoman import Translator
        >>> from dragoman.data.readers import parse_corpus, read_pairs
        >>> from dragoman.evaluation.task import TaskOptions
        >>> from dragoman.evaluation.tasks import task_named
        >>> from dragoman.translation.evaluation import evaluate
        >>> pairs = list(read_pairs(parse_corpus("test.tsv")))
        >>> task = task_named("translation", pairs, TaskOptions(language="de"))
        >>> evaluation = evaluate(Translator.load("models/mine"), pairs, task)
        >>> print(evaluation.table())
        BLEU ...
    """
    translations = translate_all(translator, task.sources, search, on_progress)
    outputs = [translation.text for translation in translations]
    on_outputs(outputs)
    scorable = [pair for pair, is_scorable in zip(pairs, translator.scorable(pairs), strict=True) if is_scorable]
    scores = translator.score(scorable)
    return Evaluation(
        name=name,
        task=task,
        search=search,
        outputs=outputs,
        metrics=task.evaluate(outputs, name),
        perplexity=perplexity(sum(score.log_probability for score in scores), sum(score.tokens for score in scores)),
        token_statistics=translator.token_statistics(scorable),
        split=sum(translation.segments > 1 for translation in translations),
        truncated=sum(translation.truncated for translation in translations),
        copied=sum(translation.copied > 0 for translation in translations),
        not_scored=len(pairs) - len(scorable),
        max_source_tokens=translator.max_source_tokens,
        engine=translator.engine,
        alignment=None if alignment is None else _alignment_metrics(translator, pairs, alignment),
    )


def translate_all(
    translator: Translator, sources: Sequence[str], search: SearchConfig, on_progress: OnProgress
) -> list[Translation]:
    """Translate the sources of a test set.

    Args:
        translator: the model or ensemble.
        sources: the sources.
        search: settings of the search.
        on_progress: called with the number of lines translated so far and the number of all lines.
    """
    translations = []
    on_progress(0, len(sources))
    for translation in translator.translate_stream(iter(sources), search=search):
        translations.append(translation)
        on_progress(len(translations), len(sources))
    return translations


def _alignment_metrics(
    translator: Translator, pairs: Sequence[tuple[str, str]], alignment: ReferenceAlignment
) -> AlignmentMetrics:
    return alignment_metrics(translator.align(pairs, alignment.head), alignment.references)
