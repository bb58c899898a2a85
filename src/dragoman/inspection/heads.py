"""Heads switched off, one by one or several, to see what they do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from dragoman.attention import AttentionCore
from dragoman.attention_page.kinds import KINDS, Head
from dragoman.models.seq2seq import Seq2Seq


@contextmanager
def heads_off(model: Seq2Seq, rows: Sequence[Collection[Head]]) -> Iterator[None]:
    """Inside, row b of every batch runs without the heads `rows[b]`: their output is zero.

    Batches must have len(rows) rows, or any number when `rows` has one entry, which then holds for all. An attention
    that is applied again and again (Universal Transformer) is layer 0, and loses the head at every application; that
    of a recurrent model has one head.
    """
    modules = model.attentions()
    with ExitStack() as hooks:
        for kind in KINDS:
            for layer, module in enumerate(getattr(modules, kind)):
                off = [[head.head for head in heads if (head.kind, head.layer) == (kind, layer)] for heads in rows]
                if any(off):
                    hooks.callback(module.register_forward_hook(_silencer(off)).remove)
        yield


def _silencer(off: Sequence[Sequence[int]]) -> Callable[[nn.Module, object, Tensor], Tensor]:
    """A forward hook that silences the heads off[b] in row b, or off[0] in every row."""

    def hook(module: nn.Module, _: object, output: Tensor) -> Tensor:
        # The output is [B, H, T, Kv] of heads; of a recurrent attention, the weights [B, T, S] of its one head.
        heads = output.shape[1] if isinstance(module, AttentionCore) else 1
        on = torch.ones(len(off), heads)
        for row, silent in enumerate(off):
            on[row, list(silent)] = 0.0
        if len(off) > 1:
            # A packed grid has more rows than the batch.
            on = torch.cat((on, torch.ones(len(output) - len(off), heads)))
        on = on.to(output)
        # [B, H] -> [B, H, 1, 1], or [B, 1] -> [B, 1, 1]
        return output * (on[..., None, None] if isinstance(module, AttentionCore) else on[..., None])

    return hook
