"""The torch engine for language models: reading, sampling, greedy search and scoring of texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
from torch import Tensor

from dragoman.models.inference import inference
from dragoman.models.language_model import LanguageModel
from dragoman.models.state import DecoderState
from dragoman.search.config import ContinuationConfig
from dragoman.search.continuation import Extension
from dragoman.search.results import require_finite
from dragoman.search.sampling import draw, penalise_repetition
from dragoman.search.scores import POSITIONS_AT_ONCE
from dragoman.text.subwords import EOS, NEVER_GENERATED
from dragoman.threads import SpinControl

# Number of tokens of a text that are read together, to limit the memory of attention.
READ_TOGETHER = 1024


@dataclass(frozen=True)
class TorchTextState:
    """State of a torch model after the beginnings of several texts."""

    inner: DecoderState
    device: torch.device

    def reorder(self, rows: Sequence[int]) -> TorchTextState:
        """See `TextState`."""
        return TorchTextState(self.inner.reorder(torch.tensor(rows, device=self.device)), self.device)


class TorchLanguageBackend:
    """A language model in torch, on its device and in its precision, as a `ContinuationModel`.

    Args:
        model: the model. A model in training mode is switched to evaluation mode for each call.
        start: returns the state of a number of empty texts. Defaults to `model.start`; a Transformer-XL can start with
            another length of its memory.
    """

    def __init__(self, model: LanguageModel, start: Callable[[int], DecoderState] | None = None) -> None:
        self.model = model
        self._start = start or model.start
        self.vocabulary = model.output.out_features
        self._device = model.output.weight.device
        self._spin_control = SpinControl()

    @property
    def description(self) -> str:
        """A short description of the engine, its precision and its device."""
        precision = str(self.model.output.weight.dtype).removeprefix("torch.")
        return f"torch, {precision}, {self._device}"

    @property
    def carries_state(self) -> bool:
        """True if the state has a fixed size, so that it can be carried through a text of any length."""
        return self.model.carries_state

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch, for the time of the block, whether other processes need the processor; see `SpinControl`."""
        with self._spin_control.watching() if self._device.type == "cpu" else nullcontext():
            yield

    def start(self, rows: int) -> TorchTextState:
        """See `ContinuationModel`."""
        return TorchTextState(self._start(rows), self._device)

    def read(self, tokens: Int64[np.ndarray, "N T"], state: TorchTextState) -> TorchTextState:
        """See `ContinuationModel`."""
        inner = state.inner
        with self._inference():
            for part in self._tensor(tokens).split(READ_TOGETHER, 1):
                if part.numel():
                    _, inner = self.model.read(part, inner)
        return TorchTextState(inner, self._device)

    def extend(
        self,
        last: Int64[np.ndarray, " N"],
        state: TorchTextState,
        uniform: Float64[np.ndarray, "N T"],
        config: ContinuationConfig,
        occurred: Bool[np.ndarray, "N V"] | None,
    ) -> Extension[TorchTextState]:
        """See `ContinuationModel`."""
        token, inner = self._tensor(last), state.inner
        numbers = self._tensor(uniform)
        seen = None if occurred is None else self._tensor(occurred).clone()
        tokens, log_probabilities = [], []
        with self._inference():
            for number in numbers.unbind(1):
                logits, inner = self.model.step(token, inner)
                logits = logits.float()
                normaliser = logits.logsumexp(-1)
                require_finite(float(normaliser.sum()))
                token = _choose(logits, number, config, seen)
                if seen is not None:
                    seen.scatter_(1, token[:, None], True)
                tokens.append(token)
                # [N, V] -> [N, 1] -> [N]
                log_probabilities.append(logits.gather(1, token[:, None]).squeeze(1) - normaliser)
                if (token == EOS).any():
                    break
        return Extension(
            torch.stack(tokens, 1).cpu().numpy(),
            torch.stack(log_probabilities, 1).cpu().numpy(),
            TorchTextState(inner, self._device),
        )

    def step(self, token: Int64[np.ndarray, " N"], state: TorchTextState) -> tuple[Tensor, TorchTextState]:
        """See `ContinuationModel`."""
        with self._inference():
            logits, inner = self.model.step(self._tensor(token), state.inner)
        return logits.float(), TorchTextState(inner, self._device)

    def score(
        self, tokens: Int64[np.ndarray, "N T"], targets: Int64[np.ndarray, "N T"], state: TorchTextState
    ) -> tuple[Float32[np.ndarray, "N T"], TorchTextState]:
        """See `generation.backend.LanguageBackend`."""
        inner, parts = state.inner, []
        with self._inference():
            pairs = zip(
                self._tensor(tokens).split(READ_TOGETHER, 1), self._tensor(targets).split(READ_TOGETHER, 1), strict=True
            )
            for part, target in pairs:
                states, inner = self.model.read(part, inner)
                parts.append(self._log_probabilities(states, target))
        scores = torch.cat(parts, 1)
        require_finite(float(scores.sum()))
        return scores.cpu().numpy(), TorchTextState(inner, self._device)

    def _log_probabilities(self, states: Float[Tensor, "N T D"], target: Int[Tensor, "N T"]) -> Float[Tensor, "N T"]:
        # In blocks of positions, since [N * T, V] may not fit into memory.
        blocks = zip(
            states.flatten(0, 1).split(POSITIONS_AT_ONCE), target.flatten().split(POSITIONS_AT_ONCE), strict=True
        )
        rows = [
            # [p, D] -> [p, V] -> [p, 1] -> [p]
            self.model.project(block).float().log_softmax(-1).gather(-1, wanted[:, None]).squeeze(-1)
            for block, wanted in blocks
        ]
        # [N * T] -> [N, T]
        return torch.cat(rows).unflatten(0, target.shape)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    @contextmanager
    def _inference(self) -> Iterator[None]:
        # Changing the mode of all modules takes longer than a step of a small model.
        with inference([self.model]) if self.model.training else torch.no_grad():
            yield


def _choose(
    logits: Float[Tensor, "N V"],
    uniform: Float[Tensor, " N"],
    config: ContinuationConfig,
    occurred: Bool[Tensor, "N V"] | None,
) -> Int[Tensor, " N"]:
    """Return the next token of each text: the most probable one with a beam, else a sample."""
    if occurred is not None:
        logits = penalise_repetition(logits, occurred, config.repetition_penalty)
    logits = logits.clone()
    logits[:, list(NEVER_GENERATED)] = -math.inf
    return draw(logits, uniform, config.sampling) if config.beam is None else logits.argmax(-1)
