"""Interface of one vocabulary: text to token ids and back, without loss."""

from collections.abc import Sequence
from typing import Protocol


class TokenModel(Protocol):
    """One vocabulary: of subwords, of whole symbols, of characters or of bytes.

    Its first ids are the special symbols PAD, UNK, BOS and EOS. Text that the vocabulary lacks is encoded as UTF-8
    bytes, so that nothing is unknown.
    """

    @property
    def serialized(self) -> bytes:
        """Return the content of its file, from which `model_reading.read_model` returns an equal vocabulary."""

    @property
    def size(self) -> int:
        """Return the number of token ids."""

    @property
    def byte_ids(self) -> list[int]:
        """Return the ids of the 256 byte symbols, in the order of the bytes' values."""

    @property
    def token_bytes(self) -> list[bytes]:
        """Return the UTF-8 text of each token id; that of PAD, BOS and EOS is empty, that of UNK is U+FFFD."""

    def encode(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Return the ids of each line, encoded by `workers` threads."""

    def sample(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of a random segmentation of each line; see `SegmentationSampler.sample`."""

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids; bytes that are not valid UTF-8 become U+FFFD."""

    def texts(self, row: Sequence[int]) -> list[str]:
        """Return the text of each id.

        It is a subword or a character, in which U+2581 is a space, a byte symbol such as "<0xC3>", or a special symbol
        such as "</s>".
        """
