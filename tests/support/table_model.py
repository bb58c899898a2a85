"""A model made of a table, small enough that every output can be listed."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.search.config import SearchConfig, length_penalty
from dragoman.search.results import Hypothesis
from dragoman.text.subwords import BOS, EOS

CPU = torch.device("cpu")


@dataclass(frozen=True)
class TableState:
    """Which table each hypothesis uses, and its last token but one."""

    table: Tensor  # [N]
    before: Tensor  # [N]

    def reorder(self, rows: Tensor) -> "TableState":
        return TableState(self.table[rows], self.before[rows])


class TableModel:
    """log p(token | the two tokens before it) of R rows; it also notes the rows of each step."""

    def __init__(self, log_probabilities: Tensor) -> None:
        self.log_probabilities = log_probabilities  # [R, V, V, V]
        self.rows_of_steps: list[int] = []

    @classmethod
    def random(cls, seed: int, rows: int = 3, words: int = 3) -> "TableModel":
        """Tables drawn at random; `words` tokens beside the four special ones."""
        generator = torch.Generator().manual_seed(seed)
        V = 4 + words
        return cls((1.5 * torch.randn(rows, V, V, V, generator=generator)).log_softmax(-1))

    def start(self) -> TableState:
        rows = torch.arange(len(self.log_probabilities))
        return TableState(rows, torch.full_like(rows, BOS))

    def step(self, token: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        self.rows_of_steps.append(len(token))
        # [R, V, V, V] -> [N, V]
        return self.log_probabilities[state.table, state.before, token], TableState(state.table, token)

    def log_probability(self, row: int, tokens: Sequence[int]) -> float:
        """Of the tokens and EOS, one by one."""
        said = [BOS, BOS, *tokens, EOS]
        triples = zip(said, said[1:], said[2:], strict=False)
        return sum(float(self.log_probabilities[row, a, b, c]) for a, b, c in triples)

    def every_output(
        self, row: int, source_length: int, config: SearchConfig, prefix: Sequence[int] = ()
    ) -> list[Hypothesis]:
        """Every output within the limits of `config`, best score first."""
        words = range(4, self.log_probabilities.size(-1))
        maximum = max(config.maximum_length(source_length), len(prefix))
        shortest = max(config.minimum_length(source_length), len(prefix))
        outputs = []
        for length in range(shortest, maximum + 1):
            for rest in itertools.product(words, repeat=length - len(prefix)):
                tokens = (*prefix, *rest)
                total = self.log_probability(row, tokens)
                outputs.append(
                    Hypothesis(
                        tokens=tokens,
                        log_probability=total,
                        score=total / length_penalty(length + 1, config.length_penalty),
                        finished=length < maximum or self.wants_to_end(row, tokens),
                    )
                )
        return sorted(outputs, key=lambda output: -output.score)

    def wants_to_end(self, row: int, tokens: Sequence[int]) -> bool:
        """Whether EOS is the most probable token here."""
        before, last = [BOS, BOS, *tokens][-2:]
        return int(self.log_probabilities[row, before, last].argmax()) == EOS


def constant_model(probabilities: Sequence[float], rows: int = 1) -> TableModel:
    """The same distribution at every position."""
    V = len(probabilities)
    table = torch.tensor([math.log(p) if p else -1e9 for p in probabilities])
    return TableModel(table.expand(rows, V, V, V))


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """Equal but for rounding."""
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert [h.finished for h in found] == [h.finished for h in expected]
    for one, other in zip(found, expected, strict=True):
        assert math.isclose(one.log_probability, other.log_probability, abs_tol=1e-4)
        assert math.isclose(one.score, other.score, abs_tol=1e-4)
