"""One vocabulary of whole symbols: digits, letters or phonemes that stand apart in the text, one token each.

Subwords serve such text badly: they may join neighbours, and give the digits of "3 1 4" two tokens each, the space
being one of its own.
"""

from collections.abc import Sequence

from dragoman.text.characters import SPACE_MARK
from dragoman.text.subwords import SubwordModel, utf8


class SymbolModel(SubwordModel):
    """A sentencepiece model of the type "word": what is between two spaces is one token.

    A symbol that the vocabulary lacks is spelled in bytes, with its space, so that any text comes back here too.
    """

    def __init__(self, serialized: bytes) -> None:
        """Read a serialised model; raises ValueError when it is not one of ours."""
        super().__init__(serialized)
        self._ids = {piece.removeprefix(SPACE_MARK): index for piece, (index, _) in self.pieces.items()}

    def encode(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """The symbols of each line, as ids; there is nothing in it for more than one worker."""
        # Not sentencepiece's encoder: it spells the space before an unknown symbol as a character that is no space.
        return [self._row(utf8(line).decode()) for line in lines]

    def sample(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """What `encode` says: symbols have no parts to draw."""
        return self.encode(lines)

    def _row(self, line: str) -> list[int]:
        row: list[int] = []
        for place, symbol in enumerate(line.split(" ")):
            index = self._ids.get(symbol)
            # Decoding takes the space off a symbol that begins a row, so none can begin it that needs its space.
            if index is not None and (row or place == 0):
                row.append(index)
            else:
                spelled = f" {symbol}" if place else symbol
                row += [self._byte(value) for value in spelled.encode()]
        return row


def read_model(serialized: bytes) -> SubwordModel:
    """The vocabulary in a serialised model, of subwords or of symbols; raises ValueError when it is not one of ours."""
    model = SubwordModel(serialized)
    # Sentencepiece does not say of which kind a model is. But a vocabulary of subwords has the letters by themselves,
    # and one of symbols has nothing that does not begin a word.
    whole = all(piece.startswith(SPACE_MARK) and piece != SPACE_MARK for piece in model.pieces)
    return SymbolModel(serialized) if whole else model


def apart(text: str) -> str:
    """The symbols of `text` with single spaces between them, as a vocabulary of symbols is learned."""
    return " ".join(text.replace(SPACE_MARK, " ").split())
