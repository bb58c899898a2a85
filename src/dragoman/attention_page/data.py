"""The attention for one sentence and its tokens: the data for pages and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.attention_page.kinds import KINDS, NAMES, NAMES_IN_TEXT, Head, Kind
from dragoman.text.words import Words


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A possible token at a position of the output, with its probability under the model."""

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class HeadAblation:
    """Result of switching one head off.

    Attributes:
        head: the head that is switched off.
        translation: output of greedy search without the head; of a model of one text, its predictions without the head.
        log_probability: log-probability in nats, without the head, of the translation or text that the map shows.
    """

    head: Head
    translation: str
    log_probability: float


@dataclass(frozen=True, kw_only=True)
class AttentionData:
    """Attention weights of all heads for one sentence and its translation, or for one text.

    A language model reads `target` and has `decoder_self` only, an encoder reads `source` and has `encoder_self` only;
    the other side is empty. What they predict is in `predicted` and `candidates`: a language model predicts the next
    token after each position, an encoder predicts each token from the others. A decoder-only translation model reads
    the source and the translation as a language model reads a text.

    Attributes:
        text: the source text.
        translation: the translation, as text; for one text, the most probable token at each position, as text.
        source: the S tokens of the encoder's input, with "</s>" at the end.
        target: the T tokens of the decoder's input, with "<s>" at the start: queries and keys of its self-attention.
        predicted: the T tokens of the decoder's output, with "</s>" at the end: the queries of the encoder-decoder
            attention, labelled with the token that is predicted at each position. For one text, the tokens of the text.
        encoder_self: encoder self-attention, weights [N, H, S, S]; None if the architecture has none.
        decoder_self: decoder self-attention, weights [N, H, T, T]; or None.
        encoder_decoder: encoder-decoder attention, weights [N, H, T, S]; or None.
        log_probability: log-probability of the translation in nats, including EOS, or of the text, without EOS; None if
            the model predicts no tokens.
        candidates: the most probable tokens in place of each of the `predicted` tokens, if requested; in the last entry
            of a language model, after the text.
        without: the result of switching off each head separately, if requested.
        with_all: output of greedy search with all heads, for comparison with the translations in `without`.
        decoder_only: True for a decoder-only translation model: `target` is the source and the translation.
        right_to_left: True if the model writes the translation from its last token to its first; the tokens in `target`
            and `predicted` are in that order.
    """

    text: str
    translation: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    predicted: tuple[str, ...]
    encoder_self: AttentionArrays | None
    decoder_self: AttentionArrays | None
    encoder_decoder: AttentionArrays | None
    log_probability: float | None
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    without: tuple[HeadAblation, ...] = ()
    with_all: str = ""
    decoder_only: bool = False
    right_to_left: bool = False

    @property
    def is_text(self) -> bool:
        """True if the model reads one text: there is no attention between two sides."""
        return not (self.source and self.target)

    @property
    def names(self) -> dict[Kind, str]:
        """Names of the kinds of attention."""
        return NAMES_IN_TEXT if self.is_text else NAMES

    @property
    def main_kind(self) -> Kind:
        """The kind of attention that a picture shows by default."""
        return next(kind for kind, _ in self.kinds()) if self.is_text else "encoder_decoder"

    def kinds(self) -> Iterator[tuple[Kind, AttentionArrays]]:
        """Yield the kinds of attention that the model has, with their arrays."""
        for kind in KINDS:
            arrays: AttentionArrays | None = getattr(self, kind)
            if arrays is not None:
                yield kind, arrays

    def queries(self, kind: Kind) -> tuple[str, ...]:
        """Return the tokens for the rows of the weights."""
        return {"encoder_self": self.source, "decoder_self": self.target, "encoder_decoder": self.predicted}[kind]

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """Return the tokens for the columns of the weights."""
        return self.target if kind == "decoder_self" else self.source

    def words(self) -> Self:
        """Return the attention between words instead of subwords.

        The weights of the subwords of an attended word are summed, and the weights from the subwords of an attending
        word are averaged. "<s>" and "</s>" count as words. Details and candidates, which belong to single tokens, are
        left out.
        """
        source = Words.from_tokens(self.source)
        target, predicted = (
            Words.from_tokens(row, right_to_left=self.right_to_left) for row in (self.target, self.predicted)
        )

        def merge(arrays: AttentionArrays | None, queries: Words, keys: Words) -> AttentionArrays | None:
            return None if arrays is None else AttentionArrays(queries.mean(keys.sum(arrays.weights, -1), -2))

        return replace(
            self,
            source=source.texts,
            target=target.texts,
            predicted=predicted.texts,
            encoder_self=merge(self.encoder_self, source, source),
            decoder_self=merge(self.decoder_self, target, target),
            encoder_decoder=merge(self.encoder_decoder, predicted, source),
            candidates=(),
        )
