"""dragoman compare"""

import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.choices import one_of, studies, study_tasks
from dragoman.cli.examples import Example
from dragoman.cli.options import CORPUS_FILES, LanguageOptions, OptionalCorpus, OutDirectory, RunFileOptions
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Train several architectures or variants on the same data and budget, and compare them."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Compare the architectures, five minutes each", "dragoman compare mine.tsv --minutes 5 --out studies/mine"
        ),
        Example(
            "Compare language models on a test text",
            "dragoman compare --task language book.txt --test other.txt --minutes 10 --out studies/book",
        ),
    )

    corpora: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="CORPUS ...",
            help=f"Sentence pairs: {CORPUS_FILES}; for language models, texts. Each variant reads them.",
            help_behavior_hint="",
        ),
    ]
    minutes: Annotated[float, arg(metavar="MINUTES")]
    """Training time per variant; the second table, at equal numbers of tokens, needs at most the same again."""
    out: OutDirectory
    """Directory to write: one model per variant, comparison.md, .html, .png and .svg."""
    task: Annotated[str | None, one_of(study_tasks()), arg(help_behavior_hint="")] = None
    """What the models are trained for; translation by default."""
    study: Annotated[str | None, one_of(studies()), arg(help_behavior_hint="")] = None
    """Study: what the variants differ in; architecture by default, or language-models."""
    validation: OptionalCorpus = None
    """Corpus to validate on; by default a share of the training corpora is held out."""
    test: OptionalCorpus = None
    """Corpus to evaluate on; the validation corpus by default."""
    language: LanguageOptions = LanguageOptions()
    run_file: RunFileOptions = RunFileOptions()

    def settings(self) -> dict[str, Any]:
        """Return the settings of the run file, overridden by the options, overridden by --set."""
        from dragoman.cli.run_file import read_run_file
        from dragoman.settings import apply_overrides

        options = {
            "task": self.task,
            "source_language": self.language.source_language,
            "target_language": self.language.target_language,
        }
        return apply_overrides(read_run_file(self.run_file.config, options), self.run_file.set_)

    def run(self) -> None:
        """Run the variants that have not been run yet, then print the tables."""
        from rich.console import Console

        from dragoman.comparison.compare import compare
        from dragoman.comparison.report import markdown, write_report
        from dragoman.training.stopping import TrainingStopped

        console = Console(stderr=True, soft_wrap=True)
        try:
            comparison = compare(
                self.corpora,
                self.out,
                study=self.study,
                minutes=self.minutes,
                validation=self.validation,
                test=self.test,
                settings=self.settings(),
                console=console,
            )
        except TrainingStopped as stopped:
            console.print("stopped; the state is saved: repeat the command to resume", highlight=False)
            sys.exit(128 + stopped.signal_number)
        write_report(comparison, self.out)
        print(markdown(comparison), end="")
        print(f"\npage: {printable(self.out / 'comparison.html')}   picture: {printable(self.out / 'comparison.png')}")
