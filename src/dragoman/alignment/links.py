"""Which source word each target word comes from, by the encoder-decoder attention of a chosen head.

Every target word is joined to the source word that gets most of its attention (Bahdanau et al. 2015, section 5.2.1).
Which head shows that differs between models, so it is chosen on data (`dragoman align`) and kept beside the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from jaxtyping import Float

from dragoman.alignment.lexicon import learn_lexicon
from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import UserError
from dragoman.files import write_atomically
from dragoman.inspection.capture import capture
from dragoman.models.seq2seq import Seq2Seq
from dragoman.search.torch_backend import TorchBackend
from dragoman.settings import from_mapping
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.words import Words

ALIGNMENT_FILE = "alignment.json"
# How strongly words near the diagonal are preferred (λ of Dyer et al. 2013, at its usual starting point).
DIAGONAL = 4.0

Aligned = TypeVar("Aligned")
Link = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class AlignmentHead:
    """Where to look for the alignment; layer and head count from 0.

    head  None: the mean of the layer's heads
    read  look from where the target token is read, which knows the token, and not from where it is predicted, which is
          one position earlier (Chen et al., "Accurate Word Alignment Induction from Neural Machine Translation", 2020)
    """

    layer: int
    head: int | None
    read: bool

    def __str__(self) -> str:
        head = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {head}, where a token is {'read' if self.read else 'predicted'}"

    def save(self, directory: Path) -> None:
        """Write it beside a model."""
        write_atomically(directory / ALIGNMENT_FILE, (json.dumps(asdict(self)) + "\n").encode())

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the one beside a model; UserError when there is none, or it is damaged."""
        path = directory / ALIGNMENT_FILE
        try:
            mapping = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"{directory} does not say which head aligns words: `dragoman align` finds it on a corpus"
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{path} cannot be read: {error}; `dragoman align` writes it anew") from error
        if not isinstance(mapping, dict):
            raise UserError(f"{path} is not a JSON object; `dragoman align` writes it anew")
        return from_mapping(cls, mapping, str(path))


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
        """The ids with their words."""
        return cls(
            source,
            target,
            Words.of(tokenizer.source_texts(source), only_spaces=True),
            Words.of(tokenizer.target_texts(target), only_spaces=True, right_to_left=tokenizer.right_to_left),
            tokenizer.right_to_left,
        )


def alignment_heads(arrays: AttentionArrays) -> Iterator[AlignmentHead]:
    """Everything that can be chosen of an encoder-decoder attention."""
    layers, heads = arrays.weights.shape[:2]
    for layer in range(layers):
        for head in [*range(heads), *([None] if heads > 1 else [])]:
            for read in (False, True):
                yield AlignmentHead(layer=layer, head=head, read=read)


def encoder_decoder_attention(model: Seq2Seq, pairs: Sequence[TokenizedPair]) -> list[AttentionArrays]:
    """The encoder-decoder attention of each pair; UserError when the model has none."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    found = capture(model, sources, targets, kinds=["encoder_decoder"])
    arrays = [each.encoder_decoder for each in found if each.encoder_decoder is not None]
    if len(arrays) < len(pairs):
        raise UserError("this model has no attention between target and source: there is nothing to align words by")
    return arrays


def align(
    backend: TorchBackend, pairs: Sequence[TokenizedPair], use: Callable[[AttentionArrays, TokenizedPair], Aligned]
) -> list[Aligned]:
    """Return what `use` makes of the encoder-decoder attention of each pair, in order.

    Raises UserError when there are several models, or the model has no such attention.
    """
    found: dict[int, Aligned] = {}
    for chosen in backend.batches([pair.source for pair in pairs], [pair.target for pair in pairs], width=1):
        some = [pairs[i] for i in chosen]
        arrays = encoder_decoder_attention(backend.only_model, some)
        found.update((i, use(each, pair)) for i, each, pair in zip(chosen, arrays, some, strict=True))
    return [found[i] for i in range(len(pairs))]


def links(arrays: AttentionArrays, pair: TokenizedPair, by: AlignmentHead) -> list[Link]:
    """(source word, target word), one for each target word.

    Raises UserError when the model has no such head.
    """
    if not pair.source or not pair.target:
        return []
    layers, heads = arrays.weights.shape[:2]
    if not (0 <= by.layer < layers and (by.head is None or 0 <= by.head < heads)):
        raise UserError(f"the model has no {by}; `dragoman align` finds one that it has")
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


def lexical_links(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], wanted: int) -> list[frozenset[Link]]:
    """Links of the first `wanted` pairs of words that are fairly sure: what two lexicons agree on.

    One says which source word a target word comes from, the other the reverse; both are learnt from all pairs, and
    prefer words near the diagonal (Dyer et al., "A Simple, Fast, and Effective Reparameterization of IBM Model 2",
    2013).

    Raises UserError when no pair has words on both sides.
    """
    if not any(source and target for source, target in pairs):
        raise UserError("no pair has words on both sides: there is nothing to learn an alignment from")
    sources, source_size = _numbered([source for source, _ in pairs])
    targets, target_size = _numbered([target for _, target in pairs])
    forward = learn_lexicon(sources, targets, source_size)
    backward = learn_lexicon(targets, sources, target_size)
    found = []
    for source, target in zip(sources[:wanted], targets[:wanted], strict=True):
        if not source or not target:
            found.append(frozenset[Link]())
            continue
        s, t = np.arange(len(source)) / len(source), np.arange(len(target)) / len(target)
        near = np.exp(-DIAGONAL * np.abs(s[:, None] - t))
        from_source = (forward.of(source, target) * near).argmax(0)
        from_target = (backward.of(target, source).T * near).argmax(1)
        found.append(frozenset((int(s), t) for t, s in enumerate(from_source) if from_target[s] == t))
    return found


def _numbered(sentences: Sequence[Sequence[str]]) -> tuple[list[list[int]], int]:
    """Words, whatever their case, as numbers from 0; and how many there are."""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word.lower(), len(numbers)) for word in sentence] for sentence in sentences]
    return rows, len(numbers)
