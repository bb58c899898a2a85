"""Random segmentation of text into subwords (subword regularisation).

Sentencepiece also samples segmentations, but since version 0.2.2 its samples differ between processes for the same
seed, so that a resumed run would not equal an uninterrupted one.
"""

import math
import random
import re
from collections.abc import Mapping
from itertools import accumulate, pairwise

from dragoman.text.characters import SPACE_MARK

# Represents the space mark that occurs in the text itself: a lone surrogate, which cannot occur in valid text.
_NO_SPACE = "\udc00"
# A word begins with a space, and no subword extends beyond the end of a word.
_WORD = re.compile(f"{SPACE_MARK}[^{SPACE_MARK}]*")
# Capacity of the cache of lattices.
_WORDS_KEPT = 50_000

# For each end position in a word: the cumulative weights of the subwords that end there, and their (start, ids).
Lattice = list[tuple[list[float], list[tuple[int, list[int]]]]]


class SegmentationSampler:
    """Sampler of segmentations into the subwords of one vocabulary.

    Args:
        scores: for each subword its id and its log-probability; in byte-pair encoding, the negative rank of its merge.
        byte_ids: ids of the 256 byte symbols, which represent text that the vocabulary lacks.
        merges: True if the vocabulary was learned by byte-pair encoding, False for a unigram language model.
    """

    def __init__(self, scores: Mapping[str, tuple[int, float]], byte_ids: list[int], *, merges: bool) -> None:
        self._scores = scores
        self._byte_ids = byte_ids
        self._merges = merges
        self._longest = max(map(len, scores), default=1)
        self._lattices: dict[tuple[str, float], Lattice] = {}

    def sample(self, text: str, alpha: float, draw: random.Random) -> list[int]:
        """Return the ids of one random segmentation of `text`.

        Unigram language model: the probability of a segmentation is proportional to p ** alpha, where p is its
        probability under the model (Kudo, 2018, equation 4). Byte-pair encoding: each merge is skipped with probability
        alpha (Provilkov et al., 2020, algorithm 1).

        Args:
            text: the text, without lone surrogates.
            alpha: smoothing exponent, or probability of skipping a merge.
            draw: random number generator.
        """
        if not text:
            return []
        marked = SPACE_MARK + text.replace(SPACE_MARK, _NO_SPACE).replace(" ", SPACE_MARK)
        ids: list[int] = []
        for word in _WORD.findall(marked):
            ids += self._sample_merges(word, alpha, draw) if self._merges else self._sample_unigram(word, alpha, draw)
        return ids

    def _sample_unigram(self, word: str, alpha: float, draw: random.Random) -> list[int]:
        """Sample the subwords of a word backward, from the last one to the first."""
        lattice = self._lattices.get((word, alpha))
        if lattice is None:
            if len(self._lattices) >= _WORDS_KEPT:
                self._lattices.clear()
            lattice = self._lattices[word, alpha] = self._lattice(word, alpha)
        subwords: list[list[int]] = []
        end = len(word)
        while end > 0:
            sums, edges = lattice[end]
            end, ids = edges[0] if len(edges) == 1 else draw.choices(edges, cum_weights=sums)[0]
            subwords.append(ids)
        return [index for ids in reversed(subwords) for index in ids]

    def _lattice(self, word: str, alpha: float) -> Lattice:
        """Return the lattice of a word, by forward filtering: sum the weights of all segmentations of each prefix."""
        total = [0.0]  # logarithm of the total weight of each prefix
        lattice: Lattice = [([], [])]
        for end in range(1, len(word) + 1):
            weights, edges = [], []
            for start in range(max(0, end - self._longest), end):
                entry = self._scores.get(word[start:end])
                if entry is not None:
                    index, score = entry
                    weights.append(total[start] + alpha * score)
                    edges.append((start, [index]))
            if not edges:
                weights, edges = [total[end - 1]], [(end - 1, self._bytes_of(word[end - 1]))]
            largest = max(weights)
            sums = list(accumulate(math.exp(weight - largest) for weight in weights))
            total.append(largest + math.log(sums[-1]))
            lattice.append((sums, edges))
        return lattice

    def _sample_merges(self, word: str, alpha: float, draw: random.Random) -> list[int]:
        """Repeatedly merge the adjacent symbols with the best merge that is not skipped, until there is none."""
        symbols = list(word)
        while True:
            best, position = -math.inf, -1
            for i, (left, right) in enumerate(pairwise(symbols)):
                entry = self._scores.get(left + right)
                if entry is not None and entry[1] > best and draw.random() >= alpha:
                    best, position = entry[1], i
            if position < 0:
                break
            symbols[position : position + 2] = [symbols[position] + symbols[position + 1]]
        ids: list[int] = []
        for symbol in symbols:
            ids += [self._scores[symbol][0]] if symbol in self._scores else self._bytes_of(symbol)
        return ids

    def _bytes_of(self, letter: str) -> list[int]:
        """Return the byte symbols of a character that the vocabulary lacks."""
        letter = SPACE_MARK if letter == _NO_SPACE else letter
        return [self._byte_ids[byte] for byte in letter.encode()]
