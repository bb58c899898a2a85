"""Word alignment by encoder-decoder attention.

Every target word is linked to the source word that receives most of its attention (Bahdanau et al. 2015, section
5.2.1). The head with the best alignments differs between models, so it is selected on data (`head_ranking`) and stored
in the model directory (`heads`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from jaxtyping import Float

from dragoman.alignment.heads import AlignmentHead, alignment_heads
from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import ModelError
from dragoman.evaluation.alignment import Link
from dragoman.inspection.capture import capture
from dragoman.models.seq2seq import Seq2Seq
from dragoman.search.torch_backend import TorchBackend
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.words import Words

Result = TypeVar("Result")


@dataclass(frozen=True)
class TokenizedPair:
    """A source and a target: token ids, and the words that the tokens form.

    Attributes:
        source: source ids without special symbols.
        target: target ids without special symbols.
        source_words: words of the source, separated by spaces.
        target_words: words of the target, separated by spaces.
        right_to_left: True if `target` and `target_words` begin with the end of the text.
    """

    source: list[int]
    target: list[int]
    source_words: Words
    target_words: Words
    right_to_left: bool = False

    @classmethod
    def from_ids(cls, source: list[int], target: list[int], tokenizer: Tokenizer) -> Self:
        """Return a pair with the words of its ids."""
        return cls(
            source,
            target,
            Words.from_tokens(tokenizer.source_texts(source), only_spaces=True),
            Words.from_tokens(tokenizer.target_texts(target), only_spaces=True, right_to_left=tokenizer.right_to_left),
            tokenizer.right_to_left,
        )


def align(backend: TorchBackend, pairs: Sequence[TokenizedPair], head: AlignmentHead) -> list[list[Link]]:
    """Return the links of each pair according to one head, in order.

    Args:
        backend: a backend of one model.
        pairs: the pairs to align.
        head: the attention head.

    Raises:
        ModelError: if the model has no such head.
    """
    return _from_attention(backend, pairs, lambda arrays, pair: links(arrays, pair, head))


def align_by_head(backend: TorchBackend, pairs: Sequence[TokenizedPair]) -> list[dict[AlignmentHead, list[Link]]]:
    """Return the links of each pair according to every head, in order.

    Args:
        backend: a backend of one model.
        pairs: the pairs to align.

    Raises:
        ModelError: if the model has no encoder-decoder attention.
    """
    return _from_attention(
        backend, pairs, lambda arrays, pair: {head: links(arrays, pair, head) for head in alignment_heads(arrays)}
    )


def links(arrays: AttentionArrays, pair: TokenizedPair, head: AlignmentHead) -> list[Link]:
    """Return one link (source word, target word) for each target word.

    Args:
        arrays: the encoder-decoder attention of the pair.
        pair: the pair.
        head: the attention head.

    Raises:
        ModelError: if the model has no such head.
    """
    if not pair.source or not pair.target:
        return []
    layers, heads = arrays.weights.shape[:2]
    if not (0 <= head.layer < layers and (head.head is None or 0 <= head.head < heads)):
        raise ModelError(f"the model has no {head}; select another head with `dragoman align`")
    layer: Float[np.ndarray, "H T S"] = arrays.weights[head.layer]
    # [H, T, S] -> [T, S]
    weights = layer.mean(0) if head.head is None else layer[head.head]
    first = 1 if head.from_input else 0
    # Row t predicts token t, and token t is the input of row t + 1. The last column is EOS, which is no word.
    weights = weights[first : first + len(pair.target), :-1]
    # [T, S] -> [target words, source words]
    weights = pair.target_words.mean(pair.source_words.sum(weights, 1), 0)
    if pair.right_to_left:
        weights = weights[::-1]
    return [(int(source), target) for target, source in enumerate(weights.argmax(1))]


def _from_attention(
    backend: TorchBackend, pairs: Sequence[TokenizedPair], function: Callable[[AttentionArrays, TokenizedPair], Result]
) -> list[Result]:
    """Return the results of a function of the encoder-decoder attention of each pair, in order."""
    results: dict[int, Result] = {}
    for indices in backend.batches([pair.source for pair in pairs], [pair.target for pair in pairs], width=1):
        batch = [pairs[i] for i in indices]
        attention = _encoder_decoder_attention(backend.only_model, batch)
        results.update((i, function(arrays, pair)) for i, arrays, pair in zip(indices, attention, batch, strict=True))
    return [results[i] for i in range(len(pairs))]


def _encoder_decoder_attention(model: Seq2Seq, pairs: Sequence[TokenizedPair]) -> list[AttentionArrays]:
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    captured = capture(model, sources, targets, kinds=["encoder_decoder"])
    arrays = [pair.encoder_decoder for pair in captured if pair.encoder_decoder is not None]
    if len(arrays) < len(pairs):
        raise ModelError("this model has no attention between target and source, so it cannot align words")
    return arrays
