"""How probable each target token is as a translation of each source token, learnt from pairs alone; links by that.

IBM Model 1 (Brown et al., "The Mathematics of Statistical Machine Translation", 1993, equation 17).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import CorpusError
from dragoman.evaluation.alignment import Link

ROUNDS = 5
# How strongly words near the diagonal are preferred (λ of Dyer et al. 2013, at its usual starting point).
DIAGONAL = 4.0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lexicon:
    """p(target token | source token) of the pairs of tokens that occur in some sentence together.

    codes          [E]  s·2³² + t, ascending
    probabilities  [E]  those of one s sum to 1
    """

    codes: Ints
    probabilities: Floats

    @property
    def sources(self) -> Ints:
        """[E], s of every entry, ascending."""
        return self.codes >> 32

    def of(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        """[S, T], p(target[t] | source[s]); 0 for what never occurred together."""
        # [S, 1] + [T] -> [S, T]
        wanted = (np.asarray(source, dtype=np.int64) << 32)[:, None] + np.asarray(target, dtype=np.int64)
        place = np.searchsorted(self.codes, wanted).clip(max=len(self.codes) - 1)
        return np.where(self.codes[place] == wanted, self.probabilities[place], 0.0)


def learn_lexicon(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    source_vocabulary: int,
    *,
    on_progress: Callable[[int, float], None] | None = None,
) -> Lexicon:
    """Learn from pairs of ids below 2³¹, of which some have tokens on both sides.

    `on_progress` is called with the log-likelihood of a target token after each round of expectation and maximisation.
    """
    # One entry for each source and target token of a pair: 8 bytes of code, 8 of place.
    code, token, lengths = _pairs_of_tokens(sources, targets)
    unique, entry = np.unique(code, return_inverse=True)
    source_of = unique >> 32
    probability: Floats = np.ones(len(unique))
    for number in range(ROUNDS):
        probability /= np.bincount(source_of, probability, minlength=source_vocabulary)[source_of]
        weight = probability[entry]
        # P(t_j | source) = Σ_i p(t_j | s_i) / S: how much of each target token each source token explains.
        explained = np.bincount(token, weight)
        if on_progress is not None:
            on_progress(number + 1, float(np.log(explained / lengths).mean()))
        expected = np.bincount(entry, weight / explained[token], minlength=len(unique))
        probability = np.asarray(expected, dtype=np.float64)
    probability /= np.bincount(source_of, probability, minlength=source_vocabulary)[source_of]
    return Lexicon(unique, probability)


def _pairs_of_tokens(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """For every pair of tokens its code s·2³² + t and the number of its target token; for every token, S."""
    codes, tokens, lengths, count = [], [], [], 0
    for source, target in zip(sources, targets, strict=True):
        if not source or not target:
            continue
        s, t = np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64)
        # [T, 1] + [S] -> [T, S] -> [T * S]
        codes.append(((s << 32) + t[:, None]).ravel())
        tokens.append(np.repeat(np.arange(count, count + len(t)), len(s)))
        lengths.append(np.full(len(t), float(len(s))))
        count += len(t)
    return np.concatenate(codes), np.concatenate(tokens), np.concatenate(lengths)


def lexical_links(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], wanted: int) -> list[frozenset[Link]]:
    """Return links of the first `wanted` pairs of words that are fairly sure: what two lexicons agree on.

    One says which source word a target word comes from, the other the reverse; both are learnt from all pairs, and
    prefer words near the diagonal (Dyer et al., "A Simple, Fast, and Effective Reparameterization of IBM Model 2",
    2013).

    Raises CorpusError when no pair has words on both sides.
    """
    if not any(source and target for source, target in pairs):
        raise CorpusError("no pair has words on both sides: there is nothing to learn an alignment from")
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
    """Return words, whatever their case, as numbers from 0; and how many there are."""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word.lower(), len(numbers)) for word in sentence] for sentence in sentences]
    return rows, len(numbers)
