"""Beam search over a step, batched: rows run together, and each leaves the batch when it is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from dragoman.search.config import SearchConfig, length_penalty
from dragoman.search.limits import Limits
from dragoman.search.results import Hypothesis
from dragoman.search.stepper import State, Stepper
from dragoman.text.subwords import BOS, EOS

# Positions for which there is room when a search starts; it doubles as outputs grow.
INITIAL_CAPACITY = 64


@dataclass
class Finished:
    """The best K hypotheses of each row that have said EOS, best first."""

    tokens: Int[Tensor, "B K T"]
    length: Int[Tensor, "B K"]  # tokens without EOS
    log_probability: Float[Tensor, "B K"]
    score: Float[Tensor, "B K"]  # -inf: this place is empty
    ended_by_model: Bool[Tensor, "B K"]  # False: EOS was forced by the maximum length

    def select(self, rows: Int[Tensor, " N"]) -> Finished:
        """The finished hypotheses of these rows."""
        return Finished(
            tokens=self.tokens[rows],
            length=self.length[rows],
            log_probability=self.log_probability[rows],
            score=self.score[rows],
            ended_by_model=self.ended_by_model[rows],
        )

    def merge(self, other: Finished) -> Finished:
        """The best K of both."""
        # [B, K] and [B, K] -> [B, 2K] -> [B, K]
        score, best = torch.cat([self.score, other.score], 1).topk(self.score.size(1))
        # [B, K] -> [B, K, T]
        best_tokens = best[..., None].expand_as(self.tokens)
        return Finished(
            tokens=torch.cat([self.tokens, other.tokens], 1).gather(1, best_tokens),
            length=torch.cat([self.length, other.length], 1).gather(1, best),
            log_probability=torch.cat([self.log_probability, other.log_probability], 1).gather(1, best),
            score=score,
            ended_by_model=torch.cat([self.ended_by_model, other.ended_by_model], 1).gather(1, best),
        )

    def hypotheses(self, row: int, n_best: int) -> list[Hypothesis]:
        """Up to `n_best` hypotheses of one row, best first."""
        count = int((self.score[row, :n_best] != -math.inf).sum())
        return [
            Hypothesis(
                tokens=tuple(self.tokens[row, k, : int(self.length[row, k])].tolist()),
                log_probability=float(self.log_probability[row, k]),
                score=float(self.score[row, k]),
                finished=bool(self.ended_by_model[row, k]),
            )
            for k in range(count)
        ]


@dataclass
class BeamState:
    """A search at one position: B rows still in the batch, K hypotheses each, best first."""

    row: Int[Tensor, " B"]  # the caller's number of each row
    tokens: Int[Tensor, "B K T"]  # said so far; room for more
    log_probability: Float[Tensor, "B K"]  # of what was said; -inf: this place is empty
    finished: Finished

    @classmethod
    def start(cls, rows: int, beam: int, room: int, device: torch.device) -> BeamState:
        """Nothing said; one hypothesis per row, since K equal ones would stay equal."""
        tokens = torch.zeros(rows, beam, room, dtype=torch.int64, device=device)
        empty = torch.full((rows, beam), -math.inf, device=device)
        log_probability = empty.clone()
        log_probability[:, 0] = 0.0
        none = torch.zeros(rows, beam, dtype=torch.int64, device=device)
        return cls(
            row=torch.arange(rows, device=device),
            tokens=tokens,
            log_probability=log_probability,
            finished=Finished(tokens, none, empty, empty, none.bool()),
        )

    def grown(self, room: int) -> BeamState:
        """The search with room for so many tokens."""
        more = (0, room - self.tokens.size(2))
        # [B, K, T] -> [B, K, room]
        finished = replace(self.finished, tokens=pad(self.finished.tokens, more))
        return replace(self, tokens=pad(self.tokens, more), finished=finished)

    def select(self, rows: Int[Tensor, " N"]) -> BeamState:
        """The search of these rows."""
        return BeamState(
            row=self.row[rows],
            tokens=self.tokens[rows],
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
    """The `n_best` most probable outputs of each of B rows, by score, best first.

    `state` holds B rows, as `start` made it; `source_lengths` counts source tokens without EOS;
    row b begins with the target ids `prefixes[b]`, whose log-probabilities count. A row gives fewer
    than `n_best` hypotheses only if no more exist within its length limits.

    At each position the 2K best continuations of a row's K hypotheses are looked at. EOS among
    the first K of them finishes a hypothesis; the best K that do not end go on. At the maximum
    length EOS is the only continuation. A row is done when what runs cannot, or
    hardly can, enter its `n_best` any more (`_final`).
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
        if position == (room := beams.tokens.size(2)):
            beams = beams.grown(min(longest + 1, 2 * room))
        log_probabilities, state = stepper.step(token, state)
        # [B * K, V] -> [B, K, V]
        beams, parent = _advance(beams, log_probabilities.unflatten(0, (-1, K)), position, limits, config)
        done = _final(beams, position, limits, config) | (position >= limits.maximum)
        for b in done.nonzero().flatten().tolist():
            results[int(beams.row[b])] = beams.finished.hypotheses(b, config.n_best)
        running = (~done).nonzero().flatten()
        if len(running) == 0:
            break
        # [B, K] -> [N, K] -> [N * K]: the parents of the rows that stay
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
    """One more token for every hypothesis; also the parent of each, a number below K."""
    K, V = log_probabilities.shape[1:]
    # [B, K, 1] + [B, K, V] -> [B, K * V] -> [B, 2K]. K hypotheses have K continuations with EOS,
    # so 2K candidates always hold K that go on.
    total = beams.log_probability[..., None] + limits.apply(log_probabilities, position)
    total, candidate = total.flatten(1).topk(2 * K)
    parent, token = candidate // V, candidate % V
    ends = token == EOS
    finished = beams.finished
    if ends[:, :K].any():
        # Only at the maximum length is EOS not a choice; there, was it the model's?
        ended_by_model = (log_probabilities.argmax(-1) == EOS) | (position < limits.maximum)[:, None]
        score = total[:, :K] / length_penalty(position + 1, config.length_penalty)
        finished = finished.merge(
            Finished(
                tokens=_rows(beams.tokens, parent[:, :K]),
                length=torch.full_like(parent[:, :K], position),
                log_probability=total[:, :K],
                score=score.masked_fill(~ends[:, :K], -math.inf),
                ended_by_model=ended_by_model.gather(1, parent[:, :K]),
            )
        )
    # [B, 2K] -> [B, K]: the best that do not end
    log_probability, chosen = total.masked_fill(ends, -math.inf).topk(K)
    parent, token = parent.gather(1, chosen), token.gather(1, chosen)
    tokens = _rows(beams.tokens, parent)
    tokens[:, :, position] = token
    return BeamState(beams.row, tokens, log_probability, finished), parent


def _rows(tokens: Int[Tensor, "B K T"], parent: Int[Tensor, "B K"]) -> Int[Tensor, "B K T"]:
    """What the parents have said."""
    # [B, K] -> [B, K, T]
    return tokens.gather(1, parent[..., None].expand_as(tokens))


def _final(beams: BeamState, position: int, limits: Limits, config: SearchConfig) -> Bool[Tensor, " B"]:
    """Return the rows whose `n_best` are final.

    Certainly so by a bound: a running hypothesis only loses log-probability as it grows, and (alpha >= 0)
    divides it by at most the penalty of the maximum length and EOS. So no score to come exceeds
    log_probability / lp(maximum + 1).

    In practice once K hypotheses have finished and the n_best-th of them beats the best running one at its
    present length, since what follows seldom helps: with K = 1 this is greedy search. K finished ones alone
    are not enough: beside a model that is sure of a long output, K short ones of almost no probability end
    early.
    """
    needed, best_running = beams.finished.score[:, config.n_best - 1], beams.log_probability[:, 0]
    # lp is `length_penalty` of a tensor
    largest = ((5 + limits.maximum + 1) / 6) ** config.length_penalty
    full = beams.finished.score[:, -1] != -math.inf
    beaten = needed >= best_running / length_penalty(position + 1, config.length_penalty)
    return (needed >= best_running / largest) | (full & beaten)
