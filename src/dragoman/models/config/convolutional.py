"""The settings and presets of the convolutional encoder-decoder."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.errors import SettingsError
from dragoman.models.config import TiedEmbeddings
from dragoman.models.config.checks import check_probabilities, check_sizes, check_tied_embeddings
from dragoman.models.shapes import TensorShape, linear, table, vocabulary, within


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig:
    """Settings of the convolutional encoder-decoder ("ConvS2S", Gehring et al. 2017).

    Attributes:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        encoder_layers: number of encoder blocks.
        decoder_layers: number of decoder blocks, each with an attention.
        d_model: width of embeddings and blocks.
        kernel_width: number of tokens in the window of a convolution; odd.
        max_positions: number of learned positions, which is the length of the longest sequence.
        dropout: probability of dropping a feature of the embeddings, of the input of a convolution, or of the decoder's
            output.
        tied_embeddings: "three-way" (source, target and output share a matrix; one joint vocabulary), "two-way" (target
            and output), or "none".
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int = 8
    decoder_layers: int = 8
    d_model: int = 512
    kernel_width: int = 3
    max_positions: int = 1024
    dropout: float = 0.1
    tied_embeddings: TiedEmbeddings = "three-way"

    def __post_init__(self) -> None:
        check_sizes(
            self,
            (
                "source_vocabulary",
                "target_vocabulary",
                "encoder_layers",
                "decoder_layers",
                "d_model",
                "kernel_width",
                "max_positions",
            ),
        )
        check_probabilities(self, ("dropout",))
        if self.kernel_width % 2 == 0:
            raise SettingsError(f"kernel_width must be odd, so that a window has a centre, not {self.kernel_width}")
        check_tied_embeddings(self)

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return (
            f"{self.encoder_layers} encoder and {self.decoder_layers} decoder blocks, d_model {self.d_model}, "
            f"kernels of {self.kernel_width} tokens"
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        D = self.d_model
        yield from vocabulary(self.source_vocabulary, self.target_vocabulary, self.d_model, self.tied_embeddings)
        for side in ("source_embedding", "target_embedding"):
            yield from within(f"{side}.positions.embedding", table(self.max_positions, D))
        for i in range(self.encoder_layers):
            yield from within(f"encoder.blocks.{i}.kernel", linear(2 * D, self.kernel_width * D, bias=True))
        for i in range(self.decoder_layers):
            block = f"decoder.blocks.{i}"
            yield from within(f"{block}.convolution.kernel", linear(2 * D, self.kernel_width * D, bias=True))
            yield from within(f"{block}.attention.query", linear(D, D, bias=True))


# For each preset, the settings that differ from the defaults. A preset has about as many parameters as the preset of
# the Transformer with the same name.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments.
    "tiny": {"encoder_layers": 2, "decoder_layers": 2, "d_model": 64},
    # For a laptop.
    "small": {"encoder_layers": 5, "decoder_layers": 5, "d_model": 272},
    # Eight encoder blocks and eight decoder blocks.
    "base": {"d_model": 640},
}
