"""Translation probabilities of tokens, learned from pairs by IBM Model 1, and word alignment with them.

IBM Model 1 (Brown et al., "The Mathematics of Statistical Machine Translation", 1993, equation 17) is trained by
expectation maximisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import CorpusError
from dragoman.evaluation.alignment import Link

ITERATIONS = 5
# Strength of the preference for words near the diagonal (λ of Dyer et al. 2013, at its usual initial value).
DIAGONAL = 4.0

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lexicon:
    """p(target token | source token), for all pairs of tokens that occur in the same sentence pair.

    Attributes:
        codes: [E], s·2³² + t of each entry (source token s, target token t), ascending.
        probabilities: [E]; those of one source token sum to 1.
    """

    codes: Ints
    probabilities: Floats

    @property
    def sources(self) -> Ints:
        """[E], the source token of each entry, ascending."""
        return self.codes >> 32

    def probabilities_of(self, source: Sequence[int], target: Sequence[int]) -> Floats:
        """Return [S, T], p(target[t] | source[s]); 0 for tokens that never occurred together."""
        # [S, 1] + [T] -> [S, T]
        codes = (np.asarray(source, dtype=np.int64) << 32)[:, None] + np.asarray(target, dtype=np.int64)
        entries = np.searchsorted(self.codes, codes).clip(max=len(self.codes) - 1)
        return np.where(self.codes[entries] == codes, self.probabilities[entries], 0.0)


def learn_lexicon(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    source_vocabulary: int,
    *,
    on_progress: Callable[[int, float], None] | None = None,
) -> Lexicon:
    """Learn a lexicon from pairs of token ids.

    Args:
        sources: source ids of each pair, below 2³¹.
        targets: target ids of each pair, below 2³¹. At least one pair must have tokens on both sides.
        source_vocabulary: number of source tokens.
        on_progress: called after each iteration of expectation maximisation with its number and the mean
            log-likelihood of a target token.

    Returns:
        The lexicon.
    """
    # One entry for each source and target token of a pair: 8 bytes for its code, 8 for its index.
    code, token, lengths = _pairs_of_tokens(sources, targets)
    unique, entry = np.unique(code, return_inverse=True)
    source_of = unique >> 32
    probability: Floats = np.ones(len(unique))
    for number in range(ITERATIONS):
        probability /= np.bincount(source_of, probability, minlength=source_vocabulary)[source_of]
        weight = probability[entry]
        # P(t_j | source) = Σ_i p(t_j | s_i) / S; here without the division.
        likelihood = np.bincount(token, weight)
        if on_progress is not None:
            on_progress(number + 1, float(np.log(likelihood / lengths).mean()))
        expected = np.bincount(entry, weight / likelihood[token], minlength=len(unique))
        probability = np.asarray(expected, dtype=np.float64)
    probability /= np.bincount(source_of, probability, minlength=source_vocabulary)[source_of]
    return Lexicon(unique, probability)


def _pairs_of_tokens(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Return all pairs of a source and a target token of the same sentence pair.

    Returns:
        For each such pair, its code s·2³² + t and the index of its target token in the corpus; for each target token of
        the corpus, the length of its source sentence.
    """
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


def lexical_links(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], count: int) -> list[frozenset[Link]]:
    """Return the alignment links on which lexicons of both directions agree.

    One lexicon links each target word to a source word, the other each source word to a target word. Both prefer words
    near the diagonal (Dyer et al., "A Simple, Fast, and Effective Reparameterization of IBM Model 2", 2013).

    Args:
        pairs: source words and target words of each pair; the lexicons are learned from all pairs.
        count: number of leading pairs to align.

    Returns:
        The links of each of the leading pairs.

    Raises:
        CorpusError: if no pair has words on both sides.
    """
    if not any(source and target for source, target in pairs):
        raise CorpusError("no pair has words on both sides, so no alignment can be learned; use other pairs")
    sources, source_size = _numbered([source for source, _ in pairs])
    targets, target_size = _numbered([target for _, target in pairs])
    forward = learn_lexicon(sources, targets, source_size)
    backward = learn_lexicon(targets, sources, target_size)
    links = []
    for source, target in zip(sources[:count], targets[:count], strict=True):
        if not source or not target:
            links.append(frozenset[Link]())
            continue
        s, t = np.arange(len(source)) / len(source), np.arange(len(target)) / len(target)
        near = np.exp(-DIAGONAL * np.abs(s[:, None] - t))
        from_source = (forward.probabilities_of(source, target) * near).argmax(0)
        from_target = (backward.probabilities_of(target, source).T * near).argmax(1)
        links.append(frozenset((int(s), t) for t, s in enumerate(from_source) if from_target[s] == t))
    return links


def _numbered(sentences: Sequence[Sequence[str]]) -> tuple[list[list[int]], int]:
    """Return words (ignoring case) as numbers from 0, and the number of distinct words."""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word.lower(), len(numbers)) for word in sentence] for sentence in sentences]
    return rows, len(numbers)
