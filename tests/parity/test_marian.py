"""The Transformer against Hugging Face's MarianMTModel, with the same weights: logits and greedy output."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from dragoman.layers.positions import sinusoidal_table
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.transformer import Transformer, build_transformer

V, D, HEADS, D_FF, ENCODER_LAYERS, DECODER_LAYERS, LENGTH = 60, 32, 4, 48, 3, 2, 40
PAD, EOS, BOS = 0, 3, 2

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
# Our names of the parts of a layer -> Marian's names.
ENCODER_LAYER = {
    **{f"self_attention.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "attention_residual.norm": "self_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
DECODER_LAYER = {
    **{f"self_attention.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    **{f"memory_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "self_residual.norm": "self_attn_layer_norm",
    "memory_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}


def marian(activation: str) -> Any:
    """Return Marian's model with random weights and biases; nothing is downloaded."""
    torch.manual_seed(0)
    model: Any = MarianMTModel(
        MarianConfig(
            vocab_size=V,
            d_model=D,
            encoder_layers=ENCODER_LAYERS,
            decoder_layers=DECODER_LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=D_FF,
            decoder_ffn_dim=D_FF,
            activation_function=activation,
            max_position_embeddings=LENGTH,
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )
    model.eval()
    assert model.final_logits_bias.eq(0).all()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
        # Marian differs from the paper's code in the order of sines and cosines, and in the epsilon of the norms.
        for part in (model.model.encoder, model.model.decoder):
            part.embed_positions.weight.copy_(sinusoidal_table(LENGTH, D))
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    return model


def names() -> Iterator[tuple[str, str]]:
    """Yield our name of each weight, and Marian's."""
    yield "source_embedding.tokens.weight", "model.shared.weight"
    for part, layers, table in (
        ("encoder", ENCODER_LAYERS, ENCODER_LAYER),
        ("decoder", DECODER_LAYERS, DECODER_LAYER),
    ):
        for i in range(layers):
            for ours, theirs in table.items():
                for kind in ("weight", "bias"):
                    yield f"{part}.layers.{i}.{ours}.{kind}", f"model.{part}.layers.{i}.{theirs}.{kind}"


def ours_from(model: Any, activation: Any) -> Transformer:
    """Return our model with the weights of Marian's."""
    ours = build_transformer(
        TransformerConfig(
            source_vocabulary=V,
            target_vocabulary=V,
            encoder_layers=ENCODER_LAYERS,
            decoder_layers=DECODER_LAYERS,
            d_model=D,
            heads=HEADS,
            d_ff=D_FF,
            activation=activation,
            attention_bias=True,
        )
    )
    our_weights, their_weights = dict(ours.named_parameters()), dict(model.named_parameters())
    renamed = dict(names())
    # All weights of both models are in the table.
    assert our_weights.keys() == renamed.keys()
    assert {name for name in their_weights if "embed_positions" not in name} == set(renamed.values())
    with torch.no_grad():
        for name, their_name in renamed.items():
            our_weights[name].copy_(their_weights[their_name])
    return ours.eval()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, V, (4, 11), generator=generator)
    mask = torch.arange(11) < torch.tensor([[11], [7], [1], [10]])
    target = torch.randint(4, V, (4, 9), generator=generator)
    target[:, 0] = BOS
    return source.masked_fill(~mask, PAD), mask, target


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_same_logits(activation: str) -> None:
    theirs = marian(activation)
    ours = ours_from(theirs, activation)
    source, mask, target = batch()
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target)
        memory = ours.encode(source, mask)
        actual = ours.decode(target, memory)
    torch.testing.assert_close(memory.states[mask], expected.encoder_last_hidden_state[mask], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(actual, expected.logits, rtol=1e-4, atol=1e-4)
    # The comparison is meaningful: logits differ from token to token.
    assert actual.std(dim=-1).min() > 0.1


def test_the_same_greedy_continuation() -> None:
    """Greedy decoding with our cache and with Marian's; each continues with its own best token."""
    theirs = marian("relu")
    ours = ours_from(theirs, "relu")
    source, mask, _ = batch()
    with torch.no_grad():
        state = ours.start(ours.encode(source, mask))
        encoded = theirs.get_encoder()(input_ids=source, attention_mask=mask.long())
        our_token = their_token = torch.full((4,), BOS)
        cache = None
        for _ in range(LENGTH - 5):
            logits, state = ours.step(our_token, state)
            output = theirs(
                encoder_outputs=encoded,
                attention_mask=mask.long(),
                decoder_input_ids=their_token.unsqueeze(1),
                past_key_values=cache,
                use_cache=True,
            )
            cache = output.past_key_values
            torch.testing.assert_close(logits, output.logits[:, -1], rtol=1e-4, atol=1e-4)
            our_token, their_token = logits.argmax(dim=-1), output.logits[:, -1].argmax(dim=-1)
            assert our_token.equal(their_token)
