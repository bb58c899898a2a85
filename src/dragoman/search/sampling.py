"""Searches with one hypothesis per row: greedy search and sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from dragoman.search.config import SamplingConfig, SearchConfig, length_penalty
from dragoman.search.limits import Limits
from dragoman.search.random_streams import BLOCK, uniforms
from dragoman.search.results import Hypothesis
from dragoman.search.stepper import State, Stepper
from dragoman.text.subwords import BOS, EOS

# (log-probabilities [N, V], index of each row in the caller's batch [N], position) -> next token [N]
ChooseTokens = Callable[[Tensor, Tensor, int], Tensor]


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
    """Return the output of each row with the most probable token at each position: `beam_search` with a beam of 1.

    Args:
        stepper: the model.
        state: initial decoder state of B rows, from `start`.
        source_lengths: number of source tokens of each row, without EOS.
        config: settings of the search; `beam` and `n_best` are ignored.
        device: device of the model.
        prefixes: target ids with which the output of each row must begin; their log-probabilities count.
        keep_rows: Keep all rows in the batch until all have finished, so that row b of every step is row b of `state`.
            The results are the same, but the search is slower. This is for models that treat rows differently, such as
            a model with some heads switched off.
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
    """Return `sampling.samples` random outputs of each row, in the order of their sample numbers.

    Log-probabilities are those of the model, without temperature, top_k and top_p.

    Args:
        stepper: the model.
        state: initial decoder state of B rows, from `start`.
        source_lengths: number of source tokens of each row, without EOS.
        config: settings of the search; `beam` and `n_best` are ignored.
        sampling: settings of sampling.
        keys: key of the random stream of each row, 0 to 2**64 - 1; rows with equal keys use equal random numbers.
        device: device of the model.
        prefixes: target ids with which the output of each row must begin; their log-probabilities count.
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
        block, index = divmod(position, BLOCK)
        if block == len(numbers):
            # [B * n, BLOCK]: the random numbers of the next positions
            streams = [uniforms(sampling.seed, key, i, BLOCK, position) for key in keys for i in range(n)]
            numbers.append(torch.from_numpy(np.stack(streams)).to(device))
        return draw(log_probabilities, numbers[block][rows, index], sampling)

    samples = _generate(stepper, state, limits, config.length_penalty, choose)
    return [samples[first : first + n] for first in range(0, len(samples), n)]


def penalise_repetition(
    logits: Float[Tensor, "N V"], occurred: Bool[Tensor, "N V"], penalty: float
) -> Float[Tensor, "N V"]:
    """Return logits in which the tokens that occurred are less probable.

    "CTRL" (Keskar et al., 2019, section 4.1) divides these logits by the penalty. Division would make a token with a
    negative logit more probable, therefore negative logits are multiplied by it.

    Args:
        logits: the output of the model, not normalised.
        occurred: True for the tokens that occurred.
        penalty: at least 1, which changes nothing.
    """
    return torch.where(occurred, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def draw(
    log_probabilities: Float[Tensor, "N V"],
    uniform: Float[Tensor, " N"],
    sampling: SamplingConfig,
) -> Int[Tensor, " N"]:
    """Sample one token per row, by inverting the cumulative distribution over token ids in float64.

    Args:
        log_probabilities: of the next token; they need not be normalised.
        uniform: a random number in [0, 1) for each row.
        sampling: settings of sampling.
    """
    logits = log_probabilities.double() / sampling.temperature
    if sampling.top_k is not None:
        # [N, V] -> [N, 1]; tokens as probable as the k-th are kept
        kth = logits.topk(min(sampling.top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < kth, -math.inf)
    if sampling.top_p < 1:
        probability, order = logits.softmax(-1).sort(descending=True, stable=True)
        # The most probable token is always kept, since the probabilities before it sum to 0.
        surplus = probability.cumsum(-1) - probability >= sampling.top_p
        logits = logits.masked_fill(torch.zeros_like(surplus).scatter(1, order, surplus), -math.inf)
    if sampling.min_p > 0:
        # [N, V] -> [N, 1]; the ratio of two probabilities is the difference of their logits
        threshold = logits.max(-1, keepdim=True).values + math.log(sampling.min_p)
        logits = logits.masked_fill(logits < threshold, -math.inf)
    cumulative = logits.softmax(-1).cumsum(-1)
    # The first id whose cumulative probability exceeds the random number. Since the number is below 1, the target is
    # below the total also after rounding. Ids of probability 0 are never chosen, since they do not increase the sum.
    target = uniform[:, None] * cumulative[:, -1:]
    # [N, 1] -> [N]
    return torch.searchsorted(cumulative, target, right=True).squeeze(1)


def _generate(
    stepper: Stepper[State],
    state: State,
    limits: Limits,
    alpha: float,
    choose: ChooseTokens,
    *,
    keep_rows: bool = False,
) -> list[Hypothesis]:
    """Extend each of N rows token by token until EOS; finished rows leave the batch unless `keep_rows` is set."""
    N, device = len(limits.maximum), limits.maximum.device
    longest = int(limits.maximum.max())
    # Memory for more positions is allocated when it is needed.
    tokens = torch.zeros(N, min(longest + 1, BLOCK), dtype=torch.int64, device=device)
    totals = torch.zeros(tokens.shape, device=device)
    log_probability = torch.zeros(N, device=device)
    length = torch.zeros(N, dtype=torch.int64, device=device)
    ended_by_model = torch.zeros(N, dtype=torch.bool, device=device)
    finished = torch.zeros(N, dtype=torch.bool, device=device)
    rows = torch.arange(N, device=device)  # [R]: the rows that are in the batch
    token = torch.full((N,), BOS, dtype=torch.int64, device=device)
    for position in range(longest + 1):
        if position == (capacity := tokens.size(1)):
            # [N, T] -> [N, 2T]
            padding = (0, min(longest + 1 - capacity, capacity))
            tokens, totals = pad(tokens, padding), pad(totals, padding)
        log_probabilities, state = stepper.step(token, state)
        # [R, V] -> [R, 1, V] -> [R, V]
        allowed = limits.apply(log_probabilities[:, None], position)[:, 0]
        token = choose(allowed, rows, position)
        tokens[rows, position] = token
        # [R, V] -> [R, 1] -> [R]; the log-probability of a finished row does not change
        token_log_probability = allowed.gather(1, token[:, None]).squeeze(1)
        log_probability[rows] += token_log_probability.masked_fill(finished[rows], 0.0)
        totals[rows, position] = log_probability[rows]
        ends = (token == EOS) & ~finished[rows]
        if not ends.any():
            continue
        finished[rows[ends]] = True
        length[rows[ends]] = position
        # At the maximum length EOS is forced. It is still the model's if it is also the most probable token.
        by_model = (log_probabilities.argmax(-1) == EOS) | (position < limits.maximum)
        ended_by_model[rows[ends]] = by_model[ends]
        running = (~finished[rows]).nonzero().flatten()
        if len(running) == 0:
            break
        if not keep_rows:
            rows, token = rows[running], token[running]
            state, limits = state.reorder(running), limits.select(running)
    return [
        Hypothesis(
            tokens=tuple(ids[:count]),
            log_probability=total,
            score=total / length_penalty(count + 1, alpha),
            finished=by_model,
            totals=tuple(totals_of_tokens[:count]),
        )
        for ids, totals_of_tokens, count, total, by_model in zip(
            tokens.tolist(),
            totals.tolist(),
            length.tolist(),
            log_probability.tolist(),
            ended_by_model.tolist(),
            strict=True,
        )
    ]
