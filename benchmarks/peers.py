"""Build Dragoman's Transformer, MarianMTModel and torch.nn.Transformer in the same shape.

Each system is a module and a function that returns the mean loss of a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from dragoman.data.batching import Batch
from dragoman.layers.positions import sinusoidal_table
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.registry import preset
from dragoman.models.transformer import build_transformer
from dragoman.text.tokenizer import BOS, EOS, PAD
from dragoman.training.loss import label_smoothed_loss

SMOOTHING = 0.1
# Returns the mean loss of a batch.
Loss = Callable[[Batch], Tensor]


@dataclass(frozen=True)
class Shape:
    """Shape that all systems have; embeddings and output share their weights."""

    layers: int
    d_model: int
    heads: int
    d_ff: int
    vocabulary: int
    dropout: float = 0.1


def shape_of(name: str, vocabulary: int) -> Shape:
    config = preset(name, vocabulary, vocabulary, joint=True)
    assert isinstance(config, TransformerConfig)
    return Shape(config.encoder_layers, config.d_model, config.heads, config.d_ff, vocabulary, config.dropout)


def dragoman(shape: Shape) -> tuple[nn.Module, Loss]:
    config = TransformerConfig(
        source_vocabulary=shape.vocabulary,
        target_vocabulary=shape.vocabulary,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        d_model=shape.d_model,
        heads=shape.heads,
        d_ff=shape.d_ff,
        dropout=shape.dropout,
    )
    model = build_transformer(config)

    def loss(batch: Batch) -> Tensor:
        decoded = model(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
        total, tokens = label_smoothed_loss(
            decoded.rows, decoded.layout, model.output.weight, batch.target_out, SMOOTHING
        )
        return total / tokens

    return model, loss


def smoothed(logits: Tensor, batch: Batch) -> Tensor:
    # [B, T, V] -> [B*T, V]
    return F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.masked_fill(~batch.target_mask, -100).flatten(),
        label_smoothing=SMOOTHING,
    )


def torch_transformer(shape: Shape) -> tuple[nn.Module, Loss]:
    embedding = nn.Embedding(shape.vocabulary, shape.d_model)
    nn.init.normal_(embedding.weight, std=shape.d_model**-0.5)
    transformer = nn.Transformer(
        shape.d_model, shape.heads, shape.layers, shape.layers, shape.d_ff, shape.dropout, batch_first=True
    )
    positions = sinusoidal_table(512, shape.d_model)

    def embed(token: Tensor) -> Tensor:
        x = embedding(token) * shape.d_model**0.5 + positions[: token.shape[1]]
        return F.dropout(x, shape.dropout, training=True)

    def loss(batch: Batch) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target_in.shape[1], dtype=torch.bool)
        states = transformer(
            embed(batch.source),
            embed(batch.target_in),
            tgt_mask=causal,
            src_key_padding_mask=~batch.source_mask,
            memory_key_padding_mask=~batch.source_mask,
            tgt_is_causal=True,
        )
        return smoothed(states @ embedding.weight.t(), batch)

    return nn.ModuleList([embedding, transformer]), loss


def marian(shape: Shape) -> tuple[transformers.MarianMTModel, Loss]:
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=shape.vocabulary,
            d_model=shape.d_model,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            encoder_ffn_dim=shape.d_ff,
            decoder_ffn_dim=shape.d_ff,
            dropout=shape.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            bos_token_id=BOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            max_position_embeddings=512,
            use_cache=False,
        )
    )

    def loss(batch: Batch) -> Tensor:
        output = model(input_ids=batch.source, attention_mask=batch.source_mask, decoder_input_ids=batch.target_in)
        return smoothed(output.logits, batch)

    return model, loss


SYSTEMS: dict[str, Callable[[Shape], tuple[nn.Module, Loss]]] = {
    "Dragoman": dragoman,
    "MarianMTModel": marian,
    "torch.nn.Transformer": torch_transformer,
}
