"""Documents stored on disk, so that a corpus that can be read only once (standard input) is read only once.

The directory contains three files:

    text.txt     the documents in UTF-8, one after the other, without separators
    ends.npy     int64: offset in bytes of the end of each document
    meta.json    counts, the version of this layout
"""

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from dragoman.data.flat_array import FlatArrayWriter, map_flat_array
from dragoman.data.splitting import is_selected
from dragoman.data.texts import BLOCK, Part
from dragoman.errors import CorpusError, SettingsError, StorageError
from dragoman.files import open_regular, read_json_object, replaced_directory

VERSION = 1
# A corpus of at least this many documents is split by whole documents, a smaller one by position.
MANY_DOCUMENTS = 1000
# Number of documents whose ends are written together.
WRITTEN_AT_ONCE = 2**16


@dataclass(frozen=True, kw_only=True)
class TextCounts:
    """Content of meta.json.

    Attributes:
        documents: number of documents.
        characters: number of characters of all documents.
        bytes: number of bytes of all documents in UTF-8.
        version: version of the layout.
    """

    documents: int
    characters: int
    bytes: int
    version: int = VERSION


class StoredTexts:
    """Documents on disk, in their order.

    Attributes:
        counts: numbers of documents, characters and bytes.
    """

    def __init__(self, directory: Path, counts: TextCounts, ends: npt.NDArray[np.int64]) -> None:
        """Called by `open` and `store_texts`."""
        self.counts = counts
        self._directory = directory
        self._ends = ends

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open what `store_texts` wrote.

        Raises:
            StorageError: if the directory does not contain stored text, or is damaged.
        """
        try:
            counts = TextCounts(
                **read_json_object(directory / "meta.json", missing="it has no meta.json", error=StorageError)
            )
            if counts.version != VERSION:
                raise ValueError(f"expected layout version {VERSION}, found {counts.version}")
            ends, _ = map_flat_array(directory / "ends.npy", (np.int64,))
            size = (directory / "text.txt").stat().st_size
            if len(ends) != counts.documents or not len(ends) or ends[-1] != size or counts.bytes != size:
                raise ValueError("the files have different sizes")
            if (np.diff(ends, prepend=0) <= 0).any():
                raise ValueError("ends.npy is not in ascending order")
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(f"{directory}: not stored text ({error}); delete it and prepare it again") from error
        return cls(directory, counts, ends)

    def parts(self) -> Iterator[Part]:
        """Yield the documents in parts of at most `BLOCK` characters, none of which is empty.

        Raises:
            StorageError: if the text is damaged.
        """
        path = self._directory / "text.txt"
        try:
            with open_regular(path) as file:
                start = 0
                for end in map(int, self._ends):
                    decoder = codecs.getincrementaldecoder("utf-8")()
                    while start < end:
                        data = file.read(min(BLOCK, end - start))
                        start += len(data)
                        if not data:
                            raise ValueError("it is truncated")
                        if text := decoder.decode(data, final=start == end):
                            yield Part(text, start == end)
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} is damaged ({error}); delete it and prepare it again") from error

    def split(self, share: float, seed: int = 0) -> "TextSplit":
        """Return the split into training and validation text.

        Args:
            share: share of the text that is held out, between 0 and 1.
            seed: seed of the split by whole documents.

        Raises:
            CorpusError: if the text is too short.
        """
        if not 0 < share < 1:
            raise SettingsError(f"the share of validation text is {share}; it must be between 0 and 1")
        by_document = self.counts.documents >= MANY_DOCUMENTS
        cut = int(self.counts.characters * (1 - share))
        if not by_document and not 0 < cut < self.counts.characters:
            raise CorpusError(
                f"the text has {self.counts.characters:,} characters, which is too few to hold out {share:.0%} for "
                "validation; give more text, or a validation text of its own"
            )
        return TextSplit(self, share=share, seed=seed, position=None if by_document else cut)


@dataclass(frozen=True)
class TextSplit:
    """Training and validation text.

    A large number of documents is split by a hash of each document's text, so that equal documents are on the same
    side. Otherwise the validation text is the end of the corpus; a document that is divided becomes two.

    Attributes:
        texts: all documents.
        share: share of the text that is held out.
        seed: seed of the split by documents.
        position: number of characters of training text; None for a split by documents.
    """

    texts: StoredTexts
    share: float
    seed: int
    position: int | None

    def training(self) -> Iterator[Part]:
        """Yield the training text.

        Raises:
            CorpusError: if it is empty.
        """
        if self.position is not None:
            return _before(self.texts.parts(), self.position)
        return self._documents(held_out=False)

    def validation(self) -> Iterator[Part]:
        """Yield the validation text.

        Raises:
            CorpusError: if it is empty.
        """
        if self.position is not None:
            return _after(self.texts.parts(), self.position)
        return self._documents(held_out=True)

    def _documents(self, *, held_out: bool) -> Iterator[Part]:
        begins, selected, empty = True, False, True
        for part in self.texts.parts():
            if begins:
                # The hash is that of the first part only, so that a long document need not be held in memory.
                selected = is_selected(part.text, self.share, self.seed) == held_out
            if selected:
                empty = False
                yield part
            begins = part.ends
        if empty:
            raise CorpusError(
                f"no document is left for {'validation' if held_out else 'training'}: nearly all documents are equal; "
                "give a validation text of its own"
            )


def store_texts(parts: Iterable[Part], directory: Path) -> StoredTexts:
    """Write documents to disk, in one pass and in memory that does not depend on their size.

    The directory is written atomically and replaces an existing one. An error raised by the iterator `parts` is not
    caught and leaves the directory unchanged.

    Args:
        parts: the documents, of which at least one is not empty.
        directory: where to write.
    """
    with replaced_directory(directory) as new:
        characters, size = 0, 0
        pending: list[int] = []
        with (new / "text.txt").open("xb") as file, FlatArrayWriter(new / "ends.npy", np.int64) as ends:
            for text, last in parts:
                data = text.encode()
                file.write(data)
                characters += len(text)
                size += len(data)
                if last:
                    pending.append(size)
                if len(pending) == WRITTEN_AT_ONCE:
                    ends.write(np.array(pending))
                    pending.clear()
            ends.write(np.array(pending, dtype=np.int64))
        counts = TextCounts(documents=ends.count, characters=characters, bytes=size)
        (new / "meta.json").write_text(json.dumps(asdict(counts), indent=2) + "\n")
    return StoredTexts.open(directory)


def _before(parts: Iterator[Part], position: int) -> Iterator[Part]:
    """Yield the first `position` characters; the last document ends there."""
    for text, ends in parts:
        if len(text) >= position:
            yield Part(text[:position], True)
            return
        yield Part(text, ends)
        position -= len(text)


def _after(parts: Iterator[Part], position: int) -> Iterator[Part]:
    """Yield what follows the first `position` characters; a document begins there."""
    for text, ends in parts:
        if len(text) > position:
            yield Part(text[position:], ends)
        position = max(0, position - len(text))
