"""Backend of the native engine for language models; torch is used for beam search only."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from dragoman.native.language_backend import NativeLanguageModel, NativeTextState
from dragoman.search.config import ContinuationConfig
from dragoman.search.continuation import Extension

if TYPE_CHECKING:
    import torch


class NativeLanguageBackend:
    """A language model on the native engine as a `LanguageBackend`.

    Args:
        model: the model on the native engine.
    """

    carries_state = False

    def __init__(self, model: NativeLanguageModel) -> None:
        self.model = model
        self.vocabulary = model.vocabulary

    @property
    def description(self) -> str:
        """See `LanguageBackend`."""
        return self.model.description

    def watching(self) -> AbstractContextManager[None]:
        """See `LanguageBackend`; the threads of the native engine do not spin."""
        return nullcontext()

    def start(self, rows: int) -> NativeTextState:
        """See `ContinuationModel`."""
        return self.model.start(rows)

    def read(self, tokens: Int64[np.ndarray, "N T"], state: NativeTextState) -> NativeTextState:
        """See `ContinuationModel`."""
        return self.model.read(tokens, state)[1] if tokens.size else state

    def extend(
        self,
        last: Int64[np.ndarray, " N"],
        state: NativeTextState,
        uniform: Float64[np.ndarray, "N T"],
        config: ContinuationConfig,
        occurred: Bool[np.ndarray, "N V"] | None,
    ) -> Extension[NativeTextState]:
        """See `ContinuationModel`."""
        return Extension(*self.model.generate(last, state, uniform, config, occurred))

    def step(self, token: Int64[np.ndarray, " N"], state: NativeTextState) -> tuple[torch.Tensor, NativeTextState]:
        """See `ContinuationModel`."""
        import torch

        logits, after = self.model.step(token, state)
        return torch.from_numpy(logits), after

    def score(
        self, tokens: Int64[np.ndarray, "N T"], targets: Int64[np.ndarray, "N T"], state: NativeTextState
    ) -> tuple[Float32[np.ndarray, "N T"], NativeTextState]:
        """See `LanguageBackend`."""
        return self.model.score(tokens, targets, state)
