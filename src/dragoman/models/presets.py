"""Named sizes: functions from vocabulary sizes to a configuration.

With one joint vocabulary the three embeddings are tied, as in the paper (section 3.4); with separate
ones target and output are. The sizes of the other architectures have about the parameters of the Transformer's of that
name.
"""

from collections.abc import Callable
from dataclasses import replace

from dragoman.errors import UserError
from dragoman.models.config import (
    ARCHITECTURES,
    ConvolutionalConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
    UniversalConfig,
)


def base(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """The paper's base model: 65 M parameters at 37,000 joint subwords (table 3)."""
    return TransformerConfig(
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        tied_embeddings="three-way" if joint else "two-way",
    )


def big(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """The paper's big model: 213 M parameters at 37,000 joint subwords (table 3)."""
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        d_model=1024,
        heads=16,
        d_ff=4096,
        dropout=0.3,
    )


def small(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """For a laptop: trains in minutes on two cores."""
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=3,
        decoder_layers=3,
        d_model=256,
        heads=4,
        d_ff=1024,
    )


def tiny(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """For tests and first steps: trains in seconds."""
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=2,
        decoder_layers=2,
        d_model=64,
        heads=4,
        d_ff=256,
    )


def modern(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """As `base`, with what has been learned since: pre-norm, RMSNorm, SwiGLU, rotary positions.

    d_ff is two thirds of base's (rounded up), so that three gated matrices cost what two did.
    """
    return replace(
        base(source_vocabulary, target_vocabulary, joint=joint),
        d_ff=1376,
        norm_placement="pre",
        norm="rms",
        activation="swiglu",
        positions="rotary",
    )


def fast(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> TransformerConfig:
    """As `small` with a deep encoder and one decoder layer, the part that works token by token.

    Source: Kasai et al., "Deep encoder, shallow decoder" (2020). Meant for a larger model's translations
    (`dragoman distill`); pre-norm, without which twelve layers hardly train.
    """
    return replace(
        small(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=12,
        decoder_layers=1,
        norm_placement="pre",
    )


def recurrent_base(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> RecurrentConfig:
    """Two bidirectional and two decoding layers of LSTM with general attention and input feeding."""
    return RecurrentConfig(
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        d_model=1024,
        tied_embeddings="three-way" if joint else "two-way",
    )


def recurrent_small(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> RecurrentConfig:
    """As `recurrent_base`, for a laptop."""
    return replace(recurrent_base(source_vocabulary, target_vocabulary, joint=joint), d_model=352)


def recurrent_tiny(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> RecurrentConfig:
    """For tests and first steps."""
    return replace(recurrent_base(source_vocabulary, target_vocabulary, joint=joint), d_model=64)


def convolutional_base(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> ConvolutionalConfig:
    """Eight blocks on each side, each of the decoder's with an attention of its own."""
    return ConvolutionalConfig(
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        d_model=640,
        tied_embeddings="three-way" if joint else "two-way",
    )


def convolutional_small(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> ConvolutionalConfig:
    """As `convolutional_base`, for a laptop."""
    return replace(
        convolutional_base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=5,
        decoder_layers=5,
        d_model=272,
    )


def convolutional_tiny(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> ConvolutionalConfig:
    """For tests and first steps."""
    return replace(
        convolutional_base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_layers=2,
        decoder_layers=2,
        d_model=64,
    )


def universal_base(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> UniversalConfig:
    """The paper's base model (Dehghani et al. 2018, section 3.5): one block, wider for being shared."""
    return UniversalConfig(
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        d_model=1024,
        heads=16,
        d_ff=4096,
        tied_embeddings="three-way" if joint else "two-way",
    )


def universal_small(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> UniversalConfig:
    """As `universal_base`, for a laptop."""
    return replace(
        universal_base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_steps=4,
        decoder_steps=4,
        d_model=384,
        heads=6,
        d_ff=1536,
    )


def universal_tiny(source_vocabulary: int, target_vocabulary: int, *, joint: bool) -> UniversalConfig:
    """For tests and first steps."""
    return replace(
        universal_base(source_vocabulary, target_vocabulary, joint=joint),
        encoder_steps=2,
        decoder_steps=2,
        d_model=64,
        heads=4,
        d_ff=256,
    )


# By architecture and name.
PRESETS: dict[str, dict[str, Callable[..., ModelConfig]]] = {
    "transformer": {"tiny": tiny, "small": small, "base": base, "big": big, "modern": modern, "fast": fast},
    "recurrent": {"tiny": recurrent_tiny, "small": recurrent_small, "base": recurrent_base},
    "convolutional": {"tiny": convolutional_tiny, "small": convolutional_small, "base": convolutional_base},
    "universal": {"tiny": universal_tiny, "small": universal_small, "base": universal_base},
}


def preset(
    name: str, source_vocabulary: int, target_vocabulary: int, *, joint: bool, architecture: str = "transformer"
) -> ModelConfig:
    """Look a preset up by name.

    Raises:
        UserError: for an unknown architecture, or a name that it does not have.
    """
    if architecture not in PRESETS:
        raise UserError(f"unknown architecture {architecture!r}: choose one of {', '.join(ARCHITECTURES)}")
    presets = PRESETS[architecture]
    if name not in presets:
        raise UserError(f"{architecture} has no preset {name!r}: choose one of {', '.join(presets)}")
    return presets[name](source_vocabulary, target_vocabulary, joint=joint)
