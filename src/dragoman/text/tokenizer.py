"""Text to subword ids and back, for a language pair.

Unigram language model by default (Kudo, 2018), byte-pair encoding by choice (Sennrich et al., 2016), and whole symbols
for text that is not written in words.
Text is neither normalised nor trimmed: every string of Unicode characters comes back as it went in
(a lone surrogate is not a character and comes back as U+FFFD).
"""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal, Self

import sentencepiece

from dragoman.errors import CorpusError, ModelError, SettingsError, UserError, reason_of
from dragoman.files import read_listed, write_atomically
from dragoman.text.subwords import BOS, EOS, PAD, UNK, SubwordModel, utf8
from dragoman.text.symbols import apart, read_model

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer", "TokenizerConfig", "train_tokenizer"]

_JOINT, _SOURCE, _TARGET = TOKENIZER_FILES = ("tokenizer.model", "tokenizer.source.model", "tokenizer.target.model")
# Half a million subwords.
LARGEST_TOKENIZER = 1 << 24

# The outcome of training depends on how many threads share the work, so it must not be the machine.
_TRAINING_THREADS = 8

# A source and its target, such as `data.readers.Pair`.
TextPair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How the subwords are learned.

    Attributes:
        kind: unigram language model, byte-pair encoding (bpe), or whole symbols (word): whatever stands between
            spaces is one token. Choose word for digits, letters or phonemes that stand apart: of "3 1 4" the others
            make two tokens for each digit, as they keep its space apart from it.
        vocabulary_size: subwords wanted, of each side when the vocabularies are separate. A corpus
            too small for so many gets fewer: `Tokenizer.source_size` has the true number.
        joint: one vocabulary for both languages, or one each.
        max_training_pairs: learn from a random sample of this many pairs if there are more; about 4 KB of memory
            for each.
        max_line_bytes: longer lines are not learned from (they are tokenized all the same).
        character_coverage: share of the characters in the sample that get subwords of their own;
            the rest is spelled in bytes. Of symbols, the most frequent ones get tokens, whatever their letters.
        right_to_left: the model writes a target from its last token to its first, whatever the script. Together with
            one that begins with the first it is usually better than either: see `dragoman.translation.two_directions`.
    """

    kind: Literal["unigram", "bpe", "word"] = "unigram"
    vocabulary_size: int = 8000
    joint: bool = True
    max_training_pairs: int = 100_000
    max_line_bytes: int = 4096
    character_coverage: float = 0.9995
    right_to_left: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("unigram", "bpe", "word"):
            raise SettingsError(f"tokenizer kind is {self.kind!r}; choose unigram, bpe or word")
        # 4 special symbols, 256 bytes, and some room for characters.
        if self.vocabulary_size < 300:
            raise SettingsError(f"vocabulary_size is {self.vocabulary_size}; it must be at least 300")
        if self.max_training_pairs < 1 or self.max_line_bytes < 1:
            raise SettingsError("max_training_pairs and max_line_bytes must be at least 1")
        if not 0.9 <= self.character_coverage <= 1:
            raise SettingsError(f"character_coverage is {self.character_coverage}; it must lie in 0.9 to 1")


class Tokenizer:
    """The subwords of a language pair. Rows of ids have no special symbols, going in or out.

    Args:
        source, target: the vocabularies; the same object twice means a joint one.
        right_to_left: rows of target ids begin with the last token of the text.
    """

    def __init__(self, source: SubwordModel, target: SubwordModel, *, right_to_left: bool = False) -> None:
        self._source = source
        self._target = target
        self.right_to_left = right_to_left
        self.joint = source is target
        self.source_size = source.size
        self.target_size = target.size

    @property
    def target_bytes(self) -> list[int]:
        """The target ids that spell in bytes what the vocabulary lacks."""
        return self._target.byte_ids

    @property
    def vocabulary_hash(self) -> str:
        """SHA-256 over the models: models with equal hashes speak the same ids, in whatever direction."""
        models = [self._source] if self.joint else [self._source, self._target]
        digests = (hashlib.sha256(model.serialized).digest() for model in models)
        return hashlib.sha256(b"".join(digests)).hexdigest()

    def encode_source(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Ids of each source line, encoded by `workers` threads."""
        return self._source.encode(lines, workers)

    def encode_target(self, lines: Sequence[str], workers: int = 1) -> list[list[int]]:
        """Ids of each target line, encoded by `workers` threads."""
        return self._ordered(self._target.encode(lines, workers))

    def sample_source(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Ids of one random segmentation of each source line; see `SubwordModel.sample`."""
        return self._source.sample(lines, alpha, seed)

    def sample_target(self, lines: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Ids of one random segmentation of each target line; see `SubwordModel.sample`."""
        return self._ordered(self._target.sample(lines, alpha, seed))

    def decode_source(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Source text of each row of ids."""
        return self._source.decode(ids)

    def decode_target(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Target text of each row of ids. It may contain any character, line feeds too."""
        return self._target.decode([row[::-1] for row in ids] if self.right_to_left else ids)

    def source_texts(self, ids: Sequence[int]) -> list[str]:
        """The text of each source id; see `SubwordModel.texts`."""
        return self._source.texts(ids)

    def target_texts(self, ids: Sequence[int]) -> list[str]:
        """The text of each target id; see `SubwordModel.texts`."""
        return self._target.texts(ids)

    def _ordered(self, rows: list[list[int]]) -> list[list[int]]:
        """Rows of target ids as the model writes them."""
        return [row[::-1] for row in rows] if self.right_to_left else rows

    def save(self, directory: Path) -> None:
        """Write tokenizer.model, or tokenizer.source.model and tokenizer.target.model."""
        directory.mkdir(parents=True, exist_ok=True)
        if self.joint:
            write_atomically(directory / _JOINT, self._source.serialized)
        else:
            write_atomically(directory / _SOURCE, self._source.serialized)
            write_atomically(directory / _TARGET, self._target.serialized)
            # A joint model of an earlier save would win over these when loading.
            (directory / _JOINT).unlink(missing_ok=True)

    @classmethod
    def load(cls, directory: Path, *, right_to_left: bool = False, digests: Mapping[str, str] | None = None) -> Self:
        """Read what `save` wrote, which does not say the direction.

        Args:
            directory: where it is.
            right_to_left: rows of target ids begin with the last token of the text.
            digests: of the files, as config.json lists them; None: they are not compared.

        Raises ModelError when a file is missing, damaged, or not the one that is listed.
        """
        if (directory / _JOINT).exists():
            model = _read(directory / _JOINT, digests)
            return cls(model, model, right_to_left=right_to_left)
        if not (directory / _SOURCE).exists():
            raise ModelError(f"{directory}: no {_JOINT} here; give a model directory")
        source, target = (_read(directory / name, digests) for name in (_SOURCE, _TARGET))
        return cls(source, target, right_to_left=right_to_left)


def train_tokenizer(pairs: Iterable[TextPair], config: TokenizerConfig) -> Tokenizer:
    """Learn subwords from `pairs`, read once. The same pairs and config give the same bytes.

    Raises CorpusError when there is no text, SettingsError when the vocabulary cannot hold the characters.
    """
    sample = _sample(pairs, config.max_training_pairs)
    if config.joint:
        model = _train((text for pair in sample for text in pair), config)
        return Tokenizer(model, model, right_to_left=config.right_to_left)
    source = _train((source for source, _ in sample), config)
    target = _train((target for _, target in sample), config)
    return Tokenizer(source, target, right_to_left=config.right_to_left)


def _sample(pairs: Iterable[TextPair], size: int) -> list[TextPair]:
    """`size` pairs at random, or all, in one pass (reservoir sampling; Vitter, 1985)."""
    generator = random.Random(0)
    sample: list[TextPair] = []
    for seen, pair in enumerate(pairs):
        if seen < size:
            sample.append(pair)
        elif (place := generator.randrange(seen + 1)) < size:
            sample[place] = pair
    return sample


def _train(texts: Iterable[str], config: TokenizerConfig) -> SubwordModel:
    written = BytesIO()
    if config.kind == "word":
        texts = map(apart, texts)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(utf8, texts),
            model_writer=written,
            model_type=config.kind,
            vocab_size=config.vocabulary_size,
            hard_vocab_limit=False,
            character_coverage=config.character_coverage,
            max_sentence_length=config.max_line_bytes,
            byte_fallback=True,
            # A number is copied digit by digit, whichever numbers the corpus happens to have.
            split_digits=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            num_threads=_TRAINING_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _training_failure(str(error), config) from error
    return read_model(written.getvalue())


def _training_failure(message: str, config: TokenizerConfig) -> UserError:
    if "smaller than required_chars" in message:
        return SettingsError(
            f"vocabulary_size {config.vocabulary_size} cannot hold the characters of this corpus; "
            "use a larger vocabulary_size or a smaller character_coverage"
        )
    if "sentences_.empty()" in message:
        return CorpusError(
            "no text to learn a tokenizer from: the corpus is empty, or all its lines are longer "
            f"than max_line_bytes = {config.max_line_bytes}"
        )
    return CorpusError(f"sentencepiece could not learn from this corpus: {message}")


def _read(path: Path, digests: Mapping[str, str] | None) -> SubwordModel:
    try:
        return read_model(read_listed(path, LARGEST_TOKENIZER, digests))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: the tokenizer cannot be read ({reason_of(error)}); copy the model anew") from error
