"""One vocabulary of subwords: a sentencepiece model that encodes any text without loss.

Characters that the vocabulary lacks are encoded as UTF-8 bytes, so that nothing is unknown.
"""

import random
from collections.abc import Callable, Sequence
from functools import cached_property

import sentencepiece

from dragoman.text.characters import SPACE_MARK, replace_surrogates
from dragoman.text.model_file import check_model
from dragoman.text.subword_sampling import SegmentationSampler

PAD, UNK, BOS, EOS = 0, 1, 2, 3
NEVER_GENERATED = (PAD, UNK, BOS)  # UNK is never needed, as bytes represent what the vocabulary lacks
MASK = UNK  # for the same reason, its id is free for the tokens that a masked language model predicts
ORDINARY = 4  # the first id that is not a special symbol


class SubwordModel:
    """One sentencepiece model: the vocabulary of one language, or of both.

    Attributes:
        serialized: the model in sentencepiece's file format.
        size: number of token ids.
        space_before: True if a text is encoded as if a space preceded it, False for a vocabulary of running text.
    """

    def __init__(self, serialized: bytes) -> None:
        """Read a serialised model.

        Raises:
            ValueError: if this is not a model that Dragoman can have written.
        """
        self.serialized = serialized
        check_model(serialized)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=serialized)
        except RuntimeError as error:
            raise ValueError("not a sentencepiece model") from error
        self.size: int = self._processor.get_piece_size()
        self.space_before: bool = self._processor.normalize("a") != "a"
        control = [
            self._processor.pad_id(),
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
        ]
        if control != [PAD, UNK, BOS, EOS] or not all(map(self._processor.is_byte, self.byte_ids)):
            raise ValueError("a sentencepiece model with other special symbols, or without bytes")

    @property
    def byte_ids(self) -> list[int]:
        """Ids of the 256 byte symbols, in the order of the bytes' values."""
        return [self._byte(value) for value in range(256)]

    def encode(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Return the ids of the best segmentation of each line, computed by `workers` threads."""

        def segment(texts: list[bytes]) -> list[list[int]]:
            if workers == 1:
                # Given a list, sentencepiece starts a thread, for which a busy machine can take milliseconds.
                return [self._processor.encode(text) for text in texts]
            return self._processor.encode(texts, num_threads=workers)

        return self._rows(lines, segment)

    def sample(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of a random segmentation of each line; see `SegmentationSampler`.

        The result depends only on the arguments.
        """
        draw = random.Random(seed)
        return [self._sampler.sample(utf8(line).decode(), alpha, draw) for line in lines]

    @cached_property
    def pieces(self) -> dict[str, tuple[int, float]]:
        """Id and score of each subword by its text, in which U+2581 is a space; without special and byte symbols."""
        processor = self._processor
        return {
            processor.id_to_piece(index): (index, processor.get_score(index))
            for index in range(self.size)
            if not (processor.is_control(index) or processor.is_unknown(index) or processor.is_byte(index))
        }

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """UTF-8 text of each token id; that of PAD, BOS and EOS is empty, that of UNK is U+FFFD."""
        texts = [b""] * self.size
        texts[UNK] = "\ufffd".encode()
        for value, index in enumerate(self.byte_ids):
            texts[index] = bytes([value])
        for piece, (index, _) in self.pieces.items():
            texts[index] = piece.replace(SPACE_MARK, " ").encode()
        return texts

    @cached_property
    def _sampler(self) -> SegmentationSampler:
        # Sentencepiece does not report the type of a model, but ranks are whole numbers and log-probabilities are not.
        merges = all(score.is_integer() for _, score in self.pieces.values())
        return SegmentationSampler(self.pieces, self.byte_ids, merges=merges)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids; bytes that are not valid UTF-8 become U+FFFD."""
        return [self._processor.decode([int(i) for i in row]) if len(row) else "" for row in rows]

    def texts(self, row: Sequence[int]) -> list[str]:
        """Return the text of each id.

        It is a subword, in which U+2581 is a space, a byte symbol such as "<0xC3>", or a special symbol such as "</s>".
        """
        return [self._processor.id_to_piece(int(index)) for index in row]

    def _rows(self, lines: Sequence[str], segment: Callable[[list[bytes]], list[list[int]]]) -> list[list[int]]:
        if not any(SPACE_MARK in line for line in lines):
            return segment([utf8(line) for line in lines])
        # Sentencepiece would take a space mark in the text for a space. It is replaced by a character that occurs in no
        # line and no subword and so is encoded as bytes; these bytes are then replaced by those of the space mark.
        present = set().union(*lines)
        stand_in = next(
            chr(code)
            for code in range(0x10FFFF, 0, -1)
            if chr(code) not in present and self._processor.piece_to_id(chr(code)) == UNK
        )
        old, new = ([self._byte(b) for b in text.encode()] for text in (stand_in, SPACE_MARK))
        rows = segment([utf8(line.replace(SPACE_MARK, stand_in)) for line in lines])
        return [_replace(row, old, new) for row in rows]

    def _byte(self, value: int) -> int:
        index: int = self._processor.piece_to_id(f"<0x{value:02X}>")
        return index


def utf8(text: str) -> bytes:
    """Return any string in UTF-8; a lone surrogate, which UTF-8 cannot represent, becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return replace_surrogates(text).encode()


def _replace(row: list[int], old: list[int], new: list[int]) -> list[int]:
    """Return the row with each occurrence of the ids `old` replaced by `new`."""
    replaced: list[int] = []
    for index in row:
        replaced.append(index)
        if replaced[-len(old) :] == old:
            replaced[-len(old) :] = new
    return replaced
