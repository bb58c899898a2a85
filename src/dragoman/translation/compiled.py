"""One model twice: compiled, which translates, and in torch, which does what the compiled engine does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

from dragoman.native.backend import NativeBackend
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, Piece, Score

if TYPE_CHECKING:
    from dragoman.models.token_statistics import TokenStatistic
    from dragoman.search.torch_backend import TorchBackend


class CompiledBackend:
    """Translates with the compiled engine; samples, scores and shows attention in torch, loaded when first needed.

    Args:
        native: the compiled engine.
        load_torch: loads the same model in torch. A program that only translates never imports torch.
    """

    def __init__(self, native: NativeBackend, load_torch: Callable[[], TorchBackend]) -> None:
        self.native = native
        self._load_torch = load_torch

    @cached_property
    def in_torch(self) -> TorchBackend:
        """The same model in torch, loaded when this is first asked for."""
        return self._load_torch()

    @property
    def description(self) -> str:
        """See `Backend`."""
        return self.native.description

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`."""
        return self.native.search(pieces, config)

    @property
    def sampler(self) -> Self:
        """See `Backend`."""
        return self

    @property
    def scorer(self) -> Self:
        """See `Backend`."""
        return self

    @property
    def inspectable(self) -> TorchBackend | None:
        """See `Backend`."""
        return self.in_torch.inspectable

    def sample(self, pieces: Sequence[Piece], config: SearchConfig, sampling: SamplingConfig) -> list[list[Hypothesis]]:
        """See `Sampler`; in torch."""
        return self.in_torch.sample(pieces, config, sampling)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """See `Scorer`; in torch, in float32."""
        return self.in_torch.score(sources, targets, length_penalty)

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """See `Scorer`; in torch."""
        return self.in_torch.token_statistics(sources, targets)
