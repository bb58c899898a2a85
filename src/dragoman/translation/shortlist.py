"""Vocabulary selection: the target subwords that a sentence may use, by its source subwords.

The projection onto the vocabulary takes much of the time of a decoding step, although most target subwords are
irrelevant to the sentence. A shortlist is learned by IBM Model 1 from a parallel corpus in subwords (see
`dragoman.alignment.lexicon`) and used as in Marian and by Jean et al., "On Using Very Large Target Vocabulary for
Neural Machine Translation" (2015).
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
from dragoman.files import read_verified
from dragoman.models.description import LISTED_FILES, SHORTLIST_FILE, ModelDescription, add_file, seq2seq_config
from dragoman.text.subwords import EOS


@dataclass(frozen=True)
class Shortlist:
    """Target subwords by source subword.

    Attributes:
        always: [A], target subwords that every sentence may use, ascending; EOS is one of them.
        likely: [N], the other target subwords, grouped by source subword.
        starts: [V + 1]; those of source subword s are `likely[starts[s] : starts[s + 1]]`.
    """

    always: Ints
    likely: Ints
    starts: Ints

    def allowed(self, source: Sequence[int], prefix: Sequence[int]) -> list[int]:
        """Return the target subwords that the translation of `source` may use, ascending, as the native engine does."""
        parts = [self.likely[self.starts[s] : self.starts[s + 1]] for s in set(source)]
        tokens: list[int] = np.unique(np.concatenate([self.always, np.array(prefix, dtype=np.int64), *parts])).tolist()
        return tokens

    def save(self, directory: Path) -> None:
        """Write the shortlist into a model directory.

        Raises:
            ModelError: if `directory` contains no model.
        """
        arrays = {"always": self.always, "likely": self.likely, "starts": self.starts}
        add_file(directory, SHORTLIST_FILE, save(arrays))

    @classmethod
    def load(cls, directory: Path, description: ModelDescription) -> "Shortlist":
        """Read the shortlist of a model directory.

        Raises:
            ModelError: if there is none, it is damaged, or it belongs to another vocabulary.
        """
        path = directory / SHORTLIST_FILE
        try:
            arrays = load(read_verified(path, LISTED_FILES[SHORTLIST_FILE], description.listed))
            shortlist = cls(*(_row(arrays, name) for name in ("always", "likely", "starts")))
            config = seq2seq_config(description, directory)
            shortlist._check(config.source_vocabulary, config.target_vocabulary)
        except FileNotFoundError:
            raise ModelError(f"{directory} has no shortlist: `dragoman shortlist` learns one from its corpus") from None
        except (OSError, LookupError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise ModelError(
                f"{path} is damaged: {reason_of(error)}; learn it again with `dragoman shortlist`"
            ) from error
        return shortlist

    def _check(self, source_vocabulary: int, target_vocabulary: int) -> None:
        """Raise ValueError if the arrays are not as the search expects them."""
        if len(self.starts) != source_vocabulary + 1:
            raise ValueError(f"it belongs to another vocabulary, of {len(self.starts) - 1:,} source subwords")
        tokens = np.concatenate([self.always, self.likely])
        if EOS not in self.always or tokens.min() < 0 or tokens.max() >= target_vocabulary:
            raise ValueError("it belongs to another vocabulary: its target subwords are not the model's")
        if (np.diff(self.always) <= 0).any():
            raise ValueError("the subwords allowed in every sentence are not in ascending order")
        if self.starts[0] != 0 or self.starts[-1] != len(self.likely) or (np.diff(self.starts) < 0).any():
            raise ValueError("the ranges of its source subwords overlap or have gaps")


def _row(arrays: Mapping[str, NDArray[Any]], name: str) -> Ints:
    if name not in arrays:
        raise ValueError(f"the array {name} is missing")
    if arrays[name].dtype != np.int64 or arrays[name].ndim != 1:
        raise ValueError(f"{name} is not a one-dimensional array of 64-bit integers")
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
    """Learn a shortlist from pairs of ids.

    Args:
        sources: source ids of each pair, without BOS and EOS.
        targets: target ids of each pair, without BOS and EOS.
        source_vocabulary: number of source subwords.
        joint: True if both sides have the same vocabulary; every source subword may then be copied.
        special: target ids that are always allowed, in addition to EOS.
        likely: number of target subwords to keep for each source subword, the most probable ones.
        frequent: number of target subwords that are always allowed, the most frequent ones.
        on_progress: called after each iteration of expectation maximisation with its number and the mean
            log-likelihood of a target subword.

    Returns:
        The shortlist.
    """
    lexicon = learn_lexicon(sources, targets, source_vocabulary, on_progress=on_progress)
    source_of = lexicon.sources
    counts = np.bincount(np.concatenate([np.asarray(row, dtype=np.int64) for row in targets]))
    always = np.union1d(np.argsort(-counts, kind="stable")[:frequent], np.array([EOS, *special]))
    # Order the entries by source subword, the most probable target first.
    order = np.lexsort((-lexicon.probabilities, source_of))
    rank = np.arange(len(order)) - np.searchsorted(source_of[order], source_of[order])
    codes = lexicon.codes[order[rank < likely]]
    if joint:
        subwords = np.arange(source_vocabulary, dtype=np.int64)
        codes = np.union1d(codes, (subwords << 32) + subwords)
    codes = np.sort(codes[~np.isin(codes & 0xFFFFFFFF, always)])
    starts = np.searchsorted(codes >> 32, np.arange(source_vocabulary + 1))
    return Shortlist(always, codes & 0xFFFFFFFF, starts)
