"""Masking of tokens, which a masked language model predicts from their context (Devlin et al., "BERT", 2019).

The masks of a batch depend only on the seed and on the cursor of the batch (dynamic masks), or on the seed and on the
tokens of each row (static masks), so that a resumed run has the same masks.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from dragoman.data.batching import Cursor
from dragoman.errors import SettingsError
from dragoman.text.subwords import BOS, EOS, MASK, ORDINARY
from dragoman.text.words import begins_word


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Settings of the [masking] table: which tokens are predicted.

    Attributes:
        share: Fraction of the tokens that are predicted.
        masked: Fraction of the predicted tokens that are replaced by the mask symbol.
        random: Fraction of the predicted tokens that are replaced by a random token; the others are unchanged.
        whole_words: Predict all tokens of a word or none.
        dynamic: Select other tokens in each epoch; otherwise each text has the same masks in every epoch.
        next_sentence: Also predict whether the second half of a window follows the first. In half of the windows, the
            second half is replaced by that of another window. It requires a model with `next_sentence`.
    """

    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    whole_words: bool = False
    dynamic: bool = True
    next_sentence: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingsError(f"masking.share must be between 0 and 1, not {self.share}")
        if not (self.masked >= 0 and self.random >= 0 and self.masked + self.random <= 1):
            raise SettingsError(
                "masking.masked and masking.random must be at least 0, and at most 1 together, not "
                f"{self.masked} and {self.random}"
            )

    @property
    def symbols(self) -> int:
        """Number of symbols that are added to the text of a window."""
        # BOS, or BOS and an EOS after each half.
        return 3 if self.next_sentence else 1


@dataclass(frozen=True, kw_only=True)
class MaskedBatch:
    """Windows of text in which some tokens are masked; every slot is a token.

    B is the number of windows, T their length and M the number of predicted tokens.

    Attributes:
        tokens: input of the model; each row begins with BOS.
        segments: 0 in the first half of a window and 1 in the second; None without next-sentence prediction.
        documents: index of the document of each token; None if every token may attend to the whole window.
        positions: index of each predicted token in the flattened batch, in ascending order.
        targets: the predicted tokens.
        follows: 1 if the second half of a window follows the first, 0 if not; None without next-sentence prediction.
    """

    tokens: Int64[Tensor, "B T"]
    segments: Int64[Tensor, "B T"] | None
    documents: Int64[Tensor, "B T"] | None
    positions: Int64[Tensor, " M"]
    targets: Int64[Tensor, " M"]
    follows: Int64[Tensor, " B"] | None

    def to(self, device: torch.device | str) -> "MaskedBatch":
        """Return the batch on `device`; the copy from pinned memory to a GPU is asynchronous."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "MaskedBatch":
        """Return the batch in pinned memory, from which a GPU can copy asynchronously."""
        return self._each(Tensor.pin_memory)

    def rows(self, start: int, end: int) -> "MaskedBatch":
        """Return the windows from `start` to before `end`."""
        T = self.tokens.shape[1]
        part = slice(*torch.searchsorted(self.positions, torch.tensor([start * T, end * T])).tolist())
        rows = self._each(lambda tensor: tensor[start:end])
        return replace(rows, positions=self.positions[part] - start * T, targets=self.targets[part])

    def _each(self, change: Callable[[Tensor], Tensor]) -> "MaskedBatch":
        def changed(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else change(tensor)

        return MaskedBatch(
            tokens=change(self.tokens),
            segments=changed(self.segments),
            documents=changed(self.documents),
            positions=change(self.positions),
            targets=change(self.targets),
            follows=changed(self.follows),
        )


class Window(Protocol):
    """Part of a batch of windows of text, such as `data.token_stream.WindowBatch`."""

    @property
    def tokens_in(self) -> Int64[Tensor, "B T"]:
        """Return the tokens."""

    @property
    def documents(self) -> Int64[Tensor, "B T"] | None:
        """Return the index of the document of each token; None for one document a row."""


@dataclass(frozen=True)
class Masking:
    """Selects and replaces the tokens that a model predicts.

    Attributes:
        config: settings.
        vocabulary: number of token ids.
        seed: seed of the masks.
        word_begins: [V], True for the tokens that begin a word; None without `whole_words`.
    """

    config: MaskingConfig
    vocabulary: int
    seed: int
    word_begins: npt.NDArray[np.bool_] | None

    @classmethod
    def of(cls, config: MaskingConfig, texts: Sequence[str], seed: int) -> "Masking":
        """Return the masking for a vocabulary.

        Args:
            config: settings.
            texts: text of each token of the vocabulary; see `SubwordModel.texts`.
            seed: seed of the masks.
        """
        begins = np.array([begins_word(text) for text in texts]) if config.whole_words else None
        return cls(config, len(texts), seed, begins)

    def batch(self, windows: Window, cursor: Cursor | None) -> MaskedBatch:
        """Return a batch with masks.

        Args:
            windows: the text.
            cursor: cursor of the batch, on which dynamic masks depend. None: static masks, for validation.

        Raises:
            SettingsError: for next-sentence prediction with a single window.
        """
        tokens = windows.tokens_in.numpy()
        documents = None if windows.documents is None else windows.documents.numpy()
        draw = self._draws(tokens, cursor)
        segments = follows = None
        if self.config.next_sentence:
            tokens, segments, follows = _halves(tokens, draw(1)[:, 0], draw(1)[0, 0])
            documents = None
        else:
            tokens = _with_first(tokens, BOS)
            documents = None if documents is None else np.concatenate((documents[:, :1], documents), axis=1)
        selected = self.select(tokens, draw)
        return MaskedBatch(
            tokens=torch.from_numpy(self.replace(tokens, selected, draw)),
            segments=None if segments is None else torch.from_numpy(segments),
            documents=None if documents is None else torch.from_numpy(documents),
            positions=torch.from_numpy(selected.ravel().nonzero()[0]),
            targets=torch.from_numpy(tokens[selected]),
            follows=None if follows is None else torch.from_numpy(follows),
        )

    def select(self, tokens: Int64[np.ndarray, "B T"], draw: "Draw") -> Bool[np.ndarray, "B T"]:
        """Return True for the tokens to predict: `share` of those that are not special symbols, but at least one.

        Words are taken in random order. The last of them, which would exceed the number of tokens, is taken with the
        probability that makes the mean number of tokens equal to it.
        """
        B, T = tokens.shape
        ordinary = tokens >= ORDINARY
        if self.word_begins is None:
            word = np.broadcast_to(np.arange(T), (B, T))
        else:
            begins = self.word_begins[tokens]
            begins[:, 1:] |= ~ordinary[:, :-1]
            word = begins.cumsum(axis=1) - begins[:, :1]
        key = np.where(ordinary, np.take_along_axis(draw(T), word, axis=1), np.inf)
        # The tokens of a word are adjacent in this order, and special symbols are at its end.
        order = key.argsort(axis=1, kind="stable")
        count = ordinary.sum(axis=1, keepdims=True)
        number = np.clip(np.floor(self.config.share * count + draw(1)), np.minimum(count, 1), count)
        rank = np.arange(T)
        ordered = np.take_along_axis(word, order, axis=1)
        first = np.concatenate((np.ones((B, 1), dtype=bool), ordered[:, 1:] != ordered[:, :-1]), axis=1)
        start = np.maximum.accumulate(np.where(first, rank, 0), axis=1)
        last = np.concatenate((first[:, 1:], np.ones((B, 1), dtype=bool)), axis=1)
        end = np.minimum.accumulate(np.where(last, rank + 1, T)[:, ::-1], axis=1)[:, ::-1]
        taken = (end <= number) | ((start < number) & ((draw(1) * (end - start) < number - start) | (start == 0)))
        selected = np.zeros((B, T), dtype=bool)
        np.put_along_axis(selected, order, taken & (rank < count), axis=1)
        return selected

    def replace(
        self, tokens: Int64[np.ndarray, "B T"], selected: Bool[np.ndarray, "B T"], draw: "Draw"
    ) -> Int64[np.ndarray, "B T"]:
        """Return the tokens with most of the selected ones replaced by the mask symbol or by random tokens."""
        T = tokens.shape[1]
        action = draw(T)
        other = ORDINARY + (draw(T) * (self.vocabulary - ORDINARY)).astype(np.int64)
        masked = selected & (action < self.config.masked)
        random = selected & ~masked & (action < self.config.masked + self.config.random)
        return np.where(masked, MASK, np.where(random, other, tokens))

    def _draws(self, tokens: Int64[np.ndarray, "B T"], cursor: Cursor | None) -> "Draw":
        if self.config.dynamic and cursor is not None:
            seed = np.random.SeedSequence(self.seed, spawn_key=(cursor.epoch, cursor.window, cursor.batch))
            generator = np.random.default_rng(seed)
            return lambda numbers: generator.random((len(tokens), numbers))
        generators = [np.random.default_rng([self.seed, _digest(row)]) for row in tokens]
        return lambda numbers: np.stack([generator.random(numbers) for generator in generators])


# (N) -> N random numbers from 0 to 1 for each row [B, N]
Draw = Callable[[int], Float64[np.ndarray, "B N"]]


class WindowStream(Protocol):
    """Endless stream of batches of windows, such as `data.token_stream`'s."""

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[Window, Cursor]]:
        """Yield each batch with the cursor after it; the same cursor always gives the same batches."""

    def longest(self) -> Window:
        """Return the batch that needs the most memory."""


@dataclass(frozen=True)
class MaskedStream:
    """Endless stream of masked batches, which can start at any cursor.

    Attributes:
        windows: the windows of text, which are `MaskingConfig.symbols` tokens shorter than those of the batches.
        masking: selects and replaces the tokens to predict.
    """

    windows: WindowStream
    masking: Masking

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[MaskedBatch, Cursor]]:
        """Yield each batch with the cursor after it; the same cursor always gives the same batches."""
        for windows, following in self.windows.from_cursor(cursor):
            yield self.masking.batch(windows, following), following

    def longest(self) -> MaskedBatch:
        """Return the batch that needs the most memory."""
        return self.masking.batch(self.windows.longest(), Cursor())


def _halves(
    tokens: Int64[np.ndarray, "B T"], same: Float64[np.ndarray, " B"], shift: float
) -> tuple[Int64[np.ndarray, "B T3"], Int64[np.ndarray, "B T3"], Int64[np.ndarray, " B"]]:
    """Return BOS, first half, EOS, second half, EOS; the segments; and 1 for rows whose second half is their own.

    Args:
        tokens: the windows.
        same: one random number for each window; below 1/2 the second half is that of another window.
        shift: random number that selects the other windows.
    """
    B, T = tokens.shape
    if B < 2:
        raise SettingsError("masking.next_sentence needs batches of at least 2 windows: raise batching.batch_tokens")
    first, second = tokens[:, : T // 2], tokens[:, T // 2 :]
    follows = same >= 0.5
    others = np.roll(second, 1 + int(shift * (B - 1)), axis=0)
    second = np.where(follows[:, None], second, others)
    end = np.full((B, 1), EOS)
    # [B, T//2 + 2] and [B, T - T//2 + 1] -> [B, T + 3]
    rows = np.concatenate((_with_first(first, BOS), end, second, end), axis=1)
    segments = np.zeros_like(rows)
    segments[:, T // 2 + 2 :] = 1
    return rows, segments, follows.astype(np.int64)


def _with_first(tokens: Int64[np.ndarray, "B T"], symbol: int) -> Int64[np.ndarray, "B T1"]:
    return np.concatenate((np.full((len(tokens), 1), symbol), tokens), axis=1)


def _digest(row: Int64[np.ndarray, " T"]) -> int:
    return int.from_bytes(hashlib.sha256(row.astype("<i8").tobytes()).digest()[:8], "little")
