"""The settings of the convolutional encoder-decoder."""

from dataclasses import dataclass
from typing import Literal

from dragoman.models.config.checks import check_at_least_one, check_probabilities, check_tied_embeddings


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
    tied_embeddings: Literal["three-way", "two-way", "none"] = "three-way"

    def __post_init__(self) -> None:
        check_at_least_one(
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
            raise ValueError(f"kernel_width must be odd, to have a middle, not {self.kernel_width}")
        check_tied_embeddings(self)

    def shape(self) -> str:
        """The sizes in a few words."""
        return (
            f"{self.encoder_layers} encoder and {self.decoder_layers} decoder blocks, d_model {self.d_model}, "
            f"kernels of {self.kernel_width} tokens"
        )
