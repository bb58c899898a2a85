"""Grouping of subword tokens into words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from dragoman.text.characters import SPACE_MARK, WITHOUT_SPACES

SPECIAL = ("<s>", "</s>")
_BYTE = re.compile("<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class Words:
    """Words of a row of tokens.

    Attributes:
        texts: text of each word.
        starts: index of the first token of each word.
        tokens: number of tokens.
    """

    texts: tuple[str, ...]
    starts: tuple[int, ...]
    tokens: int

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], *, only_spaces: bool = False, right_to_left: bool = False) -> Words:
        """Group tokens into words.

        A word ends at a space or a line feed, and each special symbol is a word.

        Args:
            tokens: text of each token; see `SubwordModel.texts`.
            only_spaces: separate words at spaces only. By default, each token of a script without spaces is a word.
            right_to_left: the row begins with the last token of the text; so the result begins with its last word.

        Example:
            >>> Words.from_tokens(["▁Turn", "▁o", "ff", "."]).texts
            ('Turn', 'off.')
        """
        if right_to_left:
            words = cls.from_tokens(tokens[::-1], only_spaces=only_spaces)
            ends = [*words.starts, len(tokens)][1:]
            return cls(words.texts[::-1], tuple(len(tokens) - end for end in reversed(ends)), len(tokens))
        starts: list[int] = []
        blank = True  # the current word contains only spaces so far
        for index, token in enumerate(tokens):
            begins = begins_word(token, only_spaces=only_spaces) or (index > 0 and tokens[index - 1] in SPECIAL)
            if index == 0 or (begins and not blank):
                starts.append(index)
                blank = True
            blank = blank and not token.replace(SPACE_MARK, "")
        ends = [*starts, len(tokens)][1:]
        return cls(
            tuple(text_of(tokens[start:end]) for start, end in zip(starts, ends, strict=True)),
            tuple(starts),
            len(tokens),
        )

    def sum(self, array: Float[np.ndarray, ...], axis: int) -> Float[np.ndarray, ...]:
        """Return the array with its values along `axis`, one per token, summed over the tokens of each word."""
        assert array.shape[axis] == self.tokens
        return np.add.reduceat(array, self.starts, axis=axis)

    def mean(self, array: Float[np.ndarray, ...], axis: int) -> Float[np.ndarray, ...]:
        """Return the array with its values along `axis`, one per token, averaged over the tokens of each word."""
        sizes = np.array([end - start for start, end in pairwise([*self.starts, self.tokens])], dtype=array.dtype)
        shape = [1] * array.ndim
        shape[axis] = len(sizes)
        return self.sum(array, axis) / sizes.reshape(shape)


def begins_word(token: str, *, only_spaces: bool = False) -> bool:
    """Return whether a token begins a word, whatever is before it; see `Words.from_tokens`."""
    if token in SPECIAL or token.startswith((SPACE_MARK, "<0x20>", "<0x0A>")):
        return True
    return not only_spaces and WITHOUT_SPACES.match(token) is not None


def text_of(tokens: Sequence[str]) -> str:
    """Return the text of tokens, without spaces at its ends.

    Byte symbols are decoded as UTF-8; invalid bytes become U+FFFD.
    """
    data = b"".join(
        bytes([int(byte[1], 16)])
        if (byte := _BYTE.fullmatch(token))
        else token.replace(SPACE_MARK, " ").encode(errors="replace")
        for token in tokens
    )
    return data.decode(errors="replace").strip(" ")
