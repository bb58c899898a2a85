"""Builders of the parts of Transformer layers, from the settings that several architectures share."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from torch import nn

from dragoman.attention import MultiHeadAttention
from dragoman.layers.causal_attention import CausalAttention
from dragoman.layers.compressed_attention import CompressedAttention
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.layers.feed_forward import GATED, FeedForward, GatedFeedForward
from dragoman.layers.local_attention import LocalAttention
from dragoman.layers.norms import LayerNorm, PostNorm, PreNorm, RMSNorm, TokenBatchNorm
from dragoman.layers.positions import (
    LearnedPositions,
    OneHotPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)
from dragoman.models.config import attention_factor
from dragoman.models.config.causal import AttentionPattern, CausalConfig
from dragoman.models.config.layers import LayerConfig


def build_encoder_layer(config: LayerConfig) -> EncoderLayer:
    """Build an encoder layer."""
    return EncoderLayer(
        build_self_attention(config, future=True),
        build_feed_forward(config),
        build_residual(config),
        build_residual(config),
    )


def build_final_norm(config: LayerConfig) -> nn.Module | None:
    """Build the norm after the last layer; None with post-norm, whose layers end with a norm."""
    return build_norm(config) if config.norm_placement == "pre" else None


def build_self_attention(config: LayerConfig, *, future: bool) -> MultiHeadAttention:
    """Build a self-attention, with the positions that are represented in it.

    Args:
        config: settings of the layer.
        future: True if queries attend to keys after them, as in an encoder.
    """
    return _attention(MultiHeadAttention, config, _rotation(config), _relative(config, future=future))


def build_causal_attention(config: CausalConfig, pattern: AttentionPattern) -> CausalAttention:
    """Build the self-attention of a causal layer.

    Args:
        config: settings of the layers.
        pattern: the attention of this layer.
    """
    if pattern == "full":
        return _attention(CausalAttention, config, _rotation(config), _relative(config, future=False))
    build: Callable[..., CausalAttention] = (
        partial(LocalAttention, block=config.block)
        if pattern == "local"
        else partial(CompressedAttention, compression=config.compression)
    )
    return build(
        config.d_model,
        config.heads,
        d_k=config.d_k,
        d_v=config.d_v,
        scale=attention_factor(config.attention_scale),
        dropout=config.attention_dropout,
        bias=config.attention_bias,
        rotation=_rotation(config),
    )


def build_attention(config: LayerConfig) -> MultiHeadAttention:
    """Build an attention without positions, such as that of a decoder to the source."""
    return _attention(MultiHeadAttention, config, None, None)


Attention = TypeVar("Attention", bound=MultiHeadAttention)


def _attention(
    kind: type[Attention],
    config: LayerConfig,
    rotation: RotaryPositions | None,
    relative: RelativePositions | None,
) -> Attention:
    return kind(
        config.d_model,
        config.heads,
        d_k=config.d_k,
        d_v=config.d_v,
        scale=attention_factor(config.attention_scale),
        dropout=config.attention_dropout,
        bias=config.attention_bias,
        rotation=rotation,
        relative=relative,
    )


def _rotation(config: LayerConfig) -> RotaryPositions | None:
    return RotaryPositions(config.key_width, config.position_base) if config.positions == "rotary" else None


def _relative(config: LayerConfig, *, future: bool) -> RelativePositions | None:
    if config.positions != "relative":
        return None
    scale = attention_factor(config.attention_scale)
    return RelativePositions(config.max_distance, config.key_width, future=future, scale=scale)


def build_feed_forward(config: LayerConfig) -> FeedForward | GatedFeedForward:
    """Build a feed-forward network."""
    build = GatedFeedForward if config.activation in GATED else FeedForward
    return build(
        config.d_model,
        config.d_ff,
        activation=config.activation,
        dropout=config.activation_dropout,
    )


def build_residual(config: LayerConfig) -> PostNorm | PreNorm:
    """Build a residual connection with its norm."""
    build = PostNorm if config.norm_placement == "post" else PreNorm
    return build(build_norm(config), config.dropout)


def build_norm(config: LayerConfig) -> nn.Module:
    """Build a norm."""
    match config.norm:
        case "layer":
            return LayerNorm(config.d_model, eps=config.norm_epsilon)
        case "rms":
            return RMSNorm(config.d_model, eps=config.norm_epsilon)
        case "batch":
            return TokenBatchNorm(config.d_model)


def build_positions(config: LayerConfig) -> SinusoidalPositions | LearnedPositions | OneHotPositions | None:
    """Build the positions that are added to the embeddings; None if there are none."""
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(config.d_model, config.position_base)
        case "learned":
            return LearnedPositions(config.max_positions, config.d_model)
        case "one-hot":
            return OneHotPositions(config.max_positions, config.d_model)
        case "rotary" | "relative" | "none":
            return None
