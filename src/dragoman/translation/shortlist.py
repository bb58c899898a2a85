"""Which target subwords go with which source subwords: a sentence's own, small vocabulary.

The projection onto the vocabulary is much of a decoding step; most of its words have nothing to do with the sentence.
Learnt by IBM Model 1 from a parallel corpus in subwords (see `lexicon`); used as in Marian and by Jean et al. (2015).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load, save

from dragoman.alignment.lexicon import Ints, learn_lexicon
from dragoman.errors import ModelError, reason_of
from dragoman.files import read_listed
from dragoman.models.description import LISTED_FILES, SHORTLIST_FILE, ModelDescription, add_file
from dragoman.text.subwords import EOS


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
        """Write it beside a model.

        Raises:
            ModelError: when `directory` holds no model.
        """
        arrays = {"always": self.always, "likely": self.likely, "starts": self.starts}
        add_file(directory, SHORTLIST_FILE, save(arrays))

    @classmethod
    def load(cls, directory: Path, description: ModelDescription) -> "Shortlist":
        """Read the one beside a model.

        Raises:
            ModelError: when there is none, or it is damaged, or of another vocabulary.
        """
        path = directory / SHORTLIST_FILE
        try:
            arrays = load(read_listed(path, LISTED_FILES[SHORTLIST_FILE], description.listed))
            found = cls(*(_row(arrays, name) for name in ("always", "likely", "starts")))
            found._check(description.model.source_vocabulary, description.model.target_vocabulary)
        except FileNotFoundError:
            raise ModelError(f"{directory} has no shortlist: `dragoman shortlist` learns one from its corpus") from None
        except (OSError, LookupError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise ModelError(
                f"{path} is damaged: {reason_of(error)}; learn it anew with `dragoman shortlist`"
            ) from error
        return found

    def _check(self, source_vocabulary: int, target_vocabulary: int) -> None:
        """Check what the search relies on; raise ValueError for what does not hold."""
        if len(self.starts) != source_vocabulary + 1:
            raise ValueError(f"it belongs to another vocabulary, of {len(self.starts) - 1:,} source subwords")
        tokens = np.concatenate([self.always, self.likely])
        if EOS not in self.always or tokens.min() < 0 or tokens.max() >= target_vocabulary:
            raise ValueError("it belongs to another vocabulary: its target subwords are not the model's")
        if (np.diff(self.always) <= 0).any():
            raise ValueError("the subwords of every sentence are not in order")
        if self.starts[0] != 0 or self.starts[-1] != len(self.likely) or (np.diff(self.starts) < 0).any():
            raise ValueError("its parts overlap, or leave something out")


def _row(arrays: Mapping[str, NDArray[Any]], name: str) -> Ints:
    if name not in arrays:
        raise ValueError(f"it lacks {name}")
    if arrays[name].dtype != np.int64 or arrays[name].ndim != 1:
        raise ValueError(f"{name} is not a row of whole numbers")
    return arrays[name]


def learn_shortlist(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    source_vocabulary: int,
    *,
    joint: bool,
    special: Sequence[int],
    likely: int,
    frequent: int,
    on_progress: Callable[[int, float], None] | None = None,
) -> Shortlist:
    """Learn from pairs of ids, without BOS or EOS.

    joint     both sides have one vocabulary: every source subword may be copied
    special   target ids that are always allowed, as is EOS
    likely    target subwords kept for each source subword, the most probable ones
    frequent  target subwords that are always allowed, the most frequent ones
    on_progress      called with the log-likelihood of a target subword after each round of expectation and maximisation
    """
    lexicon = learn_lexicon(sources, targets, source_vocabulary, on_progress=on_progress)
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
