"""Models that write from left to right and models that write from right to left, together.

A model chooses each token without knowing what comes after it; one that writes in the other direction knows just that.
What both find probable is usually better than what either finds most probable: Liu, Utiyama, Finch and Sumita,
"Agreement on Target-bidirectional Neural Machine Translation" (2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from dragoman.errors import SettingsError
from dragoman.models.token_statistics import TokenStatistic, summarise
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, Piece, Score
from dragoman.search.torch_backend import TorchBackend


class TwoDirections:
    """Ranks what the models of each direction find by the mean of both scores, and reports the means.

    Targets are given and returned in the order of the text.

    Args:
        forward: one model or an ensemble that writes from left to right.
        backward: the same from right to left, of the same vocabulary.
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
        """See `Backend`. A token cannot be drawn by both: neither has what the other is given."""
        return None

    @property
    def scorer(self) -> Self:
        """See `Backend`."""
        return self

    @property
    def inspectable(self) -> None:
        """See `Backend`. There are several models."""
        return None

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`. Each direction searches with the whole beam; of all that they find, `n_best` are returned.

        Raises SettingsError when an output's beginning is given: who writes it last cannot start from it.
        """
        if any(piece.prefix for piece in pieces):
            raise SettingsError(
                "a given beginning needs models that write from left to right: leave out the others, or the prefixes"
            )
        whole_beam = replace(config, n_best=config.beam)
        forward = self._forward.search(pieces, whole_beam)
        backward = [
            [replace(found, tokens=found.tokens[::-1]) for found in row]
            for row in self._backward.search(pieces, whole_beam)
        ]
        # What both found counts as finished if either says so.
        finished = [
            {found.tokens: found.finished for found in sorted([*there, *back], key=lambda found: found.finished)}
            for there, back in zip(forward, backward, strict=True)
        ]
        candidates = [(row, tokens) for row, found in enumerate(finished) for tokens in found]
        scores = self.score(
            [pieces[row].source for row, _ in candidates],
            [tokens for _, tokens in candidates],
            config.length_penalty,
        )
        ranked: list[list[Hypothesis]] = [[] for _ in pieces]
        for (row, tokens), score in zip(candidates, scores, strict=True):
            ranked[row].append(
                Hypothesis(
                    tokens=tokens,
                    log_probability=score.log_probability,
                    score=score.score,
                    finished=finished[row][tokens],
                )
            )
        return [sorted(row, key=lambda found: found.score, reverse=True)[: config.n_best] for row in ranked]

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float
    ) -> list[Score]:
        """The means of the directions' log-probabilities and scores of each target, given its source, in order."""
        forward = self._forward.score(sources, targets, length_penalty)
        backward = self._backward.score(sources, [target[::-1] for target in targets], length_penalty)
        return [
            Score(
                log_probability=(there.log_probability + back.log_probability) / 2,
                tokens=there.tokens,
                score=(there.score + back.score) / 2,
            )
            for there, back in zip(forward, backward, strict=True)
        ]

    def token_statistics(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> dict[str, TokenStatistic]:
        """What the models of both directions report of these pairs; see `TorchBackend.figures`."""
        backward = self._backward.reports(sources, [target[::-1] for target in targets])
        return summarise([*self._forward.reports(sources, targets), *backward])
