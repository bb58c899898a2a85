"""Joint search with models that write from left to right and models that write from right to left.

A model predicts each token from the tokens before it only; a model of the other direction predicts it from the tokens
after it. An output that is probable under both is usually better than the most probable one under either: Liu, Utiyama,
Finch and Sumita, "Agreement on Target-bidirectional Neural Machine Translation" (2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from dragoman.errors import SettingsError
from dragoman.models.token_statistics import TokenStatistic, summarise
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, Score, SearchInput
from dragoman.search.torch_backend import TorchBackend


class TwoDirections:
    """Backend that searches in each direction and ranks all outputs by the mean score of both directions.

    Log-probabilities and scores are the means too. Targets are passed and returned in the order of the text.

    Args:
        forward: one model or an ensemble that writes from left to right.
        backward: one model or an ensemble that writes from right to left, of the same vocabulary.
    """

    def __init__(self, forward: TorchBackend, backward: TorchBackend) -> None:
        self._forward = forward
        self._backward = backward

    @property
    def description(self) -> str:
        """See `Backend`."""
        return f"left to right: {self._forward.description}; right to left: {self._backward.description}"

    @property
    def sampler(self) -> None:
        """None: a token cannot be drawn by both directions, since each depends on tokens that the other lacks."""
        return None

    @property
    def scorer(self) -> Self:
        """See `Backend`."""
        return self

    @property
    def inspectable(self) -> None:
        """None: there are several models."""
        return None

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`. Each direction searches with the whole beam; the best `n_best` of all outputs are returned.

        Raises:
            SettingsError: if a prefix is given: the models from right to left write it last.
        """
        if any(row.prefix for row in inputs):
            raise SettingsError(
                "prefixes need models that write from left to right: leave out the prefixes, or the models that write "
                "from right to left"
            )
        whole_beam = replace(config, n_best=config.beam)
        forward = self._forward.search(inputs, whole_beam)
        backward = [
            [replace(hypothesis, tokens=hypothesis.tokens[::-1]) for hypothesis in row]
            for row in self._backward.search(inputs, whole_beam)
        ]
        # An output that both directions found is finished if either direction finished it: later entries win.
        finished = [
            {
                hypothesis.tokens: hypothesis.finished
                for hypothesis in sorted([*row, *backward_row], key=lambda hypothesis: hypothesis.finished)
            }
            for row, backward_row in zip(forward, backward, strict=True)
        ]
        candidates = [(row, tokens) for row, outputs in enumerate(finished) for tokens in outputs]
        scores = self.score(
            [inputs[row].source for row, _ in candidates],
            [tokens for _, tokens in candidates],
            config.length_penalty,
        )
        ranked: list[list[Hypothesis]] = [[] for _ in inputs]
        for (row, tokens), score in zip(candidates, scores, strict=True):
            ranked[row].append(
                Hypothesis(
                    tokens=tokens,
                    log_probability=score.log_probability,
                    score=score.score,
                    finished=finished[row][tokens],
                )
            )
        return [sorted(row, key=lambda each: each.score, reverse=True)[: config.n_best] for row in ranked]

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """Return the mean over the directions of the log-probability and score of each target given its source."""
        forward = self._forward.score(sources, targets, length_penalty)
        backward = self._backward.score(sources, [target[::-1] for target in targets], length_penalty)
        return [
            Score(
                log_probability=(forward_score.log_probability + backward_score.log_probability) / 2,
                tokens=forward_score.tokens,
                score=(forward_score.score + backward_score.score) / 2,
            )
            for forward_score, backward_score in zip(forward, backward, strict=True)
        ]

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """Return the statistics of all models of both directions; see `TorchBackend.token_statistics`."""
        backward = self._backward.token_values(sources, [target[::-1] for target in targets])
        return summarise([*self._forward.token_values(sources, targets), *backward])
