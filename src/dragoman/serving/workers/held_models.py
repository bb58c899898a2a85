"""The models that the processes of a server hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.alignment.heads import AlignmentHead
from dragoman.errors import SettingsError
from dragoman.models.description import ALIGNMENT_FILE, load_description
from dragoman.native.engine_selection import PrecisionName, select_engine
from dragoman.serving.lines import Pair
from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """The model directories of a language pair.

    Attributes:
        pair: source language and target language.
        directories: one model directory, or those of an ensemble.
    """

    pair: tuple[str, str]
    directories: tuple[Path, ...]

    def __post_init__(self) -> None:
        if not self.directories:
            raise SettingsError(f"{self.pair[0]} to {self.pair[1]} has no model directory")


@dataclass(frozen=True, kw_only=True)
class HoldingSettings:
    """What a worker holds, and how it runs it.

    Attributes:
        models: the models; at least one, and one for each language pair.
        threads: threads of the engine of each model.
        precision: precision of the native engine.
        shortlist: True to use the shortlists of the models.
    """

    models: tuple[ModelSource, ...]
    threads: int = 1
    precision: PrecisionName = "auto"
    shortlist: bool = False

    def __post_init__(self) -> None:
        if not self.models:
            raise SettingsError("a server needs at least one model")
        if self.threads < 1:
            raise SettingsError(f"threads must be at least 1, got {self.threads}")
        pairs = [source.pair for source in self.models]
        for pair in pairs:
            if pairs.count(pair) > 1:
                raise SettingsError(f"{pair[0]} to {pair[1]} has several models: give one for each language pair")


class HeldModel:
    """A model on a CPU, which processes that are forked from this one share if the native engine runs it.

    Such a model is loaded at once. A model that needs torch, whose threads do not survive a fork, is loaded by `load`.

    Args:
        source: where the model is.
        settings: how it is run.

    Raises:
        ModelError: if a directory is not a model directory, or is damaged.
        SettingsError: if the precision or the shortlist is not available.
        FloatingPointError: if the weights are not finite.
    """

    def __init__(self, source: ModelSource, settings: HoldingSettings) -> None:
        self._source, self._settings = source, settings
        self._translator: Translator | None = None
        self.head: AlignmentHead | None = None
        """The attention head that aligns words; None if `dragoman align` has selected none."""
        configs = [load_description(directory).model for directory in source.directories]
        selection = select_engine("auto", settings.precision, "cpu", configs)
        if len(source.directories) == 1 and (source.directories[0] / ALIGNMENT_FILE).exists():
            self.head = AlignmentHead.load(source.directories[0])
        if selection.build is not None:
            self.load()

    @property
    def pair(self) -> Pair:
        """Source language and target language."""
        return self._source.pair

    def load(self) -> Translator:
        """Return the translator, after loading the model if that has not been done."""
        if self._translator is None:
            self._translator = Translator.load(
                *self._source.directories,
                device="cpu",
                precision=self._settings.precision,
                threads=self._settings.threads,
                shortlist=self._settings.shortlist,
            )
        return self._translator
