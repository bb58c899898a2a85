"""Capture of a model's attention weights as arrays.

Forward hooks on the modules that `Seq2Seq.attentions` lists record the weights, for every architecture and position
scheme. The hooks exist only during a capture, so that they cost nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import AttentionCore, naive_attention
from dragoman.attention_page.arrays import AttentionArrays, AttentionDetails, CapturedAttention
from dragoman.attention_page.kinds import KINDS, Kind
from dragoman.data.batching import collate
from dragoman.inspection.rows import greedy_outputs
from dragoman.layers.recurrent_attention import AttentionWeights
from dragoman.models.inference import inference
from dragoman.models.seq2seq import Seq2Seq


def capture(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None = None,
    *,
    kinds: Collection[Kind] = KINDS,
    details: bool = False,
) -> list[CapturedAttention]:
    """Return the attention of a model while it reads `sources` and writes `targets`.

    At source position s, the encoder reads token s; the last position is EOS. At target position t, the decoder reads
    BOS (t = 0) or token t - 1, and predicts token t, or EOS at the last position.

    Args:
        model: a model of any architecture, on any device and in any mode; it is in evaluation mode while it runs.
        sources: source ids of each sentence, without special symbols.
        targets: target ids of each sentence, without special symbols. Defaults to the model's outputs (greedy search).
        kinds: the kinds of attention to capture; the others are None.
        details: also capture the queries, keys, values and outputs of the heads.

    Returns:
        One `CapturedAttention` per sentence, without padding. The weights are those of `naive_attention`, in float32.
    """
    with inference([model]):
        if targets is None:
            targets = [output.tokens for output in greedy_outputs(model, sources)]
        device = next(model.parameters()).device
        batch = collate(sources, targets).to(device)
        with _recording(model, kinds) as recorded:
            model.decode_states(batch.target_in, model.encode(batch.source, batch.source_mask), batch.target_mask)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in zip(sources, targets, strict=True)]
    return [
        CapturedAttention(
            target=tuple(int(token) for token in targets[row]),
            encoder_self=recorded["encoder_self"].arrays(row, S, S, details),
            decoder_self=recorded["decoder_self"].arrays(row, T, T, details),
            encoder_decoder=recorded["encoder_decoder"].arrays(row, T, S, details),
        )
        for row, (S, T) in enumerate(lengths)
    ]


@dataclass(frozen=True)
class _Call:
    """One call of an attention module.

    Attributes:
        weights: [B, H, T, S].
        details: its inputs and output by name, if available.
        scale: factor of the products of queries and keys, if available.
    """

    weights: Tensor
    details: dict[str, Tensor]
    scale: float | None = None


@dataclass
class _Recorded:
    """The recorded calls of one kind of attention, in order.

    Attributes:
        recurrent: True if each call computes some target positions of the only layer; False if it computes one layer.
        calls: the calls.
    """

    recurrent: bool = False
    calls: list[_Call] = field(default_factory=list)

    def observe(self, module: nn.Module, inputs: tuple[object, ...], output: Tensor) -> None:
        """Record a call; a forward hook."""
        if isinstance(module, AttentionCore):
            query, key, value, mask, *rest = inputs
            bias = rest[1] if len(rest) > 1 else None
            heads, weights = naive_attention(query, key, value, mask, bias, scale=module.scale)  # type: ignore[arg-type]
            scale = query.shape[-1] ** -0.5 if module.scale is None else module.scale  # type: ignore[attr-defined]
            details = {"query": query, "key": key, "value": value, "output": heads}
            if bias is not None:
                details["bias"] = bias
            self.calls.append(_Call(weights, details, scale))  # type: ignore[arg-type]
        else:
            assert isinstance(module, AttentionWeights), "unknown kind of attention module"
            self.recurrent = True
            # [B, T, S] -> [B, 1, T, S]: one head
            self.calls.append(_Call(output.unsqueeze(1), {}))

    def arrays(self, row: int, queries: int, keys: int, details: bool) -> AttentionArrays | None:
        """Return the arrays of one sentence without padding; None if the model has no attention of this kind."""
        if not self.calls:
            return None
        if self.recurrent:
            # t x [H, T', S] -> [H, T, S] -> [1, H, T, S]
            rows = torch.cat([call.weights[row] for call in self.calls], dim=1)
            return AttentionArrays(_array(rows.unsqueeze(0)[:, :, :queries, :keys]))
        # N x [H, T, S] -> [N, H, T, S]
        weights = torch.stack([call.weights[row, :, :queries, :keys] for call in self.calls])
        return AttentionArrays(_array(weights), self._details(row, queries, keys) if details else None)

    def _details(self, row: int, queries: int, keys: int) -> AttentionDetails:
        def layers(name: str, *sizes: int) -> Float[np.ndarray, "N H ..."]:
            cut = tuple(slice(size) for size in sizes)
            # A bias may be the same for all sentences: [1, H, T, S]
            tensors = [call.details[name] for call in self.calls]
            return _array(
                torch.stack([tensor[row if len(tensor) > 1 else 0][(slice(None), *cut)] for tensor in tensors])
            )

        scale = self.calls[0].scale
        assert scale is not None
        return AttentionDetails(
            scale=scale,
            query=layers("query", queries),
            key=layers("key", keys),
            value=layers("value", keys),
            output=layers("output", queries),
            bias=layers("bias", queries, keys) if "bias" in self.calls[0].details else None,
        )


@contextmanager
def _recording(model: Seq2Seq, kinds: Collection[Kind]) -> Iterator[dict[Kind, _Recorded]]:
    """Record the calls of the attention modules of these kinds inside the context."""
    modules = model.attentions()
    recorded = {kind: _Recorded() for kind in KINDS}
    with ExitStack() as hooks:
        for kind in kinds:
            for module in getattr(modules, kind):
                hooks.callback(module.register_forward_hook(recorded[kind].observe).remove)
        yield recorded


def _array(tensor: Tensor) -> Float[np.ndarray, ...]:
    return tensor.float().cpu().numpy()
