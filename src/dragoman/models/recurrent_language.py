"""The recurrent language model (Mikolov et al., 2010; with LSTM layers: Zaremba et al., 2014)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.layers.recurrence import CellState, RecurrentLayer
from dragoman.models.config.recurrent_language import RecurrentLanguageConfig
from dragoman.models.embedding import Embedding
from dragoman.models.initialisation import recurrent_gates, unit_after_scaling
from dragoman.models.language_model import LanguageModel
from dragoman.models.seq2seq import Decoded
from dragoman.models.state import DecoderState
from dragoman.packing import dense


@dataclass(frozen=True)
class RecurrentTextState(DecoderState):
    """State of a recurrent language model: the state of each layer."""

    layers: tuple[CellState, ...]

    def reorder(self, rows: Int[Tensor, " N"]) -> "RecurrentTextState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return RecurrentTextState(tuple(tuple(part[rows] for part in layer) for layer in self.layers))


class RecurrentLanguageModel(LanguageModel):
    """Embeddings, recurrent layers, and the output projection.

    Args:
        embedding: embedding of tokens.
        layers: the layers.
        output: projection onto the vocabulary, without bias.
        dropout: probability of dropping a feature between layers, or of the output.
    """

    layers: Sequence[RecurrentLayer]

    def __init__(self, embedding: Embedding, layers: list[RecurrentLayer], output: nn.Linear, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.output = output
        self.dropout = Dropout(dropout)

    @property
    def max_context(self) -> int | None:
        """None: a text may have any number of tokens."""
        return None

    @property
    def carries_state(self) -> bool:
        """True: see `LanguageModel.carries_state`."""
        return True

    def forward(self, tokens: Int[Tensor, "B T"], documents: Int[Tensor, "B T"] | None = None) -> Decoded:
        """See `LanguageModel.forward`; the state is zero before the first token of every document."""
        layout = dense(tokens)
        x = self.embedding(tokens)
        if documents is None:
            states = self._layers(x)
        else:
            slots, real = _pieces(documents)
            # [B, T, D] -> [B*T, D] -> [P, L, D]: each part of a document becomes a row of its own
            pieces = self._layers(x.flatten(0, 1)[slots])
            # [P, L, D] -> [B*T, D] -> [B, T, D]
            states = pieces[real].unflatten(0, tokens.shape)
        return Decoded(layout.rows(states), layout, x.new_zeros(()))

    def start(self, rows: int) -> RecurrentTextState:
        """See `LanguageModel.start`."""
        zeros = self.output.weight.new_zeros(rows, self.output.in_features)
        return RecurrentTextState(tuple((zeros,) * layer.state_parts for layer in self.layers))

    def read(
        self, tokens: Int[Tensor, "B T"], state: DecoderState
    ) -> tuple[Float[Tensor, "B T D"], RecurrentTextState]:
        """See `LanguageModel.read`."""
        assert isinstance(state, RecurrentTextState)
        x, after = self.embedding(tokens), []
        for i, (layer, before) in enumerate(zip(self.layers, state.layers, strict=True)):
            x, last = layer.read(self.dropout(x) if i else x, before)
            after.append(last)
        return self.dropout(x), RecurrentTextState(tuple(after))

    def _layers(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        for i, layer in enumerate(self.layers):
            x = layer(self.dropout(x) if i else x)
        return self.dropout(x)


def _pieces(documents: Int[Tensor, "B T"]) -> tuple[Int[Tensor, "P L"], Bool[Tensor, "P L"]]:
    """Return the slot of each position of the parts of documents, and True where a position is not padding.

    A slot is an element of the batch [B*T]; the real positions are in the order of the slots.
    """
    B, T = documents.shape
    # [B, T]: True at the first position of each part
    first = F.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)
    starts = first.flatten().nonzero().squeeze(1)
    lengths = torch.diff(F.pad(starts, (0, 1), value=B * T))
    position = torch.arange(int(lengths.max()), device=documents.device)
    # [P, 1] and [L] -> [P, L]
    real = position < lengths.unsqueeze(1)
    return (starts.unsqueeze(1) + position).clamp(max=B * T - 1), real


def build_recurrent_language(config: RecurrentLanguageConfig) -> RecurrentLanguageModel:
    """Build and initialise the model that `config` describes."""
    tokens = nn.Embedding(config.vocabulary, config.d_model)
    output = nn.Linear(config.d_model, config.vocabulary, bias=False)
    if config.tied_embeddings:
        output.weight = tokens.weight
    layers = [RecurrentLayer(config.cell, config.d_model, config.d_model) for _ in range(config.layers)]
    model = RecurrentLanguageModel(Embedding(tokens, None, config.dropout), layers, output, config.dropout)
    for module in model.modules():
        if isinstance(module, nn.LSTM | nn.GRU):
            recurrent_gates(module)
    unit_after_scaling(tokens)
    if not config.tied_embeddings:
        nn.init.normal_(output.weight, std=config.d_model**-0.5)
    return model
