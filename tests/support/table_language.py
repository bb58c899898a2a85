"""A language model defined by a table of probabilities."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dragoman.models.language_model import LanguageModel
from dragoman.models.seq2seq import Decoded
from dragoman.models.state import DecoderState
from dragoman.search.language_backend import TorchLanguageBackend
from dragoman.text.subwords import BOS
from tests.support.table_model import TableModel


@dataclass(frozen=True)
class TableTextState(DecoderState):
    """The tokens that have been read."""

    tokens: Tensor  # [N, T]

    def reorder(self, rows: Tensor) -> "TableTextState":
        return TableTextState(self.tokens[rows])


class TableLanguage(LanguageModel):
    """log p(token | the two preceding tokens), from the first row of a `TableModel`.

    `texts` records the tokens of each row at each step.
    """

    def __init__(self, table: TableModel) -> None:
        super().__init__()
        self.table = table.log_probabilities[0]  # [V, V, V]
        V = self.table.size(-1)
        self.output = nn.Linear(V, V, bias=False)
        # The states are the log-probabilities.
        nn.init.eye_(self.output.weight)
        self.texts: list[list[list[int]]] = []

    @property
    def max_context(self) -> int | None:
        return None

    def forward(self, tokens: Tensor, documents: Tensor | None = None) -> Decoded:
        raise NotImplementedError

    def start(self, rows: int) -> TableTextState:
        return TableTextState(torch.empty(rows, 0, dtype=torch.int64))

    def read(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, TableTextState]:
        assert isinstance(state, TableTextState)
        text = torch.cat([state.tokens, tokens], 1)
        before = torch.cat([torch.full((len(text), 1), BOS), text], 1)[:, :-1]
        T = tokens.size(1)
        return self.table[before[:, -T:], tokens], TableTextState(text)

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        logits, after = super().step(token, state)
        assert isinstance(after, TableTextState)
        self.texts.append(after.tokens.tolist())
        return logits, after


def backend_of(table: TableModel) -> TorchLanguageBackend:
    """Return the torch engine with a language model from the first row of `table`."""
    return TorchLanguageBackend(TableLanguage(table))
