"""One vocabulary of whole symbols: digits, letters or phonemes separated by spaces, one token each.

Subwords do not fit such text: they may join neighbouring symbols, and encode each digit of "3 1 4" as two tokens,
because the space is a token of its own.
"""

from collections.abc import Sequence

from dragoman.text.characters import SPACE_MARK
from dragoman.text.subwords import SubwordModel, utf8


class SymbolModel(SubwordModel):
    """A sentencepiece model of type "word": the text between two spaces is one token.

    A symbol that the vocabulary lacks is encoded as bytes, together with the space before it, so that any text can be
    decoded without loss.
    """

    def __init__(self, serialized: bytes) -> None:
        """Read a serialised model.

        Raises:
            ValueError: if this is not a model that Dragoman can have written.
        """
        super().__init__(serialized)
        self._ids = {piece.removeprefix(SPACE_MARK): index for piece, (index, _) in self.pieces.items()}

    def encode(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Return the ids of the symbols of each line; `workers` has no effect."""
        # Sentencepiece's own encoder represents the space before an unknown symbol by the bytes of U+2581.
        return [self._row(utf8(line).decode()) for line in lines]

    def sample(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return what `encode` returns: a symbol has only one segmentation."""
        return self.encode(lines)

    def _row(self, line: str) -> list[int]:
        row: list[int] = []
        for position, symbol in enumerate(line.split(" ")):
            index = self._ids.get(symbol)
            # Decoding removes the space before the first token of a row, so a symbol whose space must be kept cannot be
            # that token: it is encoded as bytes.
            if index is not None and (row or position == 0):
                row.append(index)
            else:
                text = f" {symbol}" if position else symbol
                row += [self._byte(value) for value in text.encode()]
        return row


def separated_by_spaces(text: str) -> str:
    """Return the symbols of `text` with one space between two, the form in which a vocabulary of symbols is learned."""
    return " ".join(text.replace(SPACE_MARK, " ").split())
