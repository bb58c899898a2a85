"""Batched beam search. Each row leaves the batch when its search is complete."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import pad

from dragoman.search.config import SearchConfig, length_penalty
from dragoman.search.limits import Limits
from dragoman.search.results import Hypothesis
from dragoman.search.stepper import State, Stepper
from dragoman.text.subwords import BOS, EOS

# Number of positions for which memory is allocated when a search starts; it is doubled when outputs are longer.
INITIAL_CAPACITY = 64


@dataclass
class Finished:
    """The best K finished hypotheses of each row, best first.

    Attributes:
        tokens: token ids.
        totals: log-probability of the tokens up to each of them.
        length: number of tokens without EOS.
        log_probability: log-probability of the tokens and EOS.
        score: log-probability normalised by the length penalty; -inf for an unused entry.
        ended_by_model: False if EOS was forced by the maximum length.
    """

    tokens: Int[Tensor, "B K T"]
    totals: Float[Tensor, "B K T"]
    length: Int[Tensor, "B K"]
    log_probability: Float[Tensor, "B K"]
    score: Float[Tensor, "B K"]
    ended_by_model: Bool[Tensor, "B K"]

    def select(self, rows: Int[Tensor, " N"]) -> Finished:
        """Return the finished hypotheses of these rows."""
        return Finished(
            tokens=self.tokens[rows],
            totals=self.totals[rows],
            length=self.length[rows],
            log_probability=self.log_probability[rows],
            score=self.score[rows],
            ended_by_model=self.ended_by_model[rows],
        )

    def merge(self, other: Finished) -> Finished:
        """Return the best K hypotheses of both."""
        # [B, K] and [B, K] -> [B, 2K] -> [B, K]
        score, best = torch.cat([self.score, other.score], 1).topk(self.score.size(1))
        # [B, K] -> [B, K, T]
        best_tokens = best[..., None].expand_as(self.tokens)
        return Finished(
            tokens=torch.cat([self.tokens, other.tokens], 1).gather(1, best_tokens),
            totals=torch.cat([self.totals, other.totals], 1).gather(1, best_tokens),
            length=torch.cat([self.length, other.length], 1).gather(1, best),
            log_probability=torch.cat([self.log_probability, other.log_probability], 1).gather(1, best),
            score=score,
            ended_by_model=torch.cat([self.ended_by_model, other.ended_by_model], 1).gather(1, best),
        )

    def hypotheses(self, row: int, n_best: int) -> list[Hypothesis]:
        """Return up to `n_best` hypotheses of one row, best first."""
        count = int((self.score[row, :n_best] != -math.inf).sum())
        return [
            Hypothesis(
                tokens=tuple(self.tokens[row, k, : int(self.length[row, k])].tolist()),
                log_probability=float(self.log_probability[row, k]),
                score=float(self.score[row, k]),
                finished=bool(self.ended_by_model[row, k]),
                totals=tuple(self.totals[row, k, : int(self.length[row, k])].tolist()),
            )
            for k in range(count)
        ]


@dataclass
class BeamState:
    """Beam search state of the B rows that are still in the batch, with K running hypotheses each, best first.

    Attributes:
        row: index of each row in the caller's batch.
        tokens: token ids so far; T is the allocated length.
        totals: log-probability of the tokens up to each of them.
        log_probability: log-probability of the tokens so far; -inf for an unused entry.
        finished: the best finished hypotheses.
    """

    row: Int[Tensor, " B"]
    tokens: Int[Tensor, "B K T"]
    totals: Float[Tensor, "B K T"]
    log_probability: Float[Tensor, "B K"]
    finished: Finished

    @classmethod
    def start(cls, rows: int, beam: int, capacity: int, device: torch.device) -> BeamState:
        """Return the initial state: one empty hypothesis per row, since K equal ones would remain equal."""
        tokens = torch.zeros(rows, beam, capacity, dtype=torch.int64, device=device)
        totals = torch.zeros(rows, beam, capacity, device=device)
        unused = torch.full((rows, beam), -math.inf, device=device)
        log_probability = unused.clone()
        log_probability[:, 0] = 0.0
        zeros = torch.zeros(rows, beam, dtype=torch.int64, device=device)
        return cls(
            row=torch.arange(rows, device=device),
            tokens=tokens,
            totals=totals,
            log_probability=log_probability,
            finished=Finished(tokens, totals, zeros, unused, unused, zeros.bool()),
        )

    def with_capacity(self, capacity: int) -> BeamState:
        """Return the state with memory for `capacity` tokens per hypothesis."""
        padding = (0, capacity - self.tokens.size(2))
        # [B, K, T] -> [B, K, capacity]
        finished = replace(
            self.finished, tokens=pad(self.finished.tokens, padding), totals=pad(self.finished.totals, padding)
        )
        return replace(self, tokens=pad(self.tokens, padding), totals=pad(self.totals, padding), finished=finished)

    def select(self, rows: Int[Tensor, " N"]) -> BeamState:
        """Return the state of these rows."""
        return BeamState(
            row=self.row[rows],
            tokens=self.tokens[rows],
            totals=self.totals[rows],
            log_probability=self.log_probability[rows],
            finished=self.finished.select(rows),
        )


@torch.no_grad()
def beam_search(
    stepper: Stepper[State],
    state: State,
    source_lengths: Sequence[int],
    config: SearchConfig,
    device: torch.device,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Return the `n_best` outputs of each of B rows with the highest scores, best first.

    At each position, the 2K most probable continuations of a row's K hypotheses are considered. A continuation with EOS
    finishes a hypothesis if it is among the K most probable ones. The K most probable ones without EOS remain running.
    At the maximum length, EOS is the only possible continuation. The search of a row ends when its running hypotheses
    cannot, or almost certainly will not, be among its `n_best` (see `_final`).

    Args:
        stepper: the model.
        state: initial decoder state of B rows, from `start`.
        source_lengths: number of source tokens of each row, without EOS.
        config: settings of the search.
        device: device of the model.
        prefixes: target ids with which the output of each row must begin; their log-probabilities count.

    Returns:
        The hypotheses of each row. There are fewer than `n_best` only if no more exist within the length limits.
    """
    B, K = len(source_lengths), config.beam
    if B == 0:
        return []
    limits = Limits.build(source_lengths, config, prefixes, device)
    longest = int(limits.maximum.max())
    beams = BeamState.start(B, K, min(longest + 1, INITIAL_CAPACITY), device)
    results: list[list[Hypothesis]] = [[] for _ in range(B)]
    # [B] -> [B * K]
    state = state.reorder(beams.row.repeat_interleave(K))
    token = torch.full((B * K,), BOS, dtype=torch.int64, device=device)
    for position in range(longest + 1):
        if position == (capacity := beams.tokens.size(2)):
            beams = beams.with_capacity(min(longest + 1, 2 * capacity))
        log_probabilities, state = stepper.step(token, state)
        # [B * K, V] -> [B, K, V]
        beams, parent = _advance(beams, log_probabilities.unflatten(0, (-1, K)), position, limits, config)
        complete = _final(beams, position, limits, config) | (position >= limits.maximum)
        for b in complete.nonzero().flatten().tolist():
            results[int(beams.row[b])] = beams.finished.hypotheses(b, config.n_best)
        running = (~complete).nonzero().flatten()
        if len(running) == 0:
            break
        # [B, K] -> [N, K] -> [N * K]: the parents of the rows that remain in the batch
        state = state.reorder((running[:, None] * K + parent[running]).flatten())
        beams, limits = beams.select(running), limits.select(running)
        token = beams.tokens[:, :, position].flatten()
    return results


def _advance(
    beams: BeamState,
    log_probabilities: Float[Tensor, "B K V"],
    position: int,
    limits: Limits,
    config: SearchConfig,
) -> tuple[BeamState, Int[Tensor, "B K"]]:
    """Extend every hypothesis by one token.

    Returns:
        The state after this position, and the parent of each hypothesis, an index below K.
    """
    K, V = log_probabilities.shape[1:]
    # [B, K, 1] + [B, K, V] -> [B, K * V] -> [B, 2K]. At most K candidates end with EOS, one per hypothesis, so at least
    # K of the 2K candidates do not.
    total = beams.log_probability[..., None] + limits.apply(log_probabilities, position)
    total, candidate = total.flatten(1).topk(2 * K)
    parent, token = candidate // V, candidate % V
    ends = token == EOS
    finished = beams.finished
    if ends[:, :K].any():
        # At the maximum length EOS is forced. It is still the model's if it is also the most probable token.
        ended_by_model = (log_probabilities.argmax(-1) == EOS) | (position < limits.maximum)[:, None]
        score = total[:, :K] / length_penalty(position + 1, config.length_penalty)
        finished = finished.merge(
            Finished(
                tokens=_of_parents(beams.tokens, parent[:, :K]),
                totals=_of_parents(beams.totals, parent[:, :K]),
                length=torch.full_like(parent[:, :K], position),
                log_probability=total[:, :K],
                score=score.masked_fill(~ends[:, :K], -math.inf),
                ended_by_model=ended_by_model.gather(1, parent[:, :K]),
            )
        )
    # [B, 2K] -> [B, K]: the best candidates without EOS
    log_probability, best = total.masked_fill(ends, -math.inf).topk(K)
    parent, token = parent.gather(1, best), token.gather(1, best)
    tokens, totals = _of_parents(beams.tokens, parent), _of_parents(beams.totals, parent)
    tokens[:, :, position], totals[:, :, position] = token, log_probability
    return BeamState(beams.row, tokens, totals, log_probability, finished), parent


def _of_parents(values: Shaped[Tensor, "B K T"], parent: Int[Tensor, "B K"]) -> Shaped[Tensor, "B K T"]:
    # [B, K] -> [B, K, T]
    return values.gather(1, parent[..., None].expand_as(values))


def _final(beams: BeamState, position: int, limits: Limits, config: SearchConfig) -> Bool[Tensor, " B"]:
    """Return which rows have their final `n_best` hypotheses.

    Two criteria are used. The first is a bound: the log-probability of a running hypothesis only decreases as it grows,
    and (with alpha >= 0) it is divided by at most the penalty of the maximum length and EOS. Future scores therefore do
    not exceed log_probability / lp(maximum + 1).

    The second is a heuristic: K hypotheses have finished, and the n_best-th of them has a higher score than the best
    running hypothesis would have at its current length. Further tokens rarely improve a score. With K = 1, this is
    greedy search. K finished hypotheses alone are not sufficient: when a model is certain of a long output, K short
    hypotheses of very low probability finish early.
    """
    threshold, best_running = beams.finished.score[:, config.n_best - 1], beams.log_probability[:, 0]
    # `length_penalty` for a tensor of lengths
    largest_penalty = ((5 + limits.maximum + 1) / 6) ** config.length_penalty
    all_finished = beams.finished.score[:, -1] != -math.inf
    running_is_worse = threshold >= best_running / length_penalty(position + 1, config.length_penalty)
    return (threshold >= best_running / largest_penalty) | (all_finished & running_is_worse)
