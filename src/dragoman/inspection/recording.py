"""Recording of the attention weights that a model computes, as arrays.

Forward hooks on the modules that `attentions` of a model lists record the weights, for every architecture and position
scheme. The hooks exist only during a recording, so that they cost nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import AttentionCore, naive_attention
from dragoman.attention_page.arrays import AttentionArrays, AttentionDetails
from dragoman.attention_page.kinds import KINDS, Kind
from dragoman.layers.compressed_attention import CompressedMask
from dragoman.layers.recurrent_attention import AttentionWeights
from dragoman.models.image_classifier import ImageClassifier
from dragoman.models.language_model import LanguageModel
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.text_encoder import TextEncoder

# A model that reads one text.
TextModel = LanguageModel | TextEncoder


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
class Recorded:
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
            if isinstance(mask, CompressedMask):
                weights, details = _of_tokens(weights, mask.compression), {}
            self.calls.append(_Call(weights, details, scale))  # type: ignore[arg-type]
        else:
            assert isinstance(module, AttentionWeights), "unknown kind of attention module"
            self.recurrent = True
            # [B, T, S] -> [B, 1, T, S]: one head
            self.calls.append(_Call(output.unsqueeze(1), {}))

    def join(self, layers: int, length: int) -> None:
        """Join the calls of each layer if each computed a piece of a text; the weights are then without details.

        Args:
            layers: number of layers.
            length: number of tokens of the text.
        """
        if len(self.calls) > layers:
            self.calls = [_joined(self.calls[layer::layers], length) for layer in range(layers)]

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
        details = details and all(call.details for call in self.calls)
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
def recording(model: Seq2Seq | TextModel | ImageClassifier, kinds: Collection[Kind]) -> Iterator[dict[Kind, Recorded]]:
    """Record the calls of the attention modules of these kinds inside the context."""
    modules = model.attentions()
    recorded = {kind: Recorded() for kind in KINDS}
    with ExitStack() as hooks:
        for kind in kinds:
            for module in getattr(modules, kind):
                hooks.callback(module.register_forward_hook(recorded[kind].observe).remove)
        yield recorded


def _array(tensor: Tensor) -> Float[np.ndarray, ...]:
    return tensor.float().cpu().numpy()


def _of_tokens(weights: Float[Tensor, "B H T n"], compression: int) -> Float[Tensor, "B H T T"]:
    """Divide the weight of each compressed key equally among the tokens of which it consists."""
    # [B, H, T, n] -> [B, H, T, n*c] -> [B, H, T, T]
    shares = (weights / compression).repeat_interleave(compression, dim=-1)
    return F.pad(shares, (0, weights.shape[2] - shares.shape[3]))


def _joined(calls: list[_Call], length: int) -> _Call:
    """Return the weights of a text from those of its pieces, whose queries are the last of their keys."""
    rows, end = [], 0
    for call in calls:
        end += call.weights.shape[2]
        # [B, H, t, s] -> [B, H, t, T]
        rows.append(F.pad(call.weights, (end - call.weights.shape[3], length - end)))
    # p x [B, H, t, T] -> [B, H, T, T]
    return _Call(torch.cat(rows, dim=2), {})
