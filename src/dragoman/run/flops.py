"""The arithmetic of a training step, counted from a model's settings."""

from collections.abc import Sequence

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
    matrices = 3 if config.activation in ("geglu", "swiglu") else 2
    feed_forward = matrices * d_model * config.d_ff
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
