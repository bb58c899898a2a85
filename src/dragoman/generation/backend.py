"""Interface between `Generator` and the engines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from jaxtyping import Float32, Int64

from dragoman.search.continuation import ContinuationModel, State


class LanguageBackend(ContinuationModel[State], Protocol[State]):
    """A language model and the engine that runs it."""

    @property
    def description(self) -> str:
        """A short description of the engine, its precision and its threads or device."""

    @property
    def carries_state(self) -> bool:
        """True if the state does not grow with the text, so that a text may have any length."""

    def watching(self) -> AbstractContextManager[None]:
        """Return a context manager for the time in which the model runs."""

    def score(
        self, tokens: Int64[np.ndarray, "N T"], targets: Int64[np.ndarray, "N T"], state: State
    ) -> tuple[Float32[np.ndarray, "N T"], State]:
        """Return the log-probability of each target after the tokens up to its position, and the state after them.

        Raises:
            FloatingPointError: if the model computes values that are not finite.
        """
