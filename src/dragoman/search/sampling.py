"""Searches that follow one hypothesis per row: greedy search, and sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from dragoman.search.config import SamplingConfig, SearchConfig, length_penalty
from dragoman.search.limits import Limits
from dragoman.search.results import Hypothesis
from dragoman.search.stepper import State, Stepper
from dragoman.text.subwords import BOS, EOS

# Positions for which memory is taken at first, and random numbers are drawn at once.
BLOCK = 64
# (log-probabilities [N, V], the caller's number of each row [N], position) -> next token [N]
Choice = Callable[[Tensor, Tensor, int], Tensor]


@torch.no_grad()
def greedy_search(
    stepper: Stepper[State],
    state: State,
    source_lengths: Sequence[int],
    config: SearchConfig,
    device: torch.device,
    prefixes: Sequence[Sequence[int]] | None = None,
    *,
    keep_rows: bool = False,
) -> list[Hypothesis]:
    """Return the most probable token at each position, for each row; `beam_search` with a beam of 1.

    The arguments are those of `beam_search`; `beam` and `n_best` of the config do not matter.

    keep_rows  rows stay in the batch until all have finished: row b of every step is row b of `state`. The results are
               the same; it takes longer. For models that treat rows differently, such as one with heads switched off
    """

    def choose(log_probabilities: Tensor, rows: Tensor, position: int) -> Tensor:  # noqa: ARG001
        return log_probabilities.argmax(-1)

    if len(source_lengths) == 0:
        return []
    limits = Limits.build(source_lengths, config, prefixes, device)
    return _generate(stepper, state, limits, config.length_penalty, choose, keep_rows=keep_rows)


@torch.no_grad()
def sample(
    stepper: Stepper[State],
    state: State,
    source_lengths: Sequence[int],
    config: SearchConfig,
    sampling: SamplingConfig,
    keys: Sequence[int],
    device: torch.device,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """`sampling.samples` random outputs of each row, in the order in which they were drawn.

    `keys` (0 to 2**64 - 1) names the random stream of each row: equal keys draw equal numbers.
    Log-probabilities are the model's own, without temperature, top_k and top_p. The other arguments
    are those of `beam_search`; `beam` and `n_best` of the config do not matter.
    """
    if len(source_lengths) == 0:
        return []
    n = sampling.samples
    limits = Limits.build(source_lengths, config, prefixes, device)
    # [B] -> [B * n]
    copies = torch.arange(len(source_lengths), device=device).repeat_interleave(n)
    state, limits = state.reorder(copies), limits.select(copies)
    numbers: list[Tensor] = []

    def choose(log_probabilities: Tensor, rows: Tensor, position: int) -> Tensor:
        block, place = divmod(position, BLOCK)
        if block == len(numbers):
            # [B * n, BLOCK]: the numbers of the next positions
            streams = [uniforms(sampling.seed, key, i, BLOCK, position) for key in keys for i in range(n)]
            numbers.append(torch.from_numpy(np.stack(streams)).to(device))
        return draw(log_probabilities, numbers[block][rows, place], sampling)

    drawn = _generate(stepper, state, limits, config.length_penalty, choose)
    return [drawn[first : first + n] for first in range(0, len(drawn), n)]


def uniforms(
    seed: int, key: int, number: int, length: int, start: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """`length` numbers in [0, 1), from place `start` on, of the random stream that (seed, key, number) names.

    Counter-based (Philox; Salmon et al., 2011): no stream depends on what others were used for. `start` is a multiple
    of 4, the numbers that the counter gives at once.
    """
    assert start % 4 == 0
    generator = np.random.Philox(
        key=np.array([seed, key], dtype=np.uint64),
        counter=np.array([start // 4, 0, 0, number], dtype=np.uint64),
    )
    return np.random.Generator(generator).random(length)


def draw(
    log_probabilities: Float[Tensor, "N V"],
    uniform: Float[Tensor, " N"],
    sampling: SamplingConfig,
) -> Int[Tensor, " N"]:
    """One token per row, by the inverse of the cumulative distribution over ids, in float64."""
    logits = log_probabilities.double() / sampling.temperature
    if sampling.top_k is not None:
        # [N, V] -> [N, 1]; ties with the k-th stay in
        kth = logits.topk(min(sampling.top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < kth, -math.inf)
    if sampling.top_p < 1:
        probability, order = logits.softmax(-1).sort(descending=True, stable=True)
        # The most probable token always stays: nothing comes before it.
        surplus = probability.cumsum(-1) - probability >= sampling.top_p
        logits = logits.masked_fill(torch.zeros_like(surplus).scatter(1, order, surplus), -math.inf)
    cumulative = logits.softmax(-1).cumsum(-1)
    # The first id whose cumulative probability exceeds the number. uniform < 1 stays below the
    # total after rounding too, and ids of probability 0 do not raise the sum: none is chosen.
    target = uniform[:, None] * cumulative[:, -1:]
    # [N, 1] -> [N]
    return torch.searchsorted(cumulative, target, right=True).squeeze(1)


def _generate(
    stepper: Stepper[State], state: State, limits: Limits, alpha: float, choose: Choice, *, keep_rows: bool = False
) -> list[Hypothesis]:
    """Extend each of N rows token by token until EOS; finished rows leave the batch, unless `keep_rows`."""
    N, device = len(limits.maximum), limits.maximum.device
    longest = int(limits.maximum.max())
    tokens = torch.zeros(N, min(longest + 1, BLOCK), dtype=torch.int64, device=device)
    log_probability = torch.zeros(N, device=device)
    length = torch.zeros(N, dtype=torch.int64, device=device)
    ended_by_model = torch.zeros(N, dtype=torch.bool, device=device)
    finished = torch.zeros(N, dtype=torch.bool, device=device)
    rows = torch.arange(N, device=device)  # [R]: the rows in the batch
    token = torch.full((N,), BOS, dtype=torch.int64, device=device)
    for position in range(longest + 1):
        if position == (room := tokens.size(1)):
            # [N, T] -> [N, 2T]
            tokens = pad(tokens, (0, min(longest + 1 - room, room)))
        log_probabilities, state = stepper.step(token, state)
        # [R, V] -> [R, 1, V] -> [R, V]
        allowed = limits.apply(log_probabilities[:, None], position)[:, 0]
        token = choose(allowed, rows, position)
        tokens[rows, position] = token
        # [R, V] -> [R, 1] -> [R]; a finished row says nothing more
        said = allowed.gather(1, token[:, None]).squeeze(1)
        log_probability[rows] += said.masked_fill(finished[rows], 0.0)
        ends = (token == EOS) & ~finished[rows]
        if not ends.any():
            continue
        finished[rows[ends]] = True
        length[rows[ends]] = position
        # Only at the maximum length is EOS not a choice; there, was it the model's?
        chosen = (log_probabilities.argmax(-1) == EOS) | (position < limits.maximum)
        ended_by_model[rows[ends]] = chosen[ends]
        running = (~finished[rows]).nonzero().flatten()
        if len(running) == 0:
            break
        if not keep_rows:
            rows, token = rows[running], token[running]
            state, limits = state.reorder(running), limits.select(running)
    return [
        Hypothesis(
            tokens=tuple(said[:count]),
            log_probability=total,
            score=total / length_penalty(count + 1, alpha),
            finished=own,
        )
        for said, count, total, own in zip(
            tokens.tolist(), length.tolist(), log_probability.tolist(), ended_by_model.tolist(), strict=True
        )
    ]
