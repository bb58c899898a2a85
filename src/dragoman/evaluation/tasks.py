"""Evaluation tasks, the choices of `dragoman evaluate --metric`: translations, sequences of symbols, summaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.errors import SettingsError
from dragoman.evaluation.task import Task, TaskOptions, TextPair

if TYPE_CHECKING:
    from dragoman.evaluation.error_rates import SymbolMetrics
    from dragoman.evaluation.metrics import TranslationMetrics
    from dragoman.evaluation.rouge import SummaryMetrics
    from dragoman.evaluation.significance import Significance


class Translations(Task):
    """Translations, with one reference for each line."""

    grouped = False

    def evaluate(self, outputs: Sequence[str], name: str) -> TranslationMetrics:
        """See `Task`."""
        from dragoman.evaluation.metrics import bleu_tokenizer_for, translation_metrics

        return translation_metrics(outputs, self._targets, tokenize=bleu_tokenizer_for(self.options.language))

    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """See `Task`."""
        from dragoman.evaluation.metrics import bleu_tokenizer_for
        from dragoman.evaluation.significance import paired_bootstrap

        tokenize = bleu_tokenizer_for(self.options.language)
        return paired_bootstrap(self._targets, baseline, {name: outputs}, tokenize=tokenize)

    @property
    def _targets(self) -> list[str]:
        return [reference for [reference] in self.references]


class Symbols(Task):
    """Sequences of symbols separated by white space, with one or more references for each source."""

    def __init__(self, pairs: Sequence[TextPair], options: TaskOptions) -> None:
        from dragoman.evaluation.error_rates import check_length_bounds

        check_length_bounds(options.length_bounds)
        super().__init__(pairs, options)

    def evaluate(self, outputs: Sequence[str], name: str) -> SymbolMetrics:
        """See `Task`."""
        from dragoman.evaluation.error_rates import symbol_metrics

        bounds = self.options.length_bounds
        return symbol_metrics(outputs, self.references, self.sources, length_bounds=bounds)

    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """See `Task`."""
        from dragoman.evaluation.error_rates import compare_symbols
        from dragoman.evaluation.significance import BASELINE

        return compare_symbols(self.references, BASELINE, {BASELINE: baseline, name: outputs})


class Summaries(Task):
    """Summaries, with one or more references for each source."""

    def __init__(self, pairs: Sequence[TextPair], options: TaskOptions) -> None:
        from dragoman.evaluation.rouge import check_installed

        check_installed()
        super().__init__(pairs, options)

    def evaluate(self, outputs: Sequence[str], name: str) -> SummaryMetrics:
        """See `Task`."""
        from dragoman.evaluation.rouge import summary_metrics

        language = self.options.language
        return summary_metrics(outputs, self.references, self.sources, system=name, language=language)

    def compare(self, baseline: Sequence[str], name: str, outputs: Sequence[str]) -> Significance:
        """See `Task`."""
        from dragoman.evaluation.rouge import compare_summaries
        from dragoman.evaluation.significance import BASELINE

        systems = {BASELINE: baseline, name: outputs}
        return compare_summaries(self.references, BASELINE, systems, language=self.options.language)


TASKS: dict[str, type[Task]] = {
    "translation": Translations,
    "symbols": Symbols,
    "summary": Summaries,
}


def task_named(name: str, pairs: Sequence[TextPair], options: TaskOptions) -> Task:
    """Return the evaluation task of this name for a test set.

    Args:
        name: name in `TASKS`.
        pairs: source and reference of each line of the test set.
        options: options of the task.

    Raises:
        SettingsError: if the name is unknown, an option is invalid, or a required package is not installed.

    Example:
        >>> task = task_named("translation", [("Open", "Auf")], TaskOptions(language="de"))
        >>> round(task.evaluate(["Auf"], "mine").chrf)
        100
    """
    if name not in TASKS:
        raise SettingsError(f"unknown metric {name!r}: choose one of {', '.join(TASKS)}")
    return TASKS[name](pairs, options)
