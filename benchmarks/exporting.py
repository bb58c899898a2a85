"""Export a trained Dragoman model to CTranslate2 and to Hugging Face; used by benchmarks/decoding.py only."""

from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import common_spec, transformer_spec
from transformers import PegasusConfig, PegasusForConditionalGeneration

from dragoman.layers.positions import sinusoidal_table
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import load_description
from dragoman.models.storage import load_model
from dragoman.models.weights import open_weights
from dragoman.text.tokenizer import BOS, EOS, PAD, Tokenizer

POSITIONS = 1024


def weights_of(directory: Path) -> dict[str, Any]:
    """Return every weight of a model that can be exported: pre-norm, sinusoidal positions, one vocabulary."""
    description = load_description(directory)
    model = description.model
    assert not description.right_to_left
    assert isinstance(model, TransformerConfig)
    assert (model.norm_placement, model.positions, model.tied_embeddings) == ("pre", "sinusoidal", "three-way")
    assert (model.norm, model.activation, model.attention_bias) == ("layer", "relu", False)
    with open_weights(directory, model) as weights:
        return {name: weights.read(name) for name in weights.names}


def to_ctranslate2(directory: Path, out: Path, quantization: str | None, tokens: list[str] | None = None) -> None:
    """Write a CTranslate2 model; `tokens` are its vocabulary, by default the subwords of the model's tokenizer."""
    config, weights = load_description(directory).model, weights_of(directory)
    assert isinstance(config, TransformerConfig)
    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=True,
        activation=common_spec.Activation.RELU,
    )

    def linear(to: Any, *names: str) -> None:
        to.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
        if f"{names[0]}.bias" in weights:
            to.bias = np.concatenate([weights[f"{name}.bias"] for name in names])

    def norm(to: Any, name: str) -> None:
        to.gamma, to.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]

    def network(to: Any, name: str) -> None:
        linear(to.linear_0, f"{name}.feed_forward.inner")
        linear(to.linear_1, f"{name}.feed_forward.outer")
        norm(to.layer_norm, f"{name}.feed_forward_residual.norm")

    table = sinusoidal_table(POSITIONS, config.d_model).numpy()
    embedding = weights["source_embedding.tokens.weight"]
    spec.encoder.embeddings[0].weight = embedding
    spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.scale_embeddings = True
        side.position_encodings.encodings = table
        norm(side.layer_norm, f"{name}.final_norm")
    for i, layer in enumerate(spec.encoder.layer):
        name = f"encoder.layers.{i}"
        own = f"{name}.self_attention"
        linear(layer.self_attention.linear[0], f"{own}.query", f"{own}.key", f"{own}.value")
        linear(layer.self_attention.linear[1], f"{own}.output")
        norm(layer.self_attention.layer_norm, f"{name}.attention_residual.norm")
        network(layer.ffn, name)
    for i, layer in enumerate(spec.decoder.layer):
        name = f"decoder.layers.{i}"
        own, source = f"{name}.self_attention", f"{name}.memory_attention"
        linear(layer.self_attention.linear[0], f"{own}.query", f"{own}.key", f"{own}.value")
        linear(layer.self_attention.linear[1], f"{own}.output")
        norm(layer.self_attention.layer_norm, f"{name}.self_residual.norm")
        linear(layer.attention.linear[0], f"{source}.query")
        linear(layer.attention.linear[1], f"{source}.key", f"{source}.value")
        linear(layer.attention.linear[2], f"{source}.output")
        norm(layer.attention.layer_norm, f"{name}.memory_residual.norm")
        network(layer.ffn, name)
    tokens = tokens or pieces_of(directory)
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = tokens[BOS], tokens[EOS], tokens[1]
    spec.config.decoder_start_token = tokens[BOS]
    spec.config.layer_norm_epsilon = 1e-6
    spec.validate()
    spec.optimize(quantization=quantization)
    out.mkdir(parents=True, exist_ok=True)
    spec.save(str(out))
    assert ctranslate2.contains_model(str(out))


def pieces_of(directory: Path) -> list[str]:
    """Return the subwords in the order of their ids."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    assert processor.get_piece_size() == Tokenizer.load(directory).target_size
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def to_hugging_face(directory: Path) -> Any:
    """Return a Pegasus model, which is Marian's with the norms before the sub-layers; its logits are checked."""
    config, weights = load_description(directory).model, weights_of(directory)
    assert isinstance(config, TransformerConfig)
    model: Any = PegasusForConditionalGeneration(
        PegasusConfig(
            vocab_size=config.source_vocabulary,
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=POSITIONS,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )
    model.eval()
    theirs: dict[str, torch.Tensor] = {}

    def put(name: str, own_name: str) -> None:
        theirs[f"{name}.weight"] = torch.from_numpy(weights[f"{own_name}.weight"])
        if f"{own_name}.bias" in weights:
            theirs[f"{name}.bias"] = torch.from_numpy(weights[f"{own_name}.bias"])

    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        put(f"model.{side}.layer_norm", f"{side}.final_norm")
        for i in range(layers):
            to, ours = f"model.{side}.layers.{i}", f"{side}.layers.{i}"
            attentions = {"self_attn": "self_attention"}
            norms = {"self_attn_layer_norm": "attention_residual" if side == "encoder" else "self_residual"}
            if side == "decoder":
                attentions["encoder_attn"] = "memory_attention"
                norms["encoder_attn_layer_norm"] = "memory_residual"
            for name, own in attentions.items():
                for projection, its in ATTENTION.items():
                    put(f"{to}.{name}.{its}", f"{ours}.{own}.{projection}")
            for name, own in {**norms, "final_layer_norm": "feed_forward_residual"}.items():
                put(f"{to}.{name}", f"{ours}.{own}.norm")
            put(f"{to}.fc1", f"{ours}.feed_forward.inner")
            put(f"{to}.fc2", f"{ours}.feed_forward.outer")
    embedding = torch.from_numpy(weights["source_embedding.tokens.weight"])
    table = sinusoidal_table(POSITIONS, config.d_model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in theirs:
                parameter.copy_(theirs.pop(name))
            elif "embed_positions" in name:
                parameter.copy_(table)
            elif "embed" in name or "shared" in name or "lm_head" in name:
                parameter.copy_(embedding)
            else:
                parameter.zero_()  # biases of attention, which Dragoman does not have
        assert not theirs, f"weights without a parameter: {list(theirs)[:3]}"
        for half in (model.model.encoder, model.model.decoder):
            half.embed_positions.weight.copy_(table)
        model.final_logits_bias.zero_()
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    _check(directory, model)
    return model


def _check(directory: Path, model: Any) -> None:
    ours = load_model(directory)
    source, target = torch.tensor([[40, 50, 60, EOS]]), torch.tensor([[BOS, 70, 80]])
    real = torch.ones_like(source, dtype=torch.bool)
    with torch.no_grad():
        expected = ours.decode(target, ours.encode(source, real))
        logits = model(input_ids=source, attention_mask=real.long(), decoder_input_ids=target).logits
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)
