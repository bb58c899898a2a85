"""dragoman train"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from dragoman.cli.choices import architectures, one_of, presets


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model on your translations. The same command goes on after an interruption."""

    corpora: Positional[tuple[str, ...]]
    """Corpora: x.tsv or x.jsonl (also .gz, .zst), two parallel files a.en,a.de, or - (TSV)."""
    out: Path
    """The model directory to write."""
    validation: str | None = None
    """A corpus to validate on; without it, a share of the corpora is held out."""
    model: Annotated[str, one_of(architectures())] | None = None
    """Architecture of the model: the Transformer, unless a run file says otherwise."""
    preset: Annotated[str, one_of(presets())] | None = None
    """Size of the model; by default the size of the corpus decides."""
    minutes: float | None = None
    """Train for so long, with the learning rate fitted to it."""
    source_language: str | None = None
    """Code of the source language, as en; kept with the model."""
    target_language: str | None = None
    """Code of the target language, as de; decides how BLEU cuts words."""
    config: Path | None = None
    """A TOML run file."""
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")] = ()
    """Any setting of a run file, as training.steps=2000."""

    def settings(self) -> dict[str, Any]:
        """The run file, with the options over it, with --set over both."""
        from dragoman.cli.run_file import read_run_file
        from dragoman.settings import apply_overrides

        options = {
            "architecture": self.model,
            "preset": self.preset,
            "source_language": self.source_language,
            "target_language": self.target_language,
        }
        settings = read_run_file(self.config, options)
        training = settings.get("training", {})
        # What is no table is reported when the settings are read.
        if self.minutes is not None and isinstance(training, dict):
            others = {key: value for key, value in training.items() if key != "steps"}
            settings = {**settings, "training": {**others, "minutes": self.minutes}}
        return apply_overrides(settings, self.set_)

    def run(self) -> None:
        """Train, then say how it went and what to do next."""
        from rich.console import Console

        from dragoman.run.summary import closing
        from dragoman.run.train import train
        from dragoman.training.stopping import Stopped

        console = Console(stderr=True, soft_wrap=True)
        try:
            outcome = train(
                self.corpora, self.out, validation=self.validation, settings=self.settings(), console=console
            )
        except Stopped as stopped:
            console.print(f"{stopped}; everything is saved, the same command goes on", highlight=False)
            sys.exit(128 + stopped.signal_number)
        print(closing(outcome, self.out))
