"""dragoman train"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from tyro.conf import arg

from dragoman.cli.choices import architectures, one_of, presets, tasks
from dragoman.cli.examples import Example
from dragoman.cli.options import CorpusNames, LanguageOptions, OptionalCorpus, OutDirectory, RunFileOptions


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model on your translations, or on running text."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Train on a TSV file; sizes are selected by the size of the corpus",
            "dragoman train mine.tsv --out models/mine",
        ),
        Example(
            "Train a language model on a text for ten minutes",
            "dragoman train --task language book.txt --out models/book --minutes 10",
        ),
    )

    corpora: CorpusNames
    out: OutDirectory
    """Model directory to write. Repeat the command to resume an interrupted run."""
    validation: OptionalCorpus = None
    """Corpus to validate on; by default a share of the training corpora is held out."""
    minutes: Annotated[float | None, arg(metavar="MINUTES", help_behavior_hint="")] = None
    """Training time; the learning rate schedule is fitted to it. By default training ends by number of updates."""
    task: Annotated[str | None, one_of(tasks()), arg(help_behavior_hint="")] = None
    """What the model is trained for; translation by default. language and masked take texts: files, folders, or
    X.jsonl; classify takes lines of a text, a tab and its label; tag takes lines of a word, a tab and its tag, with
    empty lines between sentences."""
    model: Annotated[str | None, one_of(architectures()), arg(help_behavior_hint="")] = None
    """Architecture; transformer by default, or the default of the task."""
    from_: Annotated[Path | None, arg(name="from", metavar="MODEL", help_behavior_hint="")] = None
    """Model to start from, with its vocabulary: for translation, a translator; for classify and tag, an encoder (of
    --task masked). By default the weights are random."""
    preset: Annotated[str | None, one_of(presets()), arg(help_behavior_hint="")] = None
    """Size of the model; selected by the size of the corpus by default."""
    language: LanguageOptions = LanguageOptions()
    run_file: RunFileOptions = RunFileOptions()

    def settings(self) -> dict[str, Any]:
        """Return the settings of the run file, overridden by the options, overridden by --set."""
        from dragoman.cli.run_file import read_run_file, with_minutes
        from dragoman.settings import apply_overrides

        options = {
            "task": self.task,
            "architecture": self.model,
            "preset": self.preset,
            "from_model": None if self.from_ is None else str(self.from_),
            "source_language": self.language.source_language,
            "target_language": self.language.target_language,
        }
        settings = read_run_file(self.run_file.config, options)
        return apply_overrides(with_minutes(settings, self.minutes), self.run_file.set_)

    def run(self) -> None:
        """Train, then print the result and the next commands."""
        from dragoman.cli.training import train_and_report

        train_and_report(self.corpora, self.out, self.validation, self.settings())
