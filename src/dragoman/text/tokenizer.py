"""Tokenizer of a language pair: conversion of text to subword ids and back.

The subwords are learned as a unigram language model (Kudo, 2018), which is the default, or by byte-pair encoding
(Sennrich et al., 2016); a vocabulary of whole symbols serves text that is not written in words. Text is neither
normalised nor trimmed: decoding the ids of any text returns the same text. Only a lone surrogate, which is not a
character, is returned as U+FFFD.
"""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from dragoman.errors import ModelError, SettingsError
from dragoman.files import write_atomically
from dragoman.text.character_model import CharacterModel, learn_characters
from dragoman.text.model_reading import LARGEST_TOKENIZER, read_model, read_model_file
from dragoman.text.subword_learning import learn_subwords
from dragoman.text.subwords import BOS, EOS, PAD, UNK
from dragoman.text.symbols import separated_by_spaces
from dragoman.text.token_model import TokenModel

__all__ = ["BOS", "EOS", "LARGEST_TOKENIZER", "PAD", "UNK", "Tokenizer", "TokenizerConfig", "train_tokenizer"]

_JOINT, _SOURCE, _TARGET = TOKENIZER_FILES = ("tokenizer.model", "tokenizer.source.model", "tokenizer.target.model")

# A source and its target, such as `data.readers.Pair`.
TextPair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Settings for learning a tokenizer.

    Attributes:
        kind: "unigram" (unigram language model), "bpe" (byte-pair encoding), "word" (whole symbols: the text between
            two spaces is one token), "character" (the distinct characters) or "byte" (UTF-8 bytes). Choose "word" for
            digits, letters or phonemes separated by spaces: the other kinds encode each digit of "3 1 4" as two tokens,
            because the space is a token of its own.
        vocabulary_size: number of subwords to learn, for each side if the vocabularies are separate. A small corpus may
            give fewer: `Tokenizer.source_size` is the actual number. It limits the number of characters, and has no
            effect on bytes.
        joint: True for one vocabulary for both languages, False for one per language.
        max_training_pairs: a larger corpus is replaced by a random sample of this many pairs. Each pair takes about
            4 KB of memory.
        max_line_bytes: longer lines are not used for learning; they can still be tokenized.
        character_coverage: fraction of the characters in the sample that get subwords; other characters are encoded as
            bytes. It has no effect on which whole symbols or characters get tokens: these are the most frequent ones.
        right_to_left: if True, the model generates a target from its last token to its first, in any script. Two
            models, one of each direction, usually translate better than either alone: see
            `dragoman.translation.two_directions`.
    """

    kind: Literal["unigram", "bpe", "word", "character", "byte"] = "unigram"
    vocabulary_size: int = 8000
    joint: bool = True
    max_training_pairs: int = 100_000
    max_line_bytes: int = 4096
    character_coverage: float = 0.9995
    right_to_left: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("unigram", "bpe", "word", "character", "byte"):
            raise SettingsError(f"tokenizer kind is {self.kind!r}; choose unigram, bpe, word, character or byte")
        # 4 special symbols, 256 byte symbols and at least 40 characters.
        if self.vocabulary_size < 300:
            raise SettingsError(f"vocabulary_size is {self.vocabulary_size}; it must be at least 300")
        if self.max_training_pairs < 1 or self.max_line_bytes < 1:
            raise SettingsError("max_training_pairs and max_line_bytes must be at least 1")
        if not 0.9 <= self.character_coverage <= 1:
            raise SettingsError(f"character_coverage is {self.character_coverage}; it must be between 0.9 and 1")


class Tokenizer:
    """Tokenizer of a language pair.

    Rows of ids contain no special symbols (such as the end of the sentence), neither in arguments nor in results.

    Args:
        source: vocabulary of the source language.
        target: vocabulary of the target language; the same object as `source` if there is one joint vocabulary.
        right_to_left: rows of target ids begin with the last token of the text.

    Attributes:
        joint: True if both languages have the same vocabulary.
        source_size: number of token ids of the source language.
        target_size: number of token ids of the target language.

    Example:
        >>> tokenizer = Tokenizer.load(Path("models/mine"))
        >>> rows = tokenizer.encode_source(["Turn off the light."])
        >>> tokenizer.decode_source(rows)
        ['Turn off the light.']
    """

    def __init__(self, source: TokenModel, target: TokenModel, *, right_to_left: bool = False) -> None:
        self._source = source
        self._target = target
        self.right_to_left = right_to_left
        self.joint = source is target
        self.source_size = source.size
        self.target_size = target.size

    @property
    def target_bytes(self) -> list[int]:
        """Ids of the 256 byte symbols of the target vocabulary, in the order of the bytes' values."""
        return self._target.byte_ids

    @property
    def vocabulary_hash(self) -> str:
        """SHA-256 of the vocabularies: tokenizers with equal hashes use the same ids, whatever their direction."""
        models = [self._source] if self.joint else [self._source, self._target]
        digests = (hashlib.sha256(model.serialized).digest() for model in models)
        return hashlib.sha256(b"".join(digests)).hexdigest()

    def encode_source(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Return the ids of each source line, encoded by `workers` threads."""
        return self._source.encode(lines, workers)

    def encode_target(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Return the ids of each target line, encoded by `workers` threads."""
        return self._ordered(self._target.encode(lines, workers))

    def sample_source(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of one random segmentation of each source line; see `SegmentationSampler.sample`."""
        return self._source.sample(lines, alpha, seed)

    def sample_target(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Return the ids of one random segmentation of each target line; see `SegmentationSampler.sample`."""
        return self._ordered(self._target.sample(lines, alpha, seed))

    def decode_source(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the source text of each row of ids."""
        return self._source.decode(ids)

    def decode_target(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the target text of each row of ids; it may contain any character, including line feeds."""
        return self._target.decode([row[::-1] for row in ids] if self.right_to_left else ids)

    def source_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each source id; see `TokenModel.texts`."""
        return self._source.texts(ids)

    def target_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each target id; see `TokenModel.texts`."""
        return self._target.texts(ids)

    def _ordered(self, rows: list[list[int]]) -> list[list[int]]:
        """Return rows of target ids in the order in which the model generates them."""
        return [row[::-1] for row in rows] if self.right_to_left else rows

    def save(self, directory: Path) -> None:
        """Write tokenizer.model, or tokenizer.source.model and tokenizer.target.model."""
        directory.mkdir(parents=True, exist_ok=True)
        if self.joint:
            write_atomically(directory / _JOINT, self._source.serialized)
        else:
            write_atomically(directory / _SOURCE, self._source.serialized)
            write_atomically(directory / _TARGET, self._target.serialized)
            # `load` would prefer the joint model of an earlier save.
            (directory / _JOINT).unlink(missing_ok=True)

    @classmethod
    def load(cls, directory: Path, *, right_to_left: bool = False, digests: Mapping[str, str] | None = None) -> Self:
        """Read the files that `save` wrote.

        Args:
            directory: the directory, usually a model directory.
            right_to_left: rows of target ids begin with the last token of the text. The files do not contain this.
            digests: SHA-256 by file name, as listed in config.json; None to skip the verification.

        Raises:
            ModelError: if a file is missing, is damaged, or differs from its digest.
        """
        if (directory / _JOINT).exists():
            model = _read(directory / _JOINT, digests)
            return cls(model, model, right_to_left=right_to_left)
        if not (directory / _SOURCE).exists():
            raise ModelError(f"{directory} contains no {_JOINT}; give a model directory")
        source, target = (_read(directory / name, digests) for name in (_SOURCE, _TARGET))
        return cls(source, target, right_to_left=right_to_left)


def train_tokenizer(pairs: Iterable[TextPair], config: TokenizerConfig) -> Tokenizer:
    """Learn a tokenizer from pairs of source and target text.

    `pairs` is read once. Equal pairs and settings give files that are equal byte for byte.

    Raises:
        CorpusError: if there is no text to learn from.
        SettingsError: if the vocabulary is too small for the characters of the text.

    Example:
        >>> pairs = [("Turn off the light.", "Schalte das Licht aus.")]
        >>> tokenizer = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=320))
        >>> len(tokenizer.encode_target(["das Licht"]))
        1
    """
    sample = _sample(pairs, config.max_training_pairs)
    if config.joint:
        model = _train((text for pair in sample for text in pair), config)
        return Tokenizer(model, model, right_to_left=config.right_to_left)
    source = _train((source for source, _ in sample), config)
    target = _train((target for _, target in sample), config)
    return Tokenizer(source, target, right_to_left=config.right_to_left)


def _sample(pairs: Iterable[TextPair], size: int) -> list[TextPair]:
    """Return `size` random pairs, or all if there are fewer, in one pass (reservoir sampling; Vitter, 1985)."""
    generator = random.Random(0)
    sample: list[TextPair] = []
    for seen, pair in enumerate(pairs):
        if seen < size:
            sample.append(pair)
        elif (index := generator.randrange(seen + 1)) < size:
            sample[index] = pair
    return sample


def _train(texts: Iterable[str], config: TokenizerConfig) -> TokenModel:
    if config.kind == "byte":
        return CharacterModel.of("")
    if config.kind == "character":
        return learn_characters(texts, config.vocabulary_size)
    serialized = learn_subwords(
        map(separated_by_spaces, texts) if config.kind == "word" else texts,
        config.kind,
        vocabulary_size=config.vocabulary_size,
        character_coverage=config.character_coverage,
        max_line_bytes=config.max_line_bytes,
        space_before=True,
    )
    return read_model(serialized)


def _read(path: Path, digests: Mapping[str, str] | None) -> TokenModel:
    return read_model_file(path, digests, running=False)
