"""Which target subwords go with which source subwords: a sentence's own, small vocabulary.

The projection onto the vocabulary is much of a decoding step; most of its words have nothing to do with the sentence.
Learnt by IBM Model 1 from a parallel corpus in subwords (see `lexicon`); used as in Marian and by Jean et al. (2015).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
from safetensors.numpy import load_file, save

from dragoman.alignment.lexicon import Ints, learn_lexicon
from dragoman.errors import ModelError
from dragoman.files import write_atomically
from dragoman.text.subwords import EOS

SHORTLIST_FILE = "shortlist.safetensors"


@dataclass(frozen=True)
class Shortlist:
    """Target subwords by source subword.

    always  [A]     those that every sentence may use, ascending, EOS among them
    likely  [N]     the others: those of source subword s are likely[starts[s] : starts[s + 1]]
    starts  [V + 1]
    """

    always: Ints
    likely: Ints
    starts: Ints

    def allowed(self, source: Sequence[int], prefix: Sequence[int]) -> list[int]:
        """What the translation of `source` may use, ascending; the compiled search does the same."""
        parts = [self.likely[self.starts[s] : self.starts[s + 1]] for s in set(source)]
        found: list[int] = np.unique(np.concatenate([self.always, np.array(prefix, dtype=np.int64), *parts])).tolist()
        return found

    def save(self, directory: Path) -> None:
        """Write it beside a model."""
        arrays = {"always": self.always, "likely": self.likely, "starts": self.starts}
        write_atomically(directory / SHORTLIST_FILE, save(arrays))

    @classmethod
    def load(cls, directory: Path, source_vocabulary: int, target_vocabulary: int) -> "Shortlist":
        """Read the one beside a model.

        Raises:
            ModelError: when there is none, or it is damaged, or of another vocabulary.
        """
        path = directory / SHORTLIST_FILE
        try:
            arrays = load_file(path)
            found = cls(arrays["always"], arrays["likely"], arrays["starts"])
        except FileNotFoundError:
            raise ModelError(f"{directory} has no shortlist: `dragoman shortlist` learns one from its corpus") from None
        except (OSError, KeyError, ValueError, safetensors.SafetensorError) as error:
            raise ModelError(f"{path} is damaged: {error}") from error
        tokens = np.concatenate([found.always, found.likely])
        fits = len(found.starts) == source_vocabulary + 1 and EOS in found.always
        if not fits or tokens.min() < 0 or tokens.max() >= target_vocabulary:
            raise ModelError(f"{path} belongs to another vocabulary: learn it anew with `dragoman shortlist`")
        return found


def learn_shortlist(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    source_vocabulary: int,
    *,
    joint: bool,
    special: Sequence[int],
    likely: int,
    frequent: int,
    tell: Callable[[int, float], None] | None = None,
) -> Shortlist:
    """Learn from pairs of ids, without BOS or EOS.

    joint     both sides have one vocabulary: every source subword may be copied
    special   target ids that are always allowed, as is EOS
    likely    target subwords kept for each source subword, the most probable ones
    frequent  target subwords that are always allowed, the most frequent ones
    tell      called with the log-likelihood of a target subword after each round of expectation and maximisation
    """
    lexicon = learn_lexicon(sources, targets, source_vocabulary, tell=tell)
    source_of = lexicon.sources
    counts = np.bincount(np.concatenate([np.asarray(row, dtype=np.int64) for row in targets]))
    always = np.union1d(np.argsort(-counts, kind="stable")[:frequent], np.array([EOS, *special]))
    # By source subword, the most probable first.
    order = np.lexsort((-lexicon.probabilities, source_of))
    rank = np.arange(len(order)) - np.searchsorted(source_of[order], source_of[order])
    kept = order[rank < likely]
    codes = lexicon.codes[kept]
    if joint:
        every = np.arange(source_vocabulary, dtype=np.int64)
        codes = np.union1d(codes, (every << 32) + every)
    codes = np.sort(codes[~np.isin(codes & 0xFFFFFFFF, always)])
    starts = np.searchsorted(codes >> 32, np.arange(source_vocabulary + 1))
    return Shortlist(always, codes & 0xFFFFFFFF, starts)
