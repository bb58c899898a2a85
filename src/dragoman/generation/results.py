"""Results of a `Generator`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

# Why a continuation ends: the model predicted the end of the text, a stop string occurred, or the largest number of
# tokens was reached.
End = Literal["model", "stop", "length"]


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One continuation of a prompt.

    Attributes:
        text: the text after the prompt; it does not contain the stop string.
        tokens: number of tokens that were chosen, without the end of the text.
        log_probability: natural logarithm of the model's probability of these tokens, and of the end of the text if the
            model predicted it.
        end: why the continuation ends.

    Example:
        >>> from dragoman import Generator
        >>> [generation] = Generator.load("models/shakespeare").generate("ROMEO:")
        >>> generation.end in ("model", "stop", "length")
        True
    """

    text: str
    tokens: int
    log_probability: float
    end: End


@dataclass(frozen=True, kw_only=True)
class Piece:
    """The next piece of one of the continuations.

    Attributes:
        number: number of the continuation, from 0.
        text: the piece, which may be empty; the pieces of a continuation form its text.
        tokens: number of tokens that were chosen since the piece before.
        generation: the complete continuation, in its last piece; else None.
    """

    number: int
    text: str
    tokens: int
    generation: Generation | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How well a language model predicts a text.

    Each token is predicted once, from the tokens before it in its document. The end of each document is predicted, too.

    Attributes:
        nats: sum of the negative natural logarithms of the probabilities of all tokens.
        tokens: number of tokens, including the end of each document.
        characters: number of characters (code points).
        bytes: number of bytes in UTF-8.
        documents: number of documents.
        context: largest number of tokens from which a token is predicted; None if it is all of the document.
        stride: number of tokens by which windows of `context` tokens are apart; None without windows.
        engine: description of the engine.
        seconds: duration of the computation.

    Example:
        >>> from dragoman import Generator
        >>> evaluation = Generator.load("models/shakespeare").evaluate("To be, or not to be: that is the question.")
        >>> evaluation.characters, evaluation.tokens
        (42, 43)
    """

    nats: float
    tokens: int
    characters: int
    bytes: int
    documents: int
    context: int | None
    stride: int | None
    engine: str
    seconds: float

    @property
    def nats_per_token(self) -> float:
        """The mean loss; it depends on the tokenizer."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """The perplexity per token, exp(nats per token); infinite if it exceeds the largest number."""
        try:
            return math.exp(self.nats_per_token)
        except OverflowError:
            return math.inf

    @property
    def bits_per_character(self) -> float:
        """Number of bits with which the model encodes a character; tokenizers can be compared by it."""
        return self.nats / math.log(2) / self.characters

    @property
    def bits_per_byte(self) -> float:
        """Number of bits with which the model encodes a byte of UTF-8; tokenizers can be compared by it."""
        return self.nats / math.log(2) / self.bytes

    @property
    def tokens_per_second(self) -> float:
        """Number of tokens evaluated per second."""
        return self.tokens / self.seconds

    def to_json(self) -> dict[str, Any]:
        """Return all values as plain numbers and strings; a perplexity that is infinite is None."""
        perplexity = self.perplexity
        return {
            "nats_per_token": self.nats_per_token,
            "perplexity": perplexity if math.isfinite(perplexity) else None,
            "bits_per_character": self.bits_per_character,
            "bits_per_byte": self.bits_per_byte,
            "nats": self.nats,
            "tokens": self.tokens,
            "characters": self.characters,
            "bytes": self.bytes,
            "documents": self.documents,
            "context": self.context,
            "stride": self.stride,
            "engine": self.engine,
            "tokens_per_second": self.tokens_per_second,
        }
