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
    """The convolutional encoder-decoder ("ConvS2S", Gehring et al. 2017).

    source_vocabulary, target_vocabulary  sizes in subwords
    encoder_layers, decoder_layers        blocks; each of the decoder's has an attention of its own
    d_model                               width of embeddings and of the blocks
    kernel_width                          tokens that a convolution sees; odd
    max_positions                         position embeddings: no sequence is longer
    dropout                               on embeddings, on the input of every convolution, and on the decoder's output
    tied_embeddings                       "three-way" (source, target, output; one joint vocabulary),
                                          "two-way" (target and output), or "none"
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
            raise SettingsError(f"kernel_width must be odd, to have a middle, not {self.kernel_width}")
        check_tied_embeddings(self)

    def shape(self) -> str:
        """The sizes in a few words."""
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


# By name, what differs from the defaults. The sizes have about the parameters of the Transformer's of that name.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first steps.
    "tiny": {"encoder_layers": 2, "decoder_layers": 2, "d_model": 64},
    # For a laptop.
    "small": {"encoder_layers": 5, "decoder_layers": 5, "d_model": 272},
    # Eight blocks on each side, each of the decoder's with an attention of its own.
    "base": {"d_model": 640},
}
