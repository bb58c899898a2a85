"""One vocabulary of characters, or of bytes alone.

The file is a JSON object with one key, "characters": the characters in ascending order, as one string. Without
characters, the tokens are bytes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from jaxtyping import Int32

from dragoman.errors import CorpusError
from dragoman.files import parse_json_object
from dragoman.text.characters import SPACE_MARK
from dragoman.text.subwords import BOS, EOS, PAD, UNK, utf8

_SPECIAL = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
_FIRST_BYTE = len(_SPECIAL)
_FIRST_CHARACTER = _FIRST_BYTE + 256
_KEY = "characters"
# One more than the largest code point.
_CODE_POINTS = 0x110000
_CONTINUATION, _CONTINUATION_MASK = 0b1000_0000, 0b1100_0000


class CharacterModel:
    """A vocabulary whose tokens are characters, and bytes for all other characters.

    Ids: the special symbols, the 256 byte symbols, the characters in ascending order.

    Attributes:
        serialized: the content of its file.
        size: number of token ids.
    """

    def __init__(self, serialized: bytes) -> None:
        """Read a file.

        Raises:
            ValueError: if this is not a file that Dragoman can have written.
        """
        self.serialized = serialized
        members = parse_json_object(serialized)
        characters = members.get(_KEY)
        if set(members) != {_KEY} or not isinstance(characters, str):
            raise ValueError(f"expected one text under the key {_KEY!r}")
        if any(first >= second for first, second in pairwise(characters)):
            raise ValueError("the characters are not in ascending order")
        if SPACE_MARK in characters or any("\ud800" <= character <= "\udfff" for character in characters):
            raise ValueError("U+2581 or a surrogate among the characters")
        self._characters = characters
        self.size = _FIRST_CHARACTER + len(characters)

    @classmethod
    def of(cls, characters: Iterable[str]) -> "CharacterModel":
        """Return the vocabulary of the given characters; none for a vocabulary of bytes."""
        # U+2581 represents a space in `texts`, so that the character itself is encoded as bytes.
        ordered = "".join(sorted(set(characters) - {SPACE_MARK}))
        return cls(json.dumps({_KEY: ordered}, ensure_ascii=False).encode())

    @property
    def byte_ids(self) -> list[int]:
        """Ids of the 256 byte symbols, in the order of the bytes' values."""
        return list(range(_FIRST_BYTE, _FIRST_CHARACTER))

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """UTF-8 text of each token id; that of PAD, BOS and EOS is empty, that of UNK is U+FFFD."""
        special = ["\ufffd".encode() if index == UNK else b"" for index in _SPECIAL]
        return [*special, *(bytes([value]) for value in range(256)), *map(str.encode, self._characters)]

    def encode(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Return the ids of the characters of each line; `workers` has no effect."""
        return [self._row(utf8(line)).tolist() for line in lines]

    def sample(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return what `encode` returns: a text has only one segmentation."""
        return self.encode(lines)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids; bytes that are not valid UTF-8 become U+FFFD."""
        return [b"".join([self.token_bytes[int(index)] for index in row]).decode(errors="replace") for row in rows]

    def texts(self, row: Sequence[int]) -> list[str]:
        """Return the text of each id.

        It is a character, U+2581 for a space, a byte symbol such as "<0xC3>" or "<0x0A>" for a byte or a control
        character, or a special symbol such as "</s>".
        """
        return [self._texts[int(index)] for index in row]

    @cached_property
    def _texts(self) -> list[str]:
        symbols = [f"<0x{value:02X}>" for value in range(256)]
        symbols[0x21:0x7F] = map(chr, range(0x21, 0x7F))
        symbols[ord(" ")] = SPACE_MARK
        characters = [symbols[ord(letter)] if letter.isascii() else letter for letter in self._characters]
        return [*_SPECIAL.values(), *symbols, *characters]

    @cached_property
    def _ids(self) -> Int32[np.ndarray, " C"]:
        """Id of each code point; UNK for characters that are encoded as bytes."""
        ids = np.full(_CODE_POINTS, UNK, dtype=np.int32)
        ids[_codes(self._characters)] = np.arange(_FIRST_CHARACTER, self.size)
        return ids

    def _row(self, data: bytes) -> npt.NDArray[np.int32]:
        units = np.frombuffer(data, dtype=np.uint8)
        if not self._characters:
            return units.astype(np.int32) + _FIRST_BYTE
        ids = self._ids[_codes(data.decode())]
        spelled = ids == UNK
        if not spelled.any():
            return ids
        # For each byte: the character to which it belongs, and whether it is the first byte of that character.
        first = (units & _CONTINUATION_MASK) != _CONTINUATION
        character = first.cumsum() - 1
        row = np.where(spelled[character], units.astype(np.int32) + _FIRST_BYTE, ids[character])
        return row[first | spelled[character]]


def learn_characters(texts: Iterable[str], size: int) -> CharacterModel:
    """Return the vocabulary of the distinct characters of the texts.

    Args:
        texts: the texts, read once.
        size: largest number of token ids. If there are more characters, the rarest are encoded as bytes.

    Raises:
        CorpusError: if there is no text.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(utf8(text).decode())
    if not counts:
        raise CorpusError("no text to learn the characters from: the corpus is empty")
    # Equal counts are in ascending order, so that the result does not depend on the order of the texts.
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    return CharacterModel.of(frequent[: size - _FIRST_CHARACTER])


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
