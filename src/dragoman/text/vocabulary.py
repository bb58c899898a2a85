"""The vocabulary of running text: conversion of text of any length to token ids and back, without loss.

Running text is the text of language models. It contains line feeds, is divided anywhere, and is continued exactly where
it ends, so that no space is assumed before it. Decoding the ids of any text returns the same text; only a lone
surrogate, which is not a character, is returned as U+FFFD.
"""

import codecs
import hashlib
import heapq
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, Self

from dragoman.errors import CorpusError, SettingsError
from dragoman.files import write_atomically
from dragoman.text.character_model import CharacterModel, learn_characters
from dragoman.text.model_reading import read_model, read_model_file
from dragoman.text.subword_learning import learn_subwords
from dragoman.text.subwords import SubwordModel, utf8
from dragoman.text.token_model import TokenModel

# The file of `Tokenizer` for one joint vocabulary, so that config.json lists it in the same way.
VOCABULARY_FILE = "tokenizer.model"
# Largest number of characters that are segmented together. A line has fewer, as a rule.
LONGEST_PART = 1024
# A line with its line feed; the last line; part of a long line, up to a space or else of the largest length.
_PART = re.compile(rf"[^\n]{{0,{LONGEST_PART - 1}}}\n|[^\n]{{1,{LONGEST_PART}}}(?:\Z|(?= ))|[^\n]{{1,{LONGEST_PART}}}")
# Largest number of UTF-8 bytes of a part.
_LONGEST_PART_BYTES = 4 * LONGEST_PART


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Settings for learning the vocabulary of a language model.

    Attributes:
        kind: "unigram" (subwords of a unigram language model), "bpe" (byte-pair encoding), "character" (the distinct
            characters) or "byte" (UTF-8 bytes).
        vocabulary_size: number of subwords to learn. A small corpus may give fewer: `Vocabulary.size` is the actual
            number. It limits the number of characters, and has no effect on bytes.
        character_coverage: fraction of the characters in the sample that get subwords; other characters are encoded as
            bytes. It has no effect on characters: these are the most frequent ones.
        max_training_bytes: subwords of a larger corpus are learned from a random sample of this many UTF-8 bytes, which
            take about 40 times their number in memory. It has no effect on characters.
    """

    kind: Literal["unigram", "bpe", "character", "byte"] = "unigram"
    vocabulary_size: int = 8000
    character_coverage: float = 0.9995
    max_training_bytes: int = 2**24

    def __post_init__(self) -> None:
        if self.kind not in ("unigram", "bpe", "character", "byte"):
            raise SettingsError(
                f"tokenizer kind is {self.kind!r}; choose unigram, bpe, character or byte for a language model"
            )
        # 4 special symbols, 256 byte symbols and at least 40 characters.
        if self.vocabulary_size < 300:
            raise SettingsError(f"vocabulary_size is {self.vocabulary_size}; it must be at least 300")
        if self.max_training_bytes < _LONGEST_PART_BYTES:
            raise SettingsError(
                f"max_training_bytes is {self.max_training_bytes}; it must be at least {_LONGEST_PART_BYTES}"
            )
        if not 0.9 <= self.character_coverage <= 1:
            raise SettingsError(f"character_coverage is {self.character_coverage}; it must be between 0.9 and 1")


class Vocabulary:
    """Vocabulary of running text.

    Rows of ids from `encode` contain no special symbols. In rows that are decoded, PAD, BOS and EOS have no text.

    Args:
        model: the tokens. A model of subwords must have been learned for running text.

    Attributes:
        size: number of token ids.

    Example:
        >>> vocabulary = train_vocabulary(["To be, or not to be"], VocabularyConfig(kind="character"))
        >>> rows = vocabulary.encode(["not\\n"])
        >>> vocabulary.texts(rows[0])
        ['n', 'o', 't', '<0x0A>']
        >>> vocabulary.decode(rows)
        ['not\\n']
    """

    def __init__(self, model: TokenModel) -> None:
        assert not (isinstance(model, SubwordModel) and model.space_before)
        self._model = model
        self.size = model.size

    @property
    def byte_ids(self) -> list[int]:
        """Ids of the 256 byte symbols, in the order of the bytes' values."""
        return self._model.byte_ids

    @property
    def token_bytes(self) -> list[bytes]:
        """UTF-8 text of each token id; that of PAD, BOS and EOS is empty, that of UNK is U+FFFD."""
        return self._model.token_bytes

    @property
    def vocabulary_hash(self) -> str:
        """SHA-256 of the vocabulary: vocabularies with equal hashes use the same ids."""
        return hashlib.sha256(self._model.serialized).hexdigest()

    def encode(self, texts: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Return the ids of each text, encoded by `workers` threads."""
        if not isinstance(self._model, SubwordModel):
            return self._model.encode(texts, workers)
        divided = [divide(utf8(text).decode()) for text in texts]
        rows = iter(self._model.encode([part for parts in divided for part in parts], workers))
        return [list(chain.from_iterable(next(rows) for _ in parts)) for parts in divided]

    def final(self, text: str) -> int:
        """Return the number of characters at the start of `text` whose ids are the same however the text continues.

        A long text can thus be encoded in parts: the ids of `text[:final(text)]` are the first of the whole text, and
        those of the rest follow. The text must not contain surrogates.
        """
        if not isinstance(self._model, SubwordModel):
            return len(text)
        return len(text) - len(divide(text)[-1]) if text else 0

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids; bytes that are not valid UTF-8 become U+FFFD."""
        return [self._bytes(row).decode(errors="replace") for row in rows]

    def decoder(self) -> "TextDecoder":
        """Return a decoder of a row of which the ids arrive one after the other."""
        return TextDecoder(self.token_bytes)

    def texts(self, row: Sequence[int]) -> list[str]:
        """Return the text of each id; see `TokenModel.texts`."""
        return self._model.texts(row)

    def save(self, directory: Path) -> None:
        """Write tokenizer.model."""
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / VOCABULARY_FILE, self._model.serialized)

    @classmethod
    def load(cls, directory: Path, digests: Mapping[str, str] | None = None) -> Self:
        """Read the file that `save` wrote.

        Args:
            directory: the directory, usually a model directory.
            digests: SHA-256 by file name, as listed in config.json; None to skip the verification.

        Raises:
            ModelError: if the file is missing, is damaged, or differs from its digest.
        """
        return cls(read_model_file(directory / VOCABULARY_FILE, digests, running=True))

    def _bytes(self, row: Sequence[int]) -> bytes:
        texts = self.token_bytes
        return b"".join([texts[int(index)] for index in row])


class TextDecoder:
    """Decoder of a text of which the ids arrive one after the other.

    Args:
        token_bytes: `Vocabulary.token_bytes`.

    Example:
        >>> vocabulary = train_vocabulary([], VocabularyConfig(kind="byte"))
        >>> decoder = vocabulary.decoder()
        >>> [decoder.feed([index]) for index in vocabulary.encode(["né"])[0]]
        ['n', '', 'é']
        >>> decoder.end()
        ''
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Iterable[int]) -> str:
        """Return the text that is certain after these further ids: all but the bytes of an incomplete character."""
        return self._decoder.decode(b"".join([self._token_bytes[int(index)] for index in ids]))

    def end(self) -> str:
        """Return the rest of the text, which is U+FFFD if a character is incomplete."""
        return self._decoder.decode(b"", final=True)


def divide(text: str) -> list[str]:
    """Return the parts of a running text that are segmented one by one: lines, or parts of long lines.

    No part ends within a word that is shorter than `LONGEST_PART`. All parts but the last are the same however the text
    continues, so that segmentation does not depend on the blocks in which a text is read.
    """
    return _PART.findall(text)


def train_vocabulary(texts: Iterable[str], config: VocabularyConfig) -> Vocabulary:
    """Learn the vocabulary of running text.

    Equal texts and settings give files that are equal byte for byte.

    Args:
        texts: the texts, or the blocks in which they are read; read once, and not at all for bytes.
        config: settings.

    Raises:
        CorpusError: if there is no text to learn from.
        SettingsError: if the vocabulary is too small for the characters of the text.

    Example:
        >>> vocabulary = train_vocabulary(["to be or not to be\\n"] * 3, VocabularyConfig(vocabulary_size=300))
        >>> vocabulary.decode(vocabulary.encode(["\\n  to be"]))
        ['\\n  to be']
    """
    if config.kind == "byte":
        return Vocabulary(CharacterModel.of(""))
    if config.kind == "character":
        return Vocabulary(learn_characters(texts, config.vocabulary_size))
    sample = _sample(texts, config.max_training_bytes)
    if not sample:
        raise CorpusError("no text to learn a tokenizer from: the corpus is empty or consists of line breaks")
    serialized = learn_subwords(
        sample,
        config.kind,
        vocabulary_size=config.vocabulary_size,
        character_coverage=config.character_coverage,
        max_line_bytes=_LONGEST_PART_BYTES,
        space_before=False,
    )
    return Vocabulary(read_model(serialized))


def _sample(texts: Iterable[str], max_bytes: int) -> list[str]:
    """Return random parts of the texts, of at most `max_bytes` UTF-8 bytes together, in one pass and in their order."""
    generator = random.Random(0)
    # A part is kept if its random key is small; the heap has the largest key first.
    kept: list[tuple[float, int, str]] = []
    size = 0
    for number, part in enumerate(part.rstrip("\n") for text in texts for part in divide(utf8(text).decode())):
        if part:
            heapq.heappush(kept, (-generator.random(), number, part))
            size += len(part.encode())
        while size > max_bytes:
            size -= len(heapq.heappop(kept)[2].encode())
    return [part for _, _, part in sorted(kept, key=lambda entry: entry[1])]
