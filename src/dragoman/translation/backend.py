"""What a `Translator` asks: models and a way to search with them, which says what else it can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from dragoman.errors import SettingsError
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, Piece, Score

if TYPE_CHECKING:
    from dragoman.models.token_statistics import TokenStatistic
    from dragoman.search.torch_backend import TorchBackend


class Sampler(Protocol):
    """Draws outputs instead of searching for the best."""

    def sample(self, pieces: Sequence[Piece], config: SearchConfig, sampling: SamplingConfig) -> list[list[Hypothesis]]:
        """Return the hypotheses drawn for each piece, in order; lengths are those of `config`."""


class Scorer(Protocol):
    """Says how probable given targets are. Ids are without special symbols; source and target i belong together."""

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """Return the log-probability and score of each target given its source, in order."""

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """Return what the models report of these pairs (`Seq2Seq.token_statistics`); empty for most models."""


class Backend(Protocol):
    """Models and a way to search with them: one or an ensemble, compiled or in torch, of one direction or of both.

    Every backend translates. Each of the other abilities is an object, or None where the backend lacks it. Asking for
    `sampler` and `scorer` costs nothing.
    """

    @property
    def description(self) -> str:
        """What computes, in a few words."""

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """Return hypotheses for each piece, in order, best first; at least one each."""

    @property
    def sampler(self) -> Sampler | None:
        """What draws samples."""

    @property
    def scorer(self) -> Scorer | None:
        """What scores given targets."""

    @property
    def inspectable(self) -> TorchBackend | None:
        """The one model, in torch, whose attention can be seen and whose heads can be switched off.

        None when there are several models. May load the model when it is first asked for.
        """


def sampler_of(backend: Backend) -> Sampler:
    """Return what draws samples; raise SettingsError when the backend cannot."""
    sampler = backend.sampler
    if sampler is None:
        raise SettingsError("samples are drawn by models that all write in one direction: leave out the others")
    return sampler


def scorer_of(backend: Backend) -> Scorer:
    """Return what scores given targets; raise SettingsError when the backend cannot."""
    scorer = backend.scorer
    if scorer is None:
        raise SettingsError(f"scores of given translations are not available from this backend: {backend.description}")
    return scorer


def inspectable_of(backend: Backend) -> TorchBackend:
    """Return the one model in torch; raise SettingsError when there are several."""
    inspectable = backend.inspectable
    if inspectable is None:
        raise SettingsError("attention is shown of one model, not of an ensemble: load a single model directory")
    return inspectable
