"""dragoman compare"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from dragoman.cli.choices import one_of, studies
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare architectures, or choices of one, on your data: same data, same budget, a table and a page."""

    corpora: Positional[tuple[str, ...]]
    """Corpora: x.tsv or x.jsonl (also .gz, .zst), two parallel files a.en,a.de."""
    minutes: float
    """Wall-clock time for each variant; as much again for the second table, at most."""
    out: Path
    """The directory to write: a model for each variant, comparison.md, .html, .png and .svg."""
    study: Annotated[str, one_of(studies())] = "architecture"
    """What the variants differ in."""
    validation: str | None = None
    """A corpus to validate on; without it, a share of the corpora is held out."""
    test: str | None = None
    """A corpus to score on; without it, the validation pairs."""
    source_language: str | None = None
    """Code of the source language, as en."""
    target_language: str | None = None
    """Code of the target language, as de; decides how BLEU cuts words."""
    config: Path | None = None
    """A TOML run file, for all variants."""
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")] = ()
    """Any setting of a run file, for all variants."""

    def settings(self) -> dict[str, Any]:
        """The run file, with the options over it, with --set over both."""
        from dragoman.cli.run_file import read_run_file
        from dragoman.settings import apply_overrides

        languages = {"source_language": self.source_language, "target_language": self.target_language}
        return apply_overrides(read_run_file(self.config, languages), self.set_)

    def run(self) -> None:
        """Run what has not been run yet, then print the tables."""
        from rich.console import Console

        from dragoman.comparison.compare import compare
        from dragoman.comparison.report import markdown, write_report
        from dragoman.training.stopping import Stopped

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
        except Stopped as stopped:
            console.print("stopped; everything is saved, the same command goes on", highlight=False)
            sys.exit(128 + stopped.signal_number)
        write_report(comparison, self.out)
        print(markdown(comparison), end="")
        print(f"\npage: {printable(self.out / 'comparison.html')}   picture: {printable(self.out / 'comparison.png')}")
