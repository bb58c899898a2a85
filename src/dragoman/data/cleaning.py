"""Leaving out the pairs that would teach nothing, or the wrong thing, and saying which.

Kept pairs stay as they are: nothing is trimmed or normalised. The rules are mild enough for the
texts of user interfaces, where "OK" = "OK" and "Off" = "Ausgeschaltet" are right.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from dragoman.data.readers import Pair
from dragoman.errors import SettingsError

# C0 and C1 control characters but the tab, and the sign that decoding went wrong somewhere. Marks of
# writing direction and joiners are not among these: Arabic, Persian and Hindi need them.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd]")
# Short texts differ in length for no bad reason, and are alike for good ones: names, units, "OK".
_RATIO_FROM_CHARACTERS = 30
_COPY_FROM_LETTERS = 21
DUPLICATES_AT_ONCE = 65_536
_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """The rules, in the order in which they are tried; each can be turned off by False or 0.

    Attributes:
        empty: drop pairs with a side of nothing but white space.
        control_characters: drop pairs with control characters (line feeds too: a text is one line)
            or U+FFFD.
        max_characters: drop pairs with a longer side than this.
        max_length_ratio: drop pairs whose longer side is more than this many times as long as the
            other, both in characters and in UTF-8 bytes: Chinese has few characters, Hindi has many
            bytes, but neither has both. Only where the longer side has 30 characters or more.
        copied_source: drop pairs whose target is the source, not translated (Khayrallah and Koehn,
            2018: of all noise the most harmful). Only texts of 21 letters or more: shorter ones
            are mostly names, which a model should learn to copy.
        duplicates: drop pairs equal on both sides to an earlier one.
    """

    empty: bool = True
    control_characters: bool = True
    max_characters: int = 1000
    max_length_ratio: float = 3.0
    copied_source: bool = True
    duplicates: bool = True

    def __post_init__(self) -> None:
        if self.max_characters < 0:
            raise SettingsError(f"max_characters is {self.max_characters}; give 0 (off) or more")
        if not (self.max_length_ratio == 0 or 1 <= self.max_length_ratio < math.inf):
            raise SettingsError(f"max_length_ratio is {self.max_length_ratio}; give 0 (off), or 1 or more")


RULES = tuple(CleaningConfig.__dataclass_fields__)


@dataclass(kw_only=True)
class CleaningReport:
    """How many pairs were kept and dropped, by rule, with the first examples of each."""

    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    examples: dict[str, list[Pair]] = field(default_factory=lambda: {rule: [] for rule in RULES})

    def drop(self, rule: str, pair: Pair) -> None:
        """Count a pair that `rule` drops."""
        self.dropped[rule] += 1
        if len(self.examples[rule]) < _EXAMPLES:
            # The start is enough, and a megabyte on a line must not be kept.
            self.examples[rule].append(Pair(_start(pair.source), _start(pair.target)))

    def sentence(self) -> str:
        """Return the counts in a sentence."""
        dropped = {rule: count for rule, count in self.dropped.items() if count}
        by_rule = f" ({', '.join(f'{rule} {count:,}' for rule, count in dropped.items())})" if dropped else ""
        total = sum(dropped.values())
        return f"{self.kept + total:,} pairs read, {self.kept:,} kept, {total:,} dropped{by_rule}"

    def table(self) -> str:
        """The report as lines of plain text."""
        dropped = sum(self.dropped.values())
        lines = [f"{self.kept + dropped:,} pairs read, {self.kept:,} kept, {dropped:,} dropped"]
        for rule, count in self.dropped.items():
            if count:
                lines.append(f"  {rule:<20}{count:>12,}")
                # repr shows control characters instead of sending them to the terminal.
                lines += [f"      {s!r} = {t!r}" for s, t in self.examples[rule]]
        return "\n".join(lines)


def clean(
    pairs: Iterable[Pair], config: CleaningConfig, report: CleaningReport, duplicates_at_once: int = DUPLICATES_AT_ONCE
) -> Iterator[Pair]:
    """The pairs that no rule drops, in order; `report` is filled in while they are read.

    Duplicates are looked for in chunks of `duplicates_at_once` pairs, which does not change the result.
    Memory: 8 bytes for each kept pair when duplicates are dropped (twice that at the peak).
    """
    kept = _without_faults(pairs, config, report)
    for pair in _without_duplicates(kept, report, duplicates_at_once) if config.duplicates else kept:
        report.kept += 1
        yield pair


def _without_faults(pairs: Iterable[Pair], config: CleaningConfig, report: CleaningReport) -> Iterator[Pair]:
    for pair in pairs:
        rule = _broken_rule(pair, config)
        if rule is None:
            yield pair
        else:
            report.drop(rule, pair)


def _broken_rule(pair: Pair, config: CleaningConfig) -> str | None:
    source, target = pair
    if config.empty and not (source.strip() and target.strip()):
        return "empty"
    if config.control_characters and (_CONTROL.search(source) or _CONTROL.search(target)):
        return "control_characters"
    if config.max_characters and max(len(source), len(target)) > config.max_characters:
        return "max_characters"
    if config.max_length_ratio and _length_ratio(source, target) > config.max_length_ratio:
        return "max_length_ratio"
    if config.copied_source and _is_copied(source, target):
        return "copied_source"
    return None


def _length_ratio(source: str, target: str) -> float:
    """Longer over shorter, in characters or UTF-8 bytes, whichever makes it less; 1 if short."""
    if max(len(source), len(target)) < _RATIO_FROM_CHARACTERS:
        return 1.0
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in (source, target)]
    return min(max(a, b) / max(1, min(a, b)) for a, b in ((len(source), len(target)), (sizes[0], sizes[1])))


def _is_copied(source: str, target: str) -> bool:
    folded = " ".join(source.casefold().split())
    if folded != " ".join(target.casefold().split()):
        return False
    return sum(map(str.isalpha, folded)) >= _COPY_FROM_LETTERS


def _without_duplicates(pairs: Iterator[Pair], report: CleaningReport, at_once: int) -> Iterator[Pair]:
    """Pairs whose 64-bit hash is new. In ten million pairs, two hashes meet with odds of 3e-6."""
    seen = np.empty(0, dtype=np.uint64)  # sorted
    while chunk := list(islice(pairs, at_once)):
        hashes = np.fromiter(map(_hash, chunk), dtype=np.uint64, count=len(chunk))
        distinct, first = np.unique(hashes, return_index=True)
        places = np.searchsorted(seen, distinct)
        new = _differ(seen, places, distinct)
        seen = np.insert(seen, places[new], distinct[new])
        is_kept = np.zeros(len(chunk), dtype=bool)
        is_kept[first[new]] = True
        for pair, keep in zip(chunk, is_kept.tolist(), strict=True):
            if keep:
                yield pair
            else:
                report.drop("duplicates", pair)


def _differ(
    seen: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], values: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Whether each value is other than what is in `seen` at its place, or is beyond the end."""
    if len(seen) == 0:
        return np.ones(len(values), dtype=bool)
    return np.asarray(seen[np.minimum(places, len(seen) - 1)] != values)


def _hash(pair: Pair) -> int:
    # The length says where the source ends, so that "a", "bc" is not "ab", "c".
    text = f"{len(pair.source)}:{pair.source}{pair.target}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _start(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
