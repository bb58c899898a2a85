"""Interface between `Translator` and the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from dragoman.errors import SettingsError
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, Score, SearchInput

if TYPE_CHECKING:
    from dragoman.models.token_statistics import TokenStatistic
    from dragoman.search.torch_backend import TorchBackend


class Sampler(Protocol):
    """Interface for drawing outputs at random."""

    def sample(
        self, inputs: Sequence[SearchInput], config: SearchConfig, sampling: SamplingConfig
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses drawn for each input, in order; `config` limits their lengths."""


class Scorer(Protocol):
    """Interface for scoring given targets.

    Rows are token ids without special symbols; `targets[i]` belongs to `sources[i]`.
    """

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """Return the log-probability and score of each target given its source, in order."""

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """Return the models' own statistics of these pairs (`Seq2Seq.token_statistics`); empty for most models."""


class Backend(Protocol):
    """One or several models and the engine that runs them.

    Every backend can search. The other abilities are optional: each is an object, or None where the backend lacks it.
    Reading `sampler` and `scorer` costs nothing.
    """

    @property
    def description(self) -> str:
        """A short description of the engine, its precision and its threads or device."""

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses for each input, in order, best first; at least one each."""

    @property
    def sampler(self) -> Sampler | None:
        """The object that draws samples, or None."""

    @property
    def scorer(self) -> Scorer | None:
        """The object that scores given targets, or None."""

    @property
    def inspectable(self) -> TorchBackend | None:
        """The torch backend of a single model, whose attention can be captured and whose heads can be switched off.

        None if there are several models. The first use may load the model.
        """


def sampler_of(backend: Backend) -> Sampler:
    """Return the backend's sampler; raise SettingsError if it has none."""
    sampler = backend.sampler
    if sampler is None:
        raise SettingsError(
            "sampling is not available with models of both directions: use models that write in the same direction"
        )
    return sampler


def scorer_of(backend: Backend) -> Scorer:
    """Return the backend's scorer; raise SettingsError if it has none."""
    scorer = backend.scorer
    if scorer is None:
        raise SettingsError(f"scores of given translations are not available from this backend: {backend.description}")
    return scorer


def inspectable_of(backend: Backend) -> TorchBackend:
    """Return the torch backend of the single model; raise SettingsError if there are several models."""
    inspectable = backend.inspectable
    if inspectable is None:
        raise SettingsError("attention is available for one model, not for an ensemble: load a single model directory")
    return inspectable
