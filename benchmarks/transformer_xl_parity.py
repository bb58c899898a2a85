"""Compare Transformer-XL with `TransfoXLModel` of transformers 4.57.6, which has the same random weights.

    python -m venv build/xl && build/xl/bin/pip install . transformers==4.57.6
    build/xl/bin/python benchmarks/transformer_xl_parity.py

Needs an environment of its own, because later versions of transformers do not have this model. Nothing is downloaded:
the weights are random. Both models read texts in segments, with memories shorter and longer than a segment; compared
are the states of the last layer, and gradients of the attention's weights from the loss on the last segment, in float32
(their mask overflows in float64). Differences are relative to the largest value. The last line is JSON and begins with
the largest difference of a state.
"""

import argparse
import json
import warnings
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from transformers.models.deprecated.transfo_xl import TransfoXLConfig, TransfoXLModel

from dragoman.models.config.transformer_xl import TransformerXLConfig
from dragoman.models.transformer_xl import TransformerXL, build_transformer_xl

V, LAYERS, D, HEADS, D_FF = 50, 3, 32, 4, 64
TOLERANCE = 1e-5


def peer_of(*, memory: int, untied: bool, pre_norm: bool) -> TransfoXLModel:
    """Return their model with random weights, without dropout."""
    config = TransfoXLConfig(
        vocab_size=V,
        cutoffs=[],
        d_model=D,
        d_embed=D,
        n_head=HEADS,
        d_head=D // HEADS,
        d_inner=D_FF,
        div_val=1,
        pre_lnorm=pre_norm,
        n_layer=LAYERS,
        mem_len=memory,
        clamp_len=-1,
        same_length=False,
        untie_r=untied,
        dropout=0.0,
        dropatt=0.0,
    )
    torch.manual_seed(0)
    peer = TransfoXLModel(config)
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter))
    return peer


def model_of(peer: TransfoXLModel, *, segment: int, memory: int, untied: bool, pre_norm: bool) -> TransformerXL:
    """Return our model with the weights of theirs."""
    config = TransformerXLConfig(
        vocabulary=V,
        layers=LAYERS,
        context=segment,
        segment=segment,
        memory=memory,
        score_biases="layer" if untied else "shared",
        d_model=D,
        heads=HEADS,
        d_ff=D_FF,
        dropout=0.0,
        norm_placement="pre" if pre_norm else "post",
    )
    model = build_transformer_xl(config)
    # Their table has all sines before all cosines; ours alternates.
    features = torch.arange(D).unflatten(0, (2, -1)).t().flatten()
    with torch.no_grad():
        # They multiply embeddings by √d_model.
        model.embedding.tokens.weight.copy_(peer.word_emb.emb_layers[0].weight * D**0.5)
        for ours, theirs in zip(model.layers, peer.layers, strict=True):
            attention, their_attention = ours.self_attention, theirs.dec_attn
            projections = (attention.query, attention.key, attention.value)
            for projection, weight in zip(projections, their_attention.qkv_net.weight.chunk(3), strict=True):
                projection.weight.copy_(weight)
            attention.output.weight.copy_(their_attention.o_net.weight)
            attention.position.weight.copy_(their_attention.r_net.weight[:, features])
            attention.biases.content.copy_(their_attention.r_w_bias)
            attention.biases.position.copy_(their_attention.r_r_bias)
            copy_weights(theirs.pos_ff.CoreNet[0], ours.feed_forward.inner)
            copy_weights(theirs.pos_ff.CoreNet[3], ours.feed_forward.outer)
            copy_weights(their_attention.layer_norm, ours.attention_residual.norm)
            copy_weights(theirs.pos_ff.layer_norm, ours.feed_forward_residual.norm)
        if model.final_norm is not None:
            # Their pre-norm model has no norm after the last layer.
            model.final_norm = None
    return model


def copy_weights(source: Any, destination: Any) -> None:
    destination.load_state_dict(source.state_dict())


def gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def their_states(peer: TransfoXLModel, tokens: Tensor, segment: int) -> Tensor:
    """Return the states of the last layer for all segments, beginning with an empty memory."""
    # Their own first memory consists of zeros, to which they attend; that of the paper's code is empty.
    memories = [torch.zeros(0, len(tokens), D) for _ in range(LAYERS)]
    states = []
    type_as = Tensor.type_as
    # This version calls `type_as(dtype=...)`, which torch does not accept.
    with mock.patch.object(
        Tensor, "type_as", lambda x, other=None, dtype=None: x.to(dtype) if dtype else type_as(x, other)
    ):
        for piece in tokens.split(segment, dim=1):
            output = peer(piece, mems=memories)
            memories = output.mems
            states.append(output.last_hidden_state)
    return torch.cat(states, dim=1)


def compare(*, segment: int, memory: int, untied: bool, pre_norm: bool) -> dict[str, Any]:
    """Return the largest differences of states and of gradients."""
    peer = peer_of(memory=memory, untied=untied, pre_norm=pre_norm)
    model = model_of(peer, segment=segment, memory=memory, untied=untied, pre_norm=pre_norm)
    tokens = torch.randint(V, (3, 40), generator=torch.Generator().manual_seed(1))
    expected = their_states(peer, tokens, segment)
    actual = model(tokens).states
    for states in (expected, actual):
        states[:, -segment:].square().sum().backward()
    gradients = []
    for ours, theirs in zip(model.layers, peer.layers, strict=True):
        attention = ours.self_attention
        projections = [attention.query, attention.key, attention.value]
        gradients.append(
            (torch.cat([gradient(linear.weight) for linear in projections]), gradient(theirs.dec_attn.qkv_net.weight))
        )
        gradients.append((gradient(attention.output.weight), gradient(theirs.dec_attn.o_net.weight)))
    return {
        "segment": segment,
        "memory": memory,
        "biases": "per layer" if untied else "shared",
        "norm": "pre" if pre_norm else "post",
        "states": float((actual - expected).abs().max() / expected.abs().max()),
        "gradients": max(float((a - b).abs().max() / b.abs().max()) for a, b in gradients),
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warnings.simplefilter("ignore")
    cases = [
        compare(segment=segment, memory=memory, untied=untied, pre_norm=pre_norm)
        for segment, memory in ((40, 0), (8, 8), (8, 3), (8, 20), (8, 40))
        for untied in (False, True)
        for pre_norm in (False, True)
    ]
    print(f"{'segment':>7} {'memory':>6} {'u and v':<9} {'norm':<4} {'states':>8} {'gradients':>9}")
    for case in cases:
        print(
            f"{case['segment']:7} {case['memory']:6} {case['biases']:<9} {case['norm']:<4} "
            f"{case['states']:8.1e} {case['gradients']:9.1e}"
        )
    states = max(case["states"] for case in cases)
    assert states < TOLERANCE, "the models differ"
    print(json.dumps({"states": states, "gradients": max(case["gradients"] for case in cases), "cases": cases}))


if __name__ == "__main__":
    main()
