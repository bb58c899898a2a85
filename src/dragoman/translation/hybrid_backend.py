"""Backend of the native engine, which uses torch for what that engine lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

from dragoman.native.backend import NativeBackend
from dragoman.native.live_search import LiveSearch
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, Score, SearchInput

if TYPE_CHECKING:
    from dragoman.models.token_statistics import TokenStatistic
    from dragoman.search.torch_backend import TorchBackend


class HybridBackend:
    """Backend of one model that searches with the native engine, and samples, scores and shows attention in torch.

    Args:
        native: the native engine with the model.
        load_torch: loads the same model in torch; called on first use, so that a program which only translates never
            imports torch.
    """

    def __init__(self, native: NativeBackend, load_torch: Callable[[], TorchBackend]) -> None:
        self.native = native
        self._load_torch = load_torch

    @cached_property
    def in_torch(self) -> TorchBackend:
        """The same model in torch, loaded on first use."""
        return self._load_torch()

    @property
    def description(self) -> str:
        """See `Backend`."""
        return self.native.description

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`."""
        return self.native.search(inputs, config)

    def live(self) -> LiveSearch:
        """See `NativeBackend.live`."""
        return self.native.live()

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

    def sample(
        self, inputs: Sequence[SearchInput], config: SearchConfig, sampling: SamplingConfig
    ) -> list[list[Hypothesis]]:
        """See `Sampler`; computed in torch."""
        return self.in_torch.sample(inputs, config, sampling)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """See `Scorer`; computed in torch, in float32."""
        return self.in_torch.score(sources, targets, length_penalty)

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """See `Scorer`; computed in torch."""
        return self.in_torch.token_statistics(sources, targets)
