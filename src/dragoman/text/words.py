"""Subwords put together to words."""

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
    """The words of a row of tokens.

    texts   of each word
    starts  of each word, the number of its first token
    tokens  how many tokens there are
    """

    texts: tuple[str, ...]
    starts: tuple[int, ...]
    tokens: int

    @classmethod
    def of(cls, tokens: Sequence[str], *, only_spaces: bool = False, right_to_left: bool = False) -> Words:
        """Put tokens together.

        A word ends at a space, and special symbols are words of their own. In scripts that are written without spaces
        each token is a word, unless `only_spaces`: then words are what is between spaces, in any script.
        `right_to_left`: the last token of the text comes first, and so does its last word.
        """
        if right_to_left:
            words = cls.of(tokens[::-1], only_spaces=only_spaces)
            ends = [*words.starts, len(tokens)][1:]
            return cls(words.texts[::-1], tuple(len(tokens) - end for end in reversed(ends)), len(tokens))
        starts: list[int] = []
        blank = True  # the word that has begun has only spaces so far
        for number, token in enumerate(tokens):
            body = token.replace(SPACE_MARK, "")
            alone = token in SPECIAL or (not only_spaces and WITHOUT_SPACES.match(body) is not None)
            begins = alone or token.startswith((SPACE_MARK, "<0x20>")) or (number > 0 and tokens[number - 1] in SPECIAL)
            if number == 0 or (begins and not blank):
                starts.append(number)
                blank = True
            blank = blank and not body
        ends = [*starts, len(tokens)][1:]
        return cls(
            tuple(text_of(tokens[start:end]) for start, end in zip(starts, ends, strict=True)),
            tuple(starts),
            len(tokens),
        )

    def sum(self, array: Float[np.ndarray, ...], axis: int) -> Float[np.ndarray, ...]:
        """The array with the sum over the tokens of each word in place of the tokens along `axis`."""
        assert array.shape[axis] == self.tokens
        return np.add.reduceat(array, self.starts, axis=axis)

    def mean(self, array: Float[np.ndarray, ...], axis: int) -> Float[np.ndarray, ...]:
        """The same with the mean."""
        sizes = np.array([end - start for start, end in pairwise([*self.starts, self.tokens])], dtype=array.dtype)
        shape = [1] * array.ndim
        shape[axis] = len(sizes)
        return self.sum(array, axis) / sizes.reshape(shape)


def text_of(tokens: Sequence[str]) -> str:
    """Tokens as people write them: bytes put together to characters (U+FFFD where they are none), no spaces around."""
    data = b"".join(
        bytes([int(byte[1], 16)])
        if (byte := _BYTE.fullmatch(token))
        else token.replace(SPACE_MARK, " ").encode(errors="replace")
        for token in tokens
    )
    return data.decode(errors="replace").strip(" ")
