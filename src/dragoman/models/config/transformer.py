"""The settings and presets of the encoder-decoder Transformer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.errors import SettingsError
from dragoman.models.config import TiedEmbeddings
from dragoman.models.config.checks import check_random_positions, check_sizes, check_tied_embeddings
from dragoman.models.config.layers import LayerConfig
from dragoman.models.shapes import TensorShape, vocabulary, within


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayerConfig):
    """Settings of the encoder-decoder Transformer. Defaults are the paper's base model (Vaswani et al. 2017).

    The settings of the layers are those of `LayerConfig`.

    Attributes:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        encoder_layers: N, number of encoder layers.
        decoder_layers: N, number of decoder layers.
        random_positions: in training, a batch starts at a random position below this, so that training covers positions
            beyond the longest sentence of the corpus. 0 disables it. Sinusoidal positions only.
        tied_embeddings: "three-way" (source, target and output share a matrix; one joint vocabulary), "two-way" (target
            and output), or "none".

    Example:
        >>> config = TransformerConfig(source_vocabulary=8000, target_vocabulary=8000, d_model=256, heads=4, d_ff=1024)
        >>> config.key_width
        64
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int = 6
    decoder_layers: int = 6
    random_positions: int = 0
    tied_embeddings: TiedEmbeddings = "three-way"

    def __post_init__(self) -> None:
        check_sizes(self, ("source_vocabulary", "target_vocabulary", "encoder_layers", "decoder_layers"))
        super().__post_init__()
        check_random_positions(self)
        if self.random_positions and self.positions != "sinusoidal":
            raise SettingsError(f"random_positions needs sinusoidal positions, but positions = {self.positions!r}")
        check_tied_embeddings(self)

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        d_k = "" if self.d_k is None else f"d_k {self.d_k}, "
        d_v = "" if self.d_v is None else f"d_v {self.d_v}, "
        return (
            f"{self.encoder_layers} encoder and {self.decoder_layers} decoder layers, d_model {self.d_model}, "
            f"{self.heads} heads, {d_k}{d_v}d_ff {self.d_ff}"
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from vocabulary(self.source_vocabulary, self.target_vocabulary, self.d_model, self.tied_embeddings)
        for side in ("source_embedding", "target_embedding"):
            yield from within(f"{side}.positions", self.position_tensors())
        for i in range(self.encoder_layers):
            yield from within(f"encoder.layers.{i}", self.encoder_layer())
        for i in range(self.decoder_layers):
            yield from within(f"decoder.layers.{i}", self.decoder_layer())
        for stack in ("encoder", "decoder"):
            yield from within(f"{stack}.final_norm", self.final_norm())

    def encoder_layer(self) -> Iterator[TensorShape]:
        """Yield the tensors of one encoder layer."""
        yield from self.layer_tensors(future=True)

    def decoder_layer(self) -> Iterator[TensorShape]:
        """Yield the tensors of one decoder layer."""
        yield from within("self_attention", self.self_attention_tensors(future=False))
        yield from within("memory_attention", self.attention_tensors())
        yield from within("feed_forward", self.feed_forward_tensors())
        for residual in ("self_residual", "memory_residual", "feed_forward_residual"):
            yield from within(f"{residual}.norm", self.norm_tensors())


# For each preset, the settings that differ from the defaults, which are the paper's base model.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments: trains in seconds.
    "tiny": {"encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "heads": 4, "d_ff": 256},
    # For a laptop: trains in minutes on two cores.
    "small": {"encoder_layers": 3, "decoder_layers": 3, "d_model": 256, "heads": 4, "d_ff": 1024},
    # The paper's base model: 65 M parameters at 37,000 joint subwords (table 3).
    "base": {},
    # The paper's big model: 213 M parameters at 37,000 joint subwords (table 3).
    "big": {"d_model": 1024, "heads": 16, "d_ff": 4096, "dropout": 0.3},
    # As base, with later improvements. d_ff is two thirds of base's (rounded up), so that the three matrices of the
    # gated feed-forward network have about as many parameters as the two of base.
    "modern": {"d_ff": 1376, "norm_placement": "pre", "norm": "rms", "activation": "swiglu", "positions": "rotary"},
    # As small, with a deep encoder and one decoder layer, because the decoder works token by token (Kasai et al., "Deep
    # encoder, shallow decoder", 2020). Intended for training on the translations of a larger model (`dragoman
    # distill`). Pre-norm, because twelve post-norm layers hardly train.
    "fast": {
        "encoder_layers": 12,
        "decoder_layers": 1,
        "d_model": 256,
        "heads": 4,
        "d_ff": 1024,
        "norm_placement": "pre",
    },
}
