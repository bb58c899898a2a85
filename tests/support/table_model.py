"""A model defined by a table of probabilities, small enough to enumerate all outputs."""

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
    """For each hypothesis, the row of the table, and the token before the last one."""

    table: Tensor  # [N]
    before: Tensor  # [N]

    def reorder(self, rows: Tensor) -> "TableState":
        return TableState(self.table[rows], self.before[rows])


class TableModel:
    """log p(token | the two preceding tokens) of R rows.

    `rows_of_steps` records the number of rows of each step.
    """

    def __init__(self, log_probabilities: Tensor) -> None:
        self.log_probabilities = log_probabilities  # [R, V, V, V]
        self.rows_of_steps: list[int] = []

    @classmethod
    def random(cls, seed: int, rows: int = 3, words: int = 3) -> "TableModel":
        """Return a model with random tables; the vocabulary has `words` tokens besides the four special ones."""
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

    def log_probability(self, row: int, tokens: Sequence[int], *, ended: bool = True) -> float:
        """Return the log-probability of the tokens, followed by EOS if `ended`."""
        sequence = [BOS, BOS, *tokens, *([EOS] if ended else [])]
        triples = zip(sequence, sequence[1:], sequence[2:], strict=False)
        return sum(float(self.log_probabilities[row, a, b, c]) for a, b, c in triples)

    def every_output(
        self, row: int, source_length: int, config: SearchConfig, prefix: Sequence[int] = ()
    ) -> list[Hypothesis]:
        """Return every output within the limits of `config`, best score first."""
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
                        finished=length < maximum or self.ends_after(row, tokens),
                    )
                )
        return sorted(outputs, key=lambda output: -output.score)

    def ends_after(self, row: int, tokens: Sequence[int]) -> bool:
        """Return True if EOS is the most probable token after `tokens`."""
        before, last = [BOS, BOS, *tokens][-2:]
        return int(self.log_probabilities[row, before, last].argmax()) == EOS


def constant_model(probabilities: Sequence[float], rows: int = 1) -> TableModel:
    """Return a model with the same distribution at every position."""
    V = len(probabilities)
    table = torch.tensor([math.log(p) if p else -1e9 for p in probabilities])
    return TableModel(table.expand(rows, V, V, V))


def assert_same(hypotheses: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """Check that hypotheses are equal up to rounding."""
    assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
    assert [h.finished for h in hypotheses] == [h.finished for h in expected]
    for one, other in zip(hypotheses, expected, strict=True):
        assert math.isclose(one.log_probability, other.log_probability, abs_tol=1e-4)
        assert math.isclose(one.score, other.score, abs_tol=1e-4)
