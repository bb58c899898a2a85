"""What a sentence's translation loses without one head."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dragoman.attention_page.arrays import Captured
from dragoman.attention_page.kinds import KINDS, Head
from dragoman.data.batching import collate
from dragoman.inspection.heads import heads_off
from dragoman.inspection.rows import greedy_outputs, target_log_probabilities
from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq

# Target positions in one batch of copies of a sentence, which bounds memory.
POSITIONS_AT_ONCE = 4096


@dataclass(frozen=True)
class Without:
    """What the model says without some heads, and the log-probability (nats) of what it says with them."""

    output: tuple[int, ...]
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
) -> tuple[list[Ablated], tuple[int, ...]]:
    """Return what the model says without each of `heads`, and with all of them. All by greedy search.

    Rows of a batch are the same sentence, each without another head.
    """
    rows = max(1, POSITIONS_AT_ONCE // (len(target) + 1))
    ablated: list[Ablated] = []
    whole: tuple[int, ...] = ()
    for first in range(0, len(heads), rows):
        some = heads[first : first + rows]
        # The last row has all heads.
        sources = [source] * (len(some) + 1)
        with heads_off(model, [*([head] for head in some), []]):
            outputs = greedy_outputs(model, sources)
            totals = target_log_probabilities(model, sources, [target] * len(sources))
        ablated += [
            Ablated(output.tokens, total, head) for head, output, total in zip(some, outputs, totals, strict=False)
        ]
        whole = outputs[-1].tokens
    return ablated, whole


def without_all(model: Seq2Seq, source: Sequence[int], target: Sequence[int], heads: Collection[Head]) -> Without:
    """Return what the model says with all of `heads` switched off at once."""
    with heads_off(model, [heads]):
        [output] = greedy_outputs(model, [source])
        [total] = target_log_probabilities(model, [source], [target])
    return Without(output.tokens, total)


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
