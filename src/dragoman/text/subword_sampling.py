"""Random segmentations of text: subword regularisation.

Sentencepiece draws them as well, but since its version 0.2.2 differently in every process, whatever the seed: a resumed
run would not equal an uninterrupted one.
"""

import math
import random
import re
from collections.abc import Mapping
from itertools import accumulate, pairwise

from dragoman.text.characters import SPACE_MARK

# Stands for that character in a text itself: a lone surrogate, which no text has that can be written in UTF-8.
_NO_SPACE = "\udc00"
# A space begins a word, and no subword goes on beyond a word's end.
_WORD = re.compile(f"{SPACE_MARK}[^{SPACE_MARK}]*")
# Words whose lattice is kept.
_WORDS_KEPT = 50_000

# For each end in a word: the running sum of the weights of the subwords that end there, and their (start, ids).
Lattice = list[tuple[list[float], list[tuple[int, list[int]]]]]


class SegmentationSampler:
    """Draws segmentations of the subwords of one vocabulary.

    Args:
        scores: subword -> (id, log-probability, or for byte-pair encoding minus the rank of its merge).
        byte_ids: of the 256 subwords that spell what the vocabulary lacks.
        merges: whether the vocabulary is one of byte-pair encoding.
    """

    def __init__(self, scores: Mapping[str, tuple[int, float]], byte_ids: list[int], *, merges: bool) -> None:
        self._scores = scores
        self._byte_ids = byte_ids
        self._merges = merges
        self._longest = max(map(len, scores), default=1)
        self._lattices: dict[tuple[str, float], Lattice] = {}

    def sample(self, text: str, alpha: float, draw: random.Random) -> list[int]:
        """One random segmentation of `text`, which has no lone surrogates, as ids.

        Unigram: drawn in proportion to probability ** alpha among all segmentations (Kudo, 2018, equation 4).
        Byte-pair encoding: merges left out with probability alpha (Provilkov et al., 2020, algorithm 1).
        """
        if not text:
            return []
        marked = SPACE_MARK + text.replace(SPACE_MARK, _NO_SPACE).replace(" ", SPACE_MARK)
        ids: list[int] = []
        for word in _WORD.findall(marked):
            ids += self._merged(word, alpha, draw) if self._merges else self._drawn(word, alpha, draw)
        return ids

    def _drawn(self, word: str, alpha: float, draw: random.Random) -> list[int]:
        """Backward sampling: the last subword, the one before it, and so on."""
        lattice = self._lattices.get((word, alpha))
        if lattice is None:
            if len(self._lattices) >= _WORDS_KEPT:
                self._lattices.clear()
            lattice = self._lattices[word, alpha] = self._lattice(word, alpha)
        chosen: list[list[int]] = []
        end = len(word)
        while end > 0:
            sums, edges = lattice[end]
            end, ids = edges[0] if len(edges) == 1 else draw.choices(edges, cum_weights=sums)[0]
            chosen.append(ids)
        return [index for ids in reversed(chosen) for index in ids]

    def _lattice(self, word: str, alpha: float) -> Lattice:
        """Forward filtering: the weight of all segmentations of each beginning of the word."""
        total = [0.0]  # logarithms
        lattice: Lattice = [([], [])]
        for end in range(1, len(word) + 1):
            weights, edges = [], []
            for start in range(max(0, end - self._longest), end):
                found = self._scores.get(word[start:end])
                if found is not None:
                    weights.append(total[start] + alpha * found[1])
                    edges.append((start, [found[0]]))
            if not edges:
                weights, edges = [total[end - 1]], [(end - 1, self._spelled(word[end - 1]))]
            largest = max(weights)
            sums = list(accumulate(math.exp(weight - largest) for weight in weights))
            total.append(largest + math.log(sums[-1]))
            lattice.append((sums, edges))
        return lattice

    def _merged(self, word: str, alpha: float, draw: random.Random) -> list[int]:
        """Merge the best pair of neighbours, among those not left out this time, until none is left."""
        symbols = list(word)
        while True:
            best, place = -math.inf, -1
            for i, pair in enumerate(pairwise(symbols)):
                found = self._scores.get(pair[0] + pair[1])
                if found is not None and found[1] > best and draw.random() >= alpha:
                    best, place = found[1], i
            if place < 0:
                break
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
        ids: list[int] = []
        for symbol in symbols:
            ids += [self._scores[symbol][0]] if symbol in self._scores else self._spelled(symbol)
        return ids

    def _spelled(self, letter: str) -> list[int]:
        """A letter that the vocabulary lacks, in UTF-8 bytes."""
        letter = SPACE_MARK if letter == _NO_SPACE else letter
        return [self._byte_ids[byte] for byte in letter.encode()]
