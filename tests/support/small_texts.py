"""A small corpus of running text, vocabularies learned from it, and streams of tokens in memory."""

import functools
import random
from collections.abc import Sequence
from typing import Literal

import numpy as np

from dragoman.data.token_stream import StreamMeta, TokenStream
from dragoman.text.subwords import BOS, EOS
from dragoman.text.vocabulary import Vocabulary, VocabularyConfig, train_vocabulary

Kind = Literal["unigram", "bpe", "character", "byte"]
KINDS: tuple[Kind, ...] = ("unigram", "bpe", "character", "byte")

_WORDS = ("the", "old", "king", "spoke", "and", "no", "sea", "was", "as", "tall", "naïve", "crown")


@functools.cache
def small_text(lines: int = 200) -> str:
    """Return lines of random words; every tenth line is empty."""
    draw = random.Random(0)
    return "".join(
        " ".join(draw.choices(_WORDS, k=draw.randint(3, 9))) * (number % 10 > 0) + "\n" for number in range(lines)
    )


@functools.cache
def small_vocabulary(kind: Kind = "character") -> Vocabulary:
    """Return a vocabulary of the small text."""
    return train_vocabulary([small_text()], VocabularyConfig(kind=kind, vocabulary_size=320))


def stream_of(documents: Sequence[Sequence[int]]) -> TokenStream:
    """Return the stream of documents given by their ids, without special symbols."""
    rows = [[BOS, *document, EOS] for document in documents]
    lengths = [len(row) for row in rows]
    meta = StreamMeta(tokens=sum(lengths), documents=len(rows), characters=0, bytes=0, vocabulary_hash="")
    return TokenStream(meta, np.array([index for row in rows for index in row], np.uint16), _starts(lengths), ())


def _starts(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
