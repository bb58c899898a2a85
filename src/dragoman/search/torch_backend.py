"""Search in torch: on any device, with several models, and with every way of choosing the next token."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
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
from dragoman.search.results import Hypothesis, Piece, Score, require_outputs
from dragoman.search.sampling import greedy_search, sample
from dragoman.search.scores import score
from dragoman.search.stepper import Ensemble, SearchModel, SingleModel


class TorchBackend:
    """One model, or several as an ensemble, on the device and in the precision that they are in.

    Args:
        model: one model or an ensemble; models in training mode are in evaluation mode while they search.
        batch_tokens: bounds a batch: its rows, times the length of the longest, times the hypotheses of a row. A row
            that is longer makes a batch of its own.
    """

    def __init__(self, model: SearchModel[Any], *, batch_tokens: int = DEFAULT_BATCH_TOKENS) -> None:
        check_batch_tokens(batch_tokens)
        self.batch_tokens = batch_tokens
        self._model = model

    @classmethod
    def from_models(cls, models: Sequence[Seq2Seq], *, batch_tokens: int = DEFAULT_BATCH_TOKENS) -> Self:
        """Search with one model as it is, with several as an ensemble."""
        return cls(SingleModel(models[0]) if len(models) == 1 else Ensemble(models), batch_tokens=batch_tokens)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
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
        """The model of a backend that is `inspectable`."""
        assert len(self._model.models) == 1, "an ensemble is not inspectable"
        return self._model.models[0]

    @property
    def description(self) -> str:
        """See `Backend`."""
        precision = str(next(self._model.models[0].parameters()).dtype).removeprefix("torch.")
        models = len(self._model.models)
        return f"torch, {precision}, {self.device}" + (f", an ensemble of {models} models" if models > 1 else "")

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`."""
        return self._search(pieces, config, None)

    def sample(self, pieces: Sequence[Piece], config: SearchConfig, sampling: SamplingConfig) -> list[list[Hypothesis]]:
        """Hypotheses drawn for each piece, in order; lengths are those of `config`."""
        return self._search(pieces, config, sampling)

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """The log-probability of each target given its source, in order."""
        scores: dict[int, Score] = {}
        for chosen in self.batches(sources, targets, width=1):
            batch = collate([sources[i] for i in chosen], [targets[i] for i in chosen]).to(self.device)
            found = score(
                self._model.models,
                batch.source,
                batch.source_mask,
                batch.target_in,
                batch.target_out,
                batch.target_mask,
                length_penalty,
            )
            scores.update(zip(chosen, found, strict=True))
        return [scores[i] for i in range(len(sources))]

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """Return the token statistics of all models over these pairs (see `Seq2Seq.token_statistics`).

        Empty for most models.
        """
        return summarise(self.reports(sources, targets))

    def reports(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Mapping[str, Float[Tensor, " _"]]]:
        """What each model reports of each batch of these pairs."""
        with inference(self._model.models):
            return [
                model.token_statistics(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
                for chosen in self.batches(sources, targets, width=1)
                for batch in [collate([sources[i] for i in chosen], [targets[i] for i in chosen]).to(self.device)]
                for model in self._model.models
            ]

    def _search(
        self, pieces: Sequence[Piece], config: SearchConfig, sampling: SamplingConfig | None
    ) -> list[list[Hypothesis]]:
        width = sampling.samples if sampling else config.beam
        found: dict[int, list[Hypothesis]] = {}
        with inference(self._model.models):
            sources, prefixes = [row.source for row in pieces], [row.prefix for row in pieces]
            for chosen in self.batches(sources, prefixes, width):
                outputs = self._search_batch([pieces[i] for i in chosen], config, sampling)
                found.update(zip(chosen, outputs, strict=True))
        return require_outputs([found[i] for i in range(len(pieces))])

    def _search_batch(
        self, rows: Sequence[Piece], config: SearchConfig, sampling: SamplingConfig | None
    ) -> list[list[Hypothesis]]:
        model, device = self._model, self.device
        prefixes = [row.prefix for row in rows]
        batch = collate([row.source for row in rows], prefixes).to(device)
        state = model.start(batch.source, batch.source_mask)
        lengths = [len(row.source) for row in rows]
        if sampling:
            keys = [_key(row.source) for row in rows]
            return sample(model, state, lengths, config, sampling, keys, device, prefixes)
        if config.beam == 1:
            best = greedy_search(model, state, lengths, config, device, prefixes)
            return [[hypothesis] for hypothesis in best]
        return beam_search(model, state, lengths, config, device, prefixes)

    def batches(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], width: int
    ) -> Iterator[list[int]]:
        """Yield row numbers in batches of similar lengths, each within `batch_tokens` / `width`."""
        if not sources:
            return
        source, target = (np.array([len(row) for row in side]) for side in (sources, targets))
        for batch in sorted_batches(source, target, self.batch_tokens // width):
            yield batch.tolist()


def _key(ids: Sequence[int]) -> int:
    """The name of a piece's random stream: 64 bits of a hash of its tokens."""
    text = ",".join(map(str, ids)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
