"""The arithmetic of a training step, counted from a model's settings."""

from collections.abc import Sequence

from dragoman.models.config.language import LanguageConfig
from dragoman.models.config.layers import LayerConfig
from dragoman.models.config.transformer import TransformerConfig

# A training step computes each product once forward and twice backward: the gradients of both of its factors.
PRODUCTS_PER_STEP = 3


def training_flops(config: TransformerConfig, source_lengths: Sequence[int], target_lengths: Sequence[int]) -> int:
    """Return the floating-point operations of the matrix products in one training step.

    A multiplication and an addition count as two operations. Not counted: everything that is not a matrix product
    (norms, activations, softmax, the optimizer), and padding.

    Args:
        config: settings of the model.
        source_lengths: tokens of each source, the end symbol included.
        target_lengths: tokens of each target, the end symbol included.
    """
    d_model, keys, values = config.d_model, config.heads * config.key_width, config.heads * config.value_width
    query = key = d_model * keys
    value = output = d_model * values
    feed_forward = _feed_forward(config)
    encoder, decoder = config.encoder_layers, config.decoder_layers
    per_source = encoder * (query + key + value + output + feed_forward) + decoder * (key + value)
    per_target = decoder * (2 * query + key + value + 2 * output + feed_forward) + d_model * config.target_vocabulary
    # Queries times keys: self-attention in the encoder and in the decoder, and the decoder's attention to the source.
    attended = sum(
        encoder * source**2 + decoder * (target**2 + target * source)
        for source, target in zip(source_lengths, target_lengths, strict=True)
    )
    multiplications = sum(source_lengths) * per_source + sum(target_lengths) * per_target + attended * (keys + values)
    return 2 * PRODUCTS_PER_STEP * multiplications


def language_training_flops(config: LanguageConfig, windows: int, length: int) -> int:
    """Return the floating-point operations of the matrix products in one training step of a language model.

    As in `training_flops`. Attention counts the whole square of a window: the products of the tokens with those after
    them, which are masked, included.

    Args:
        config: settings of the model, all of whose layers have full attention, without relative positions.
        windows: number of windows.
        length: number of tokens of a window.
    """
    assert set(config.attention_pattern) == {"full"}
    assert config.positions != "relative", "relative positions have further products"
    keys, values = config.heads * config.key_width, config.heads * config.value_width
    per_layer = 2 * config.d_model * (keys + values) + _feed_forward(config)
    per_token = config.layers * (per_layer + length * (keys + values)) + config.d_model * config.vocabulary
    return 2 * PRODUCTS_PER_STEP * windows * length * per_token


def _feed_forward(config: LayerConfig) -> int:
    """Return the multiplications of a feed-forward network for one token."""
    matrices = 3 if config.activation in ("geglu", "swiglu") else 2
    return matrices * config.d_model * config.d_ff
