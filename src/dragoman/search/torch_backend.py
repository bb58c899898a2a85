"""The torch search backend, which supports all devices, ensembles, beam search, sampling and scoring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.data.batching import collate, sorted_batches
from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.token_statistics import TokenStatistic, summarise
from dragoman.search.beam import beam_search
from dragoman.search.config import DEFAULT_BATCH_TOKENS, SamplingConfig, SearchConfig, check_batch_tokens
from dragoman.search.random_streams import random_key
from dragoman.search.results import Hypothesis, Score, SearchInput, require_outputs
from dragoman.search.sampling import greedy_search, sample
from dragoman.search.scores import score
from dragoman.search.stepper import Ensemble, SearchModel, SingleModel
from dragoman.threads import SpinControl


class TorchBackend:
    """Search backend in torch, on the device and in the precision of the given models.

    Args:
        model: a model or an ensemble. Models in training mode are switched to evaluation mode during a search.
        batch_tokens: largest size of a batch: the number of rows, times the length of the longest row, times the
            hypotheses per row. A longer row is a batch by itself.
    """

    def __init__(self, model: SearchModel[Any], *, batch_tokens: int = DEFAULT_BATCH_TOKENS) -> None:
        check_batch_tokens(batch_tokens)
        self.batch_tokens = batch_tokens
        self._model = model
        self._spin_control = SpinControl()

    @classmethod
    def from_models(cls, models: Sequence[Seq2Seq], *, batch_tokens: int = DEFAULT_BATCH_TOKENS) -> Self:
        """Return a backend for one model, or for several models as an ensemble."""
        return cls(SingleModel(models[0]) if len(models) == 1 else Ensemble(models), batch_tokens=batch_tokens)

    @property
    def device(self) -> torch.device:
        """Return the device of the models."""
        return next(self._model.models[0].parameters()).device

    @property
    def sampler(self) -> Self:
        """See `translation.backend.Backend`."""
        return self

    @property
    def scorer(self) -> Self:
        """See `translation.backend.Backend`."""
        return self

    @property
    def inspectable(self) -> Self | None:
        """See `translation.backend.Backend`."""
        return self if len(self._model.models) == 1 else None

    @property
    def only_model(self) -> Seq2Seq:
        """Return the model of a backend that is not an ensemble."""
        assert len(self._model.models) == 1, "an ensemble is not inspectable"
        return self._model.models[0]

    @property
    def description(self) -> str:
        """See `Backend`."""
        precision = str(next(self._model.models[0].parameters()).dtype).removeprefix("torch.")
        models = len(self._model.models)
        return f"torch, {precision}, {self.device}" + (f", an ensemble of {models} models" if models > 1 else "")

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`."""
        return self._search(inputs, config, None)

    def sample(
        self, inputs: Sequence[SearchInput], config: SearchConfig, sampling: SamplingConfig
    ) -> list[list[Hypothesis]]:
        """Return samples for each input, in the order of the inputs; `config` limits their lengths."""
        return self._search(inputs, config, sampling)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """Return the score of each target given its source, in the order of the pairs."""
        with self._watching():
            return self._score(sources, targets, length_penalty)

    def _score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        scores: dict[int, Score] = {}
        for rows in self.batches(sources, targets, width=1):
            batch = collate([sources[i] for i in rows], [targets[i] for i in rows]).to(self.device)
            batch_scores = score(
                self._model.models,
                batch.source,
                batch.source_mask,
                batch.target_in,
                batch.target_out,
                batch.target_mask,
                length_penalty,
            )
            scores.update(zip(rows, batch_scores, strict=True))
        return [scores[i] for i in range(len(sources))]

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """Return the token statistics of all models over these pairs (see `Seq2Seq.token_statistics`).

        Most models have none.
        """
        return summarise(self.token_values(sources, targets))

    def token_values(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Mapping[str, Float[Tensor, " _"]]]:
        """Return the values that each model reports for the tokens of each batch of these pairs, by name."""
        with inference(self._model.models):
            return [
                model.token_statistics(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
                for rows in self.batches(sources, targets, width=1)
                for batch in [collate([sources[i] for i in rows], [targets[i] for i in rows]).to(self.device)]
                for model in self._model.models
            ]

    def _search(
        self, inputs: Sequence[SearchInput], config: SearchConfig, sampling: SamplingConfig | None
    ) -> list[list[Hypothesis]]:
        width = sampling.samples if sampling else config.beam
        hypotheses: dict[int, list[Hypothesis]] = {}
        with inference(self._model.models), self._watching():
            sources, prefixes = [row.source for row in inputs], [row.prefix for row in inputs]
            for rows in self.batches(sources, prefixes, width):
                outputs = self._search_batch([inputs[i] for i in rows], config, sampling)
                hypotheses.update(zip(rows, outputs, strict=True))
        return require_outputs([hypotheses[i] for i in range(len(inputs))])

    def _watching(self) -> AbstractContextManager[None]:
        return self._spin_control.watching() if self.device.type == "cpu" else nullcontext()

    def _search_batch(
        self, inputs: Sequence[SearchInput], config: SearchConfig, sampling: SamplingConfig | None
    ) -> list[list[Hypothesis]]:
        model, device = self._model, self.device
        prefixes = [row.prefix for row in inputs]
        batch = collate([row.source for row in inputs], prefixes).to(device)
        state = model.start(batch.source, batch.source_mask)
        lengths = [len(row.source) for row in inputs]
        if sampling:
            keys = [random_key(row.source) for row in inputs]
            return sample(model, state, lengths, config, sampling, keys, device, prefixes)
        if config.beam == 1:
            greedy = greedy_search(model, state, lengths, config, device, prefixes)
            return [[hypothesis] for hypothesis in greedy]
        return beam_search(model, state, lengths, config, device, prefixes)

    def batches(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], width: int
    ) -> Iterator[list[int]]:
        """Yield the indices of rows in batches of similar lengths, each of at most `batch_tokens` / `width` tokens."""
        if not sources:
            return
        source, target = (np.array([len(row) for row in side]) for side in (sources, targets))
        for batch in sorted_batches(source, target, self.batch_tokens // width):
            yield batch.tolist()
