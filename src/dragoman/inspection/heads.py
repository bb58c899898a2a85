"""Switching off of attention heads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from dragoman.attention import AttentionCore
from dragoman.attention_page.kinds import KINDS, Head
from dragoman.inspection.recording import TextModel
from dragoman.models.seq2seq import Seq2Seq


@contextmanager
def heads_off(model: Seq2Seq | TextModel, rows: Sequence[Collection[Head]]) -> Iterator[None]:
    """Switch off heads of a model inside the context: their output is zero.

    An attention that is applied repeatedly (Universal Transformer) is layer 0, and loses the head at every application.
    The attention of a recurrent model has one head.

    Args:
        model: the model.
        rows: the heads to switch off in each row of every batch, which must have as many rows. If `rows` has one entry,
            it applies to all rows of batches of any size.
    """
    modules = model.attentions()
    with ExitStack() as hooks:
        for kind in KINDS:
            for layer, module in enumerate(getattr(modules, kind)):
                off = [[head.head for head in heads if (head.kind, head.layer) == (kind, layer)] for heads in rows]
                if any(off):
                    hooks.callback(module.register_forward_hook(_zeroing_hook(off)).remove)
        yield


def _zeroing_hook(off: Sequence[Sequence[int]]) -> Callable[[nn.Module, object, Tensor], Tensor]:
    """Return a forward hook that sets the output of the heads off[b] in row b to zero, or of off[0] in every row."""

    def hook(module: nn.Module, _: object, output: Tensor) -> Tensor:
        # The output is [B, H, T, Kv]; for a recurrent attention, the weights [B, T, S] of its single head.
        heads = output.shape[1] if isinstance(module, AttentionCore) else 1
        on = torch.ones(len(off), heads)
        for row, heads_of_row in enumerate(off):
            on[row, list(heads_of_row)] = 0.0
        if len(off) > 1:
            # A packed batch may have more rows than the batch of sentences.
            on = torch.cat((on, torch.ones(len(output) - len(off), heads)))
        on = on.to(output)
        # [B, H] -> [B, H, 1, 1], or [B, 1] -> [B, 1, 1]
        return output * (on[..., None, None] if isinstance(module, AttentionCore) else on[..., None])

    return hook
