"""Which source word each target word comes from, by the encoder-decoder attention of a chosen head.

Every target word is joined to the source word that gets most of its attention (Bahdanau et al. 2015, section 5.2.1).
Which head shows that differs between models, so it is chosen on data (`choosing`) and kept beside the model (`heads`).
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

Found = TypeVar("Found")


@dataclass(frozen=True)
class TokenizedPair:
    """A source and a target: ids, and the words that their tokens make up, as white space parts them.

    right_to_left  target and target_words begin with the last of the text
    """

    source: list[int]
    target: list[int]
    source_words: Words
    target_words: Words
    right_to_left: bool = False

    @classmethod
    def of(cls, source: list[int], target: list[int], tokenizer: Tokenizer) -> Self:
        """Find the words of the ids."""
        return cls(
            source,
            target,
            Words.of(tokenizer.source_texts(source), only_spaces=True),
            Words.of(tokenizer.target_texts(target), only_spaces=True, right_to_left=tokenizer.right_to_left),
            tokenizer.right_to_left,
        )


def align(backend: TorchBackend, pairs: Sequence[TokenizedPair], by: AlignmentHead) -> list[list[Link]]:
    """Return the links of each pair by one head, in order. The backend has one model.

    Raises ModelError when the model has no such head.
    """
    return _from_attention(backend, pairs, lambda arrays, pair: links(arrays, pair, by))


def align_by_head(backend: TorchBackend, pairs: Sequence[TokenizedPair]) -> list[dict[AlignmentHead, list[Link]]]:
    """Return the links of each pair by every head, in order. The backend has one model.

    Raises ModelError when the model has no encoder-decoder attention.
    """
    return _from_attention(
        backend, pairs, lambda arrays, pair: {by: links(arrays, pair, by) for by in alignment_heads(arrays)}
    )


def links(arrays: AttentionArrays, pair: TokenizedPair, by: AlignmentHead) -> list[Link]:
    """Return (source word, target word), one for each target word.

    Raises ModelError when the model has no such head.
    """
    if not pair.source or not pair.target:
        return []
    layers, heads = arrays.weights.shape[:2]
    if not (0 <= by.layer < layers and (by.head is None or 0 <= by.head < heads)):
        raise ModelError(f"the model has no {by}; `dragoman align` finds one that it has")
    layer: Float[np.ndarray, "H T S"] = arrays.weights[by.layer]
    # [H, T, S] -> [T, S]
    weights = layer.mean(0) if by.head is None else layer[by.head]
    first = 1 if by.read else 0
    # Row t predicts token t and row t + 1 reads it; the last column is EOS, no word.
    weights = weights[first : first + len(pair.target), :-1]
    # [T, S] -> [target words, source words]
    weights = pair.target_words.mean(pair.source_words.sum(weights, 1), 0)
    if pair.right_to_left:
        weights = weights[::-1]
    return [(int(source), target) for target, source in enumerate(weights.argmax(1))]


def _from_attention(
    backend: TorchBackend, pairs: Sequence[TokenizedPair], use: Callable[[AttentionArrays, TokenizedPair], Found]
) -> list[Found]:
    """Return what `use` makes of the encoder-decoder attention of each pair, in order."""
    found: dict[int, Found] = {}
    for chosen in backend.batches([pair.source for pair in pairs], [pair.target for pair in pairs], width=1):
        some = [pairs[i] for i in chosen]
        arrays = _encoder_decoder_attention(backend.only_model, some)
        found.update((i, use(each, pair)) for i, each, pair in zip(chosen, arrays, some, strict=True))
    return [found[i] for i in range(len(pairs))]


def _encoder_decoder_attention(model: Seq2Seq, pairs: Sequence[TokenizedPair]) -> list[AttentionArrays]:
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    found = capture(model, sources, targets, kinds=["encoder_decoder"])
    arrays = [each.encoder_decoder for each in found if each.encoder_decoder is not None]
    if len(arrays) < len(pairs):
        raise ModelError("this model has no attention between target and source: there is nothing to align words by")
    return arrays
