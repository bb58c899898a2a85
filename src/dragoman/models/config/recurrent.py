"""The settings and presets of the recurrent encoder-decoder."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.errors import SettingsError
from dragoman.models.config import TiedEmbeddings
from dragoman.models.config.checks import check_probabilities, check_sizes, check_tied_embeddings
from dragoman.models.shapes import TensorShape, linear, recurrent_layer, vocabulary, within


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """Settings of the recurrent encoder-decoder (Sutskever et al. 2014; Bahdanau et al. 2015; Luong et al. 2015).

    Attributes:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        cell: "lstm" or "gru".
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        bidirectional: True if the encoder has two directions, each of width d_model / 2.
        d_model: width of embeddings and of the decoder's states.
        attention: attention score of a decoder state u and an encoder state v: "dot" uᵀv, "general" uᵀWv or "additive"
            wᵀtanh(Uu + Vv). "none": no attention; the decoder receives only one vector of the source for each layer.
        input_feeding: True if the attentional state at a position is part of the input at the next position. The
            decoder's positions are then computed one after another in training, too.
        dropout: probability of dropping a feature of the embeddings, between layers, or of the output.
        tied_embeddings: "three-way" (source, target and output share a matrix; one joint vocabulary), "two-way" (target
            and output), or "none".
    """

    source_vocabulary: int
    target_vocabulary: int
    cell: Literal["lstm", "gru"] = "lstm"
    encoder_layers: int = 2
    decoder_layers: int = 2
    bidirectional: bool = True
    d_model: int = 512
    attention: Literal["none", "dot", "general", "additive"] = "general"
    input_feeding: bool = True
    dropout: float = 0.2
    tied_embeddings: TiedEmbeddings = "three-way"

    def __post_init__(self) -> None:
        check_sizes(self, ("source_vocabulary", "target_vocabulary", "encoder_layers", "decoder_layers", "d_model"))
        check_probabilities(self, ("dropout",))
        if self.bidirectional and self.d_model % 2:
            raise SettingsError(f"d_model must be even for a bidirectional encoder, not {self.d_model}")
        if self.input_feeding and self.attention == "none":
            raise SettingsError("input_feeding needs an attention, but attention = 'none': set input_feeding = false")
        check_tied_embeddings(self)

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        directions = "two-way" if self.bidirectional else "one-way"
        attention = "no attention" if self.attention == "none" else f"{self.attention} attention"
        feeding = " with input feeding" if self.input_feeding else ""
        return (
            f"{self.encoder_layers} {directions} encoder and {self.decoder_layers} decoder {self.cell.upper()} layers, "
            f"d_model {self.d_model}, {attention}{feeding}"
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        D = self.d_model
        yield from vocabulary(self.source_vocabulary, self.target_vocabulary, self.d_model, self.tied_embeddings)
        for i in range(self.encoder_layers):
            for direction in ("forwards", "backwards") if self.bidirectional else ("forwards",):
                width = D // 2 if self.bidirectional else D
                yield from within(f"encoder.layers.{i}.{direction}", recurrent_layer(self.cell, D, width))
        for i in range(self.decoder_layers):
            # With input feeding, the first layer's input includes the attentional state.
            inputs = 2 * D if self.input_feeding and i == 0 else D
            yield from within(f"decoder.layers.{i}", recurrent_layer(self.cell, inputs, D))
        for i in range(self.decoder_layers):
            yield from within(f"decoder.bridge.{i}", linear(2 * D if self.cell == "lstm" else D, D, bias=True))
        if self.attention != "none":
            yield from within("decoder.attention.score", self._score())
            yield from within("decoder.attention.combine", linear(D, 2 * D, bias=False))

    def _score(self) -> Iterator[TensorShape]:
        if self.attention in ("general", "additive"):
            yield from within("source", linear(self.d_model, self.d_model, bias=False))
        if self.attention == "additive":
            yield from within("state", linear(self.d_model, self.d_model, bias=False))
            yield from within("vector", linear(1, self.d_model, bias=False))


# For each preset, the settings that differ from the defaults. A preset has about as many parameters as the preset of
# the Transformer with the same name.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments.
    "tiny": {"d_model": 64},
    # For a laptop.
    "small": {"d_model": 352},
    # Two bidirectional LSTM encoder layers and two LSTM decoder layers, with general attention and input feeding.
    "base": {"d_model": 1024},
}
