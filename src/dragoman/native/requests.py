"""What the native engine receives for a sentence, and what it returns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dragoman.errors import CorpusError
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.text.subwords import EOS

# Tokens, log-probability of the tokens up to each of them, log-probability, score, and whether the output is finished.
EngineHypothesis = tuple[Sequence[int], Sequence[float], float, float, bool]


class EngineRequest(NamedTuple):
    """A sentence for the engine.

    Attributes:
        source: source ids with EOS.
        prefix: ids with which the output begins.
        minimum: minimum length of the output, in tokens without EOS.
        maximum: maximum length of the output, in tokens without EOS.
    """

    source: list[int]
    prefix: list[int]
    minimum: int
    maximum: int


def engine_request(row: SearchInput, config: SearchConfig) -> EngineRequest:
    """Return the request for an input."""
    length = len(row.source)
    return EngineRequest(
        source=[*row.source, EOS],
        prefix=row.prefix,
        minimum=config.minimum_length(length),
        maximum=max(config.maximum_length(length), len(row.prefix)),
    )


def search_settings(config: SearchConfig) -> dict[str, Any]:
    """Return the settings of a search as the extension module reads them."""
    return {"beam": config.beam, "n_best": config.n_best, "length_penalty": config.length_penalty}


def hypotheses_of(outputs: Sequence[EngineHypothesis]) -> list[Hypothesis]:
    """Return the hypotheses of a sentence.

    Raises:
        FloatingPointError: if a log-probability is not finite.
    """
    return [
        Hypothesis(
            tokens=tuple(tokens), totals=tuple(totals), log_probability=log_probability, score=score, finished=finished
        )
        for tokens, totals, log_probability, score, finished in outputs
    ]


def too_long(error: IndexError) -> CorpusError:
    """Return the error for a sentence that is longer than the learned positions of the model."""
    return CorpusError(f"{error}: split the text, or train with sinusoidal positions or a larger max_positions")
