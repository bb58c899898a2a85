"""What a sentence's translation loses without one head."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dragoman.attention_page.arrays import Captured
from dragoman.attention_page.kinds import KINDS, Head
from dragoman.data.batching import collate
from dragoman.inspection.greedy import greedy
from dragoman.inspection.heads import heads_off
from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq

# Logits of so many target positions at once: 128 MB for 8,000 subwords.
POSITIONS_AT_ONCE = 4096


@dataclass(frozen=True)
class Without:
    """What the model says without some heads, and the log-probability (nats) of what it says with them."""

    output: list[int]
    log_probability: float


@dataclass(frozen=True)
class Ablated(Without):
    """Without one head."""

    head: Head


def heads_of(model: Seq2Seq, captured: Captured) -> list[Head]:
    """Every head that can be switched off, in order; `captured` of this model."""
    modules = model.attentions()
    return [
        Head(kind, layer, head)
        for kind in KINDS
        for layer in range(len(getattr(modules, kind)))
        for head in range(getattr(captured, kind).weights.shape[1])
    ]


def without_each(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], heads: Sequence[Head]
) -> tuple[list[Ablated], list[int]]:
    """Switch off one of `heads` after the other; and what the model says with all of them. All by greedy search.

    Rows of a batch are the same sentence, each without another head.
    """
    rows = max(1, POSITIONS_AT_ONCE // (len(target) + 1))
    ablated: list[Ablated] = []
    whole: list[int] = []
    with inference([model]):
        for first in range(0, len(heads), rows):
            some = heads[first : first + rows]
            # The last row has all heads.
            sources = [source] * (len(some) + 1)
            with heads_off(model, [*([head] for head in some), []]):
                outputs = greedy(model, sources)
                totals = log_probabilities(model, sources, [target] * len(sources))
            ablated += [
                Ablated(output.tokens, total, head) for head, output, total in zip(some, outputs, totals, strict=False)
            ]
            whole = outputs[-1].tokens
    return ablated, whole


def without_all(model: Seq2Seq, source: Sequence[int], target: Sequence[int], heads: Collection[Head]) -> Without:
    """Switch all of `heads` off at once."""
    with inference([model]), heads_off(model, [heads]):
        [output] = greedy(model, [source])
        [total] = log_probabilities(model, [source], [target])
    return Without(output.tokens, total)


def log_probabilities(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[float]:
    """Of each target given its source, EOS included, in nats; the caller has put the model into evaluation mode."""
    batch = collate(sources, targets).to(next(model.parameters()).device)
    logits = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask), batch.target_mask)
    # [B, T, V] -> [B, T, 1] -> [B, T] -> [B]
    found = logits.float().log_softmax(-1).gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    return found.masked_fill(~batch.target_mask, 0.0).sum(-1).tolist()


def candidates(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], count: int
) -> list[list[tuple[int, float]]]:
    """At each of the T positions, the `count` most probable tokens and their probabilities."""
    with inference([model]):
        batch = collate([source], [target]).to(next(model.parameters()).device)
        logits = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask), batch.target_mask)
        # [1, T, V] -> [T, count]
        found = logits[0].float().softmax(-1).topk(min(count, logits.shape[-1]))
    return [
        list(zip(tokens, probabilities, strict=True))
        for tokens, probabilities in zip(found.indices.tolist(), found.values.tolist(), strict=True)
    ]
