"""The attention for one sentence with its words, as data: what pages and pictures are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.attention_page.kinds import KINDS, Head, Kind
from dragoman.text.words import Words


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token that could stand at a position, and how probable the model finds it."""

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Without:
    """What happens without one head.

    translation      the output of greedy search without the head
    log_probability  of the map's translation without the head, in nats
    """

    head: Head
    translation: str
    log_probability: float


@dataclass(frozen=True, kw_only=True)
class AttentionData:
    """Every weight of every head for one sentence and its translation.

    text, translation  as people write them
    source             the S tokens that the encoder reads, "</s>" at the end
    target             the T tokens that the decoder reads, "<s>" at the beginning: the queries and keys of its
                       self-attention
    predicted          the T tokens that it gives in their place, "</s>" at the end: what a row of the encoder-decoder
                       attention looked for
    encoder_self, decoder_self, encoder_decoder
                       the weights, [N, H, S, S], [N, H, T, T] and [N, H, T, S]; None where the architecture has none
    log_probability    of the translation, EOS included, in nats
    candidates         the most probable tokens at each of the T positions, if they were asked for
    without            what each single head does, if that was asked for
    with_all           what greedy search says with all heads, to compare the translations of `without` with
    right_to_left      the model writes the translation from its end: the tokens of target and predicted are in that
                       order
    """

    text: str
    translation: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    predicted: tuple[str, ...]
    encoder_self: AttentionArrays | None
    decoder_self: AttentionArrays | None
    encoder_decoder: AttentionArrays | None
    log_probability: float
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    without: tuple[Without, ...] = ()
    with_all: str = ""
    right_to_left: bool = False

    def kinds(self) -> Iterator[tuple[Kind, AttentionArrays]]:
        """Yield the kinds of attention that there are, with their arrays."""
        for kind in KINDS:
            arrays: AttentionArrays | None = getattr(self, kind)
            if arrays is not None:
                yield kind, arrays

    def queries(self, kind: Kind) -> tuple[str, ...]:
        """Return the tokens of the rows of its weights."""
        return {"encoder_self": self.source, "decoder_self": self.target, "encoder_decoder": self.predicted}[kind]

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """Return the tokens of the columns of its weights."""
        return self.target if kind == "decoder_self" else self.source

    def words(self) -> Self:
        """Return the same with subwords merged to words: weights to a word are summed, from a word averaged.

        What belongs to single tokens (details, candidates) is left out. <s> and </s> stay words of their own.
        """
        source = Words.of(self.source)
        target, predicted = (Words.of(row, right_to_left=self.right_to_left) for row in (self.target, self.predicted))

        def merged(arrays: AttentionArrays | None, queries: Words, keys: Words) -> AttentionArrays | None:
            return None if arrays is None else AttentionArrays(queries.mean(keys.sum(arrays.weights, -1), -2))

        return replace(
            self,
            source=source.texts,
            target=target.texts,
            predicted=predicted.texts,
            encoder_self=merged(self.encoder_self, source, source),
            decoder_self=merged(self.decoder_self, target, target),
            encoder_decoder=merged(self.encoder_decoder, predicted, source),
            candidates=(),
        )
