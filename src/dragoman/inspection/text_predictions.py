"""Prediction of the tokens of texts by a language model or an encoder, with some heads switched off."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.attention_page.kinds import Head
from dragoman.data.batching import pad
from dragoman.inspection.capture import read
from dragoman.inspection.heads import heads_off
from dragoman.inspection.recording import TextModel
from dragoman.models.inference import inference
from dragoman.models.language_model import LanguageModel
from dragoman.models.masked import MaskedModel
from dragoman.search.results import require_finite
from dragoman.text.subwords import MASK

# Number of positions that a model reads in one batch; bounds memory.
POSITIONS_AT_ONCE = 4096
# Number of positions whose logits are in memory at the same time.
LOGITS_AT_ONCE = 1024
# Over a corpus, every seventh token of a text is masked: about the share that is masked in training.
MASKED_EVERY = 7


@dataclass(frozen=True)
class Predictions:
    """Rows that a model reads, and the places where it predicts tokens. P is the number of places.

    Attributes:
        tokens: token ids of the rows, with padding at the end.
        mask: True for tokens, False for padding.
        rows: row of each place.
        positions: position of each place.
        targets: the tokens of the text at these places. There may be fewer than places: a language model also predicts
            how the text continues.
    """

    tokens: Int64[Tensor, "N T"]
    mask: Bool[Tensor, "N T"]
    rows: Int64[Tensor, " P"]
    positions: Int64[Tensor, " P"]
    targets: Int64[Tensor, " M"]


def can_predict(model: TextModel) -> bool:
    """Return True if the model predicts tokens; an encoder without a prediction head does not."""
    return isinstance(model, LanguageModel) or (isinstance(model, MaskedModel) and model.head is not None)


def predictions_of(model: TextModel, row: Sequence[int]) -> Predictions:
    """Return the predictions of every token of a text.

    A language model predicts each token from those before it, and what follows the last. An encoder predicts each token
    from all others, in a copy of the text in which it is masked (Salazar et al., "Masked Language Model Scoring",
    2020).

    Args:
        model: the model.
        row: the text, with special symbols; only BOS of a language model, BOS and EOS of an encoder.
    """
    if isinstance(model, LanguageModel):
        return _predictions([row], [(0, position) for position in range(len(row))], row[1:])
    inner = range(1, len(row) - 1)
    return _predictions(
        [_masked(row, [position]) for position in inner],
        [(index, position) for index, position in enumerate(inner)],
        row[1:-1],
    )


def predictions_of_corpus(model: TextModel, rows: Sequence[Sequence[int]]) -> Predictions:
    """Return predictions in a batch of texts.

    A language model predicts every token after the first of a text, an encoder every seventh token of the text, which
    are masked together.

    Args:
        model: the model.
        rows: the texts, with special symbols.
    """
    if isinstance(model, LanguageModel):
        places = [(index, position) for index, row in enumerate(rows) for position in range(len(row) - 1)]
        return _predictions(rows, places, [token for row in rows for token in row[1:]])
    masked = [range(1 + (len(row) - 3) % MASKED_EVERY // 2, len(row) - 1, MASKED_EVERY) for row in rows]
    return _predictions(
        [_masked(row, positions) for row, positions in zip(rows, masked, strict=True)],
        [(index, position) for index, positions in enumerate(masked) for position in positions],
        [row[position] for row, positions in zip(rows, masked, strict=True) for position in positions],
    )


def log_probabilities(
    model: TextModel, predictions: Predictions, off: Sequence[Collection[Head]]
) -> Iterator[Float[Tensor, "P V"]]:
    """Yield the log-probabilities of all tokens at each place, for each element of `off` without these heads.

    Raises:
        FloatingPointError: if the model computes values that are not finite.
    """
    N, T = predictions.tokens.shape
    copies = max(1, POSITIONS_AT_ONCE // (N * T))
    with inference([model]):
        for first in range(0, len(off), copies):
            batch = off[first : first + copies]
            with heads_off(model, [heads for heads in batch for _ in range(N)]):
                # [N, T] -> [n*N, T] -> [n*N, T, D]
                states = read(model, predictions.tokens.repeat(len(batch), 1), predictions.mask.repeat(len(batch), 1))
            # [n*N, T, D] -> [n, N, T, D]
            for part in states.unflatten(0, (len(batch), N)):
                # [N, T, D] -> [P, D] -> [P, V]
                yield _log_softmax(model, part[predictions.rows, predictions.positions])


def target_log_probability(model: TextModel, predictions: Predictions) -> float:
    """Return the sum of the log-probabilities (nats) of the targets.

    Raises:
        FloatingPointError: if the model computes values that are not finite.
    """
    count = len(predictions.targets)
    total = 0.0
    with inference([model]):
        states = read(model, predictions.tokens, predictions.mask)
        # [N, T, D] -> [M, D]
        states = states[predictions.rows[:count], predictions.positions[:count]]
        for block, targets in zip(states.split(LOGITS_AT_ONCE), predictions.targets.split(LOGITS_AT_ONCE), strict=True):
            total += total_of(_log_softmax(model, block), targets)
    return total


def total_of(log_probabilities: Float[Tensor, "P V"], targets: Int64[Tensor, " M"]) -> float:
    """Return the sum of the log-probabilities of the targets, which belong to the first M places."""
    # [M, V] -> [M, 1] -> []
    chosen = log_probabilities[: len(targets)].gather(1, targets.to(log_probabilities.device).unsqueeze(1))
    return float(chosen.double().sum())


def _log_softmax(model: TextModel, states: Float[Tensor, "P D"]) -> Float[Tensor, "P V"]:
    if isinstance(model, LanguageModel):
        logits = model.project(states)
    else:
        assert isinstance(model, MaskedModel)
        logits = model.predict(states)
    result: Tensor = logits.float().log_softmax(-1)
    require_finite(float(result.max()))
    return result


def _masked(row: Sequence[int], positions: Collection[int]) -> list[int]:
    return [MASK if position in positions else token for position, token in enumerate(row)]


def _predictions(
    rows: Sequence[Sequence[int]], places: Sequence[tuple[int, int]], targets: Sequence[int]
) -> Predictions:
    tokens, mask = pad(rows)
    # [P, 2] -> [2, P]
    at = torch.tensor(places, dtype=torch.int64).reshape(-1, 2).T
    return Predictions(tokens, mask, at[0], at[1], torch.tensor(targets, dtype=torch.int64))
