"""Ablation: the translation of a sentence without some attention heads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from dragoman.attention_page.arrays import CapturedAttention
from dragoman.attention_page.kinds import KINDS, Head
from dragoman.data.batching import collate
from dragoman.inspection.capture import as_one_text
from dragoman.inspection.heads import heads_off
from dragoman.inspection.recording import TextModel
from dragoman.inspection.rows import greedy_outputs, target_log_probabilities
from dragoman.models.decoder_only import DecoderOnly
from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq

# Number of target positions in a batch of copies of a sentence; bounds memory.
POSITIONS_AT_ONCE = 4096


@dataclass(frozen=True)
class Without:
    """Result of an ablation.

    Attributes:
        output: target ids of greedy search without the heads.
        log_probability: log-probability (nats) of the given target without the heads.
    """

    output: tuple[int, ...]
    log_probability: float


@dataclass(frozen=True)
class Ablated(Without):
    """Result of the ablation of a single head."""

    head: Head


def heads_of(model: Seq2Seq | TextModel, captured: CapturedAttention) -> list[Head]:
    """Return every head of a model that can be switched off; `captured` is any attention captured from the model."""
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
    """Translate a sentence without each single head.

    The rows of a batch are copies of the sentence, each with a different head switched off.

    Args:
        model: the model.
        source: source ids.
        target: target ids whose log-probability is computed.
        heads: the heads to switch off, one at a time.

    Returns:
        The result for each head, and the output with all heads; outputs are found by greedy search.
    """
    rows = max(1, POSITIONS_AT_ONCE // (len(target) + 1))
    ablated: list[Ablated] = []
    with_all: tuple[int, ...] = ()
    for first in range(0, len(heads), rows):
        batch = heads[first : first + rows]
        # The last row has all heads.
        sources = [source] * (len(batch) + 1)
        with heads_off(model, [*([head] for head in batch), []]):
            outputs = greedy_outputs(model, sources)
            totals = target_log_probabilities(model, sources, [target] * len(sources))
        ablated += [
            Ablated(output.tokens, total, head) for head, output, total in zip(batch, outputs, totals, strict=False)
        ]
        with_all = outputs[-1].tokens
    return ablated, with_all


def without_all(model: Seq2Seq, source: Sequence[int], target: Sequence[int], heads: Collection[Head]) -> Without:
    """Translate a sentence with all of `heads` switched off at once; arguments as for `without_each`."""
    with heads_off(model, [heads]):
        [output] = greedy_outputs(model, [source])
        [total] = target_log_probabilities(model, [source], [target])
    return Without(output.tokens, total)


def candidates(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], count: int
) -> list[list[tuple[int, float]]]:
    """Return, for each of the T target positions, the `count` most probable tokens and their probabilities.

    Those of a decoder-only model begin with the positions of the source, for which it is not trained.
    """
    device = next(model.parameters()).device
    with inference([model]):
        if isinstance(model, DecoderOnly):
            logits = model.output(model.text(torch.tensor([as_one_text(source, target)], device=device)).states)
        else:
            batch = collate([source], [target]).to(device)
            logits = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask), batch.target_mask)
        # [1, T, V] -> [T, count]
        top = logits[0].float().softmax(-1).topk(min(count, logits.shape[-1]))
    return [
        list(zip(tokens, probabilities, strict=True))
        for tokens, probabilities in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]
