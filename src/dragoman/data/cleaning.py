"""Dropping of pairs that are useless or harmful for training, with a report.

Pairs that are kept are not changed: nothing is trimmed or normalised. The rules are mild enough for the texts of user
interfaces, in which pairs such as "OK" = "OK" and "Off" = "Ausgeschaltet" are correct.
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

# C0 and C1 control characters except the tab, and U+FFFD, the result of a decoding error. Direction marks and joiners
# are not included: Arabic, Persian and Hindi need them.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd]")
# Short texts may correctly have very different lengths, and may correctly be equal: names, units, "OK".
_RATIO_FROM_CHARACTERS = 30
_COPY_FROM_LETTERS = 21
DUPLICATES_AT_ONCE = 65_536
_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Rules for dropping pairs, in the order in which they are applied; False or 0 turns a rule off.

    Attributes:
        empty: drop pairs in which a side is empty or only white space.
        control_characters: drop pairs with control characters (including line feeds, as a text is one line) or
            U+FFFD.
        max_characters: drop pairs with a side of more characters than this.
        max_length_ratio: drop pairs in which the longer side is more than this many times as long as the other, both
            in characters and in UTF-8 bytes: Chinese needs few characters and Hindi many bytes, but the other ratio is
            normal. The rule applies if the longer side has at least 30 characters.
        copied_source: drop pairs whose target is the untranslated source, the most harmful kind of noise (Khayrallah
            and Koehn, 2018). The rule applies to texts of at least 21 letters: shorter ones are mostly names, which a
            model should learn to copy.
        duplicates: drop pairs that are equal to an earlier pair.
    """

    empty: bool = True
    control_characters: bool = True
    max_characters: int = 1000
    max_length_ratio: float = 3.0
    copied_source: bool = True
    duplicates: bool = True

    def __post_init__(self) -> None:
        if self.max_characters < 0:
            raise SettingsError(f"max_characters is {self.max_characters}; it must be 0 (off) or more")
        if not (self.max_length_ratio == 0 or 1 <= self.max_length_ratio < math.inf):
            raise SettingsError(f"max_length_ratio is {self.max_length_ratio}; it must be 0 (off), or 1 or more")


RULES = tuple(CleaningConfig.__dataclass_fields__)


@dataclass(kw_only=True)
class CleaningReport:
    """Numbers of pairs kept and dropped.

    Attributes:
        kept: number of pairs kept.
        dropped: number of pairs dropped, by rule.
        examples: the first pairs dropped, by rule, with long texts shortened.
    """

    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    examples: dict[str, list[Pair]] = field(default_factory=lambda: {rule: [] for rule in RULES})

    def drop(self, rule: str, pair: Pair) -> None:
        """Record a pair that was dropped because of `rule`."""
        self.dropped[rule] += 1
        if len(self.examples[rule]) < _EXAMPLES:
            # Shortened, because a text may have megabytes.
            self.examples[rule].append(Pair(_shortened(pair.source), _shortened(pair.target)))

    def sentence(self) -> str:
        """Return the counts as a sentence."""
        dropped = {rule: count for rule, count in self.dropped.items() if count}
        by_rule = f" ({', '.join(f'{rule} {count:,}' for rule, count in dropped.items())})" if dropped else ""
        total = sum(dropped.values())
        return f"{self.kept + total:,} pairs read, {self.kept:,} kept, {total:,} dropped{by_rule}"

    def table(self) -> str:
        """Return counts and examples as lines of plain text."""
        dropped = sum(self.dropped.values())
        lines = [f"{self.kept + dropped:,} pairs read, {self.kept:,} kept, {dropped:,} dropped"]
        for rule, count in self.dropped.items():
            if count:
                lines.append(f"  {rule:<20}{count:>12,}")
                # repr() escapes control characters.
                lines += [f"      {s!r} = {t!r}" for s, t in self.examples[rule]]
        return "\n".join(lines)


def clean(
    pairs: Iterable[Pair], config: CleaningConfig, report: CleaningReport, duplicates_at_once: int = DUPLICATES_AT_ONCE
) -> Iterator[Pair]:
    """Yield the pairs that no rule drops, in order.

    Dropping duplicates needs 8 bytes of memory for each kept pair, and twice that at the peak.

    Args:
        pairs: the pairs, read once.
        config: the rules.
        report: updated while the pairs are read.
        duplicates_at_once: number of pairs searched for duplicates at a time; it does not change the result.

    Example:
        >>> pairs = [Pair("Open", "Auf"), Pair("Open", "Auf"), Pair("Close", " ")]
        >>> report = CleaningReport()
        >>> list(clean(pairs, CleaningConfig(), report))
        [Pair(source='Open', target='Auf')]
        >>> print(report.sentence())
        3 pairs read, 1 kept, 2 dropped (empty 1, duplicates 1)
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
    """Return the ratio of the longer to the shorter length, in characters or in UTF-8 bytes, whichever is smaller.

    The result is 1 for short texts.
    """
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
    """Yield pairs whose 64-bit hash is new.

    Two different pairs among ten million have the same hash with a probability of 3e-6.
    """
    seen = np.empty(0, dtype=np.uint64)  # sorted
    while chunk := list(islice(pairs, at_once)):
        hashes = np.fromiter(map(_hash, chunk), dtype=np.uint64, count=len(chunk))
        distinct, first = np.unique(hashes, return_index=True)
        indices = np.searchsorted(seen, distinct)
        new = _differ(seen, indices, distinct)
        seen = np.insert(seen, indices[new], distinct[new])
        is_kept = np.zeros(len(chunk), dtype=bool)
        is_kept[first[new]] = True
        for pair, keep in zip(chunk, is_kept.tolist(), strict=True):
            if keep:
                yield pair
            else:
                report.drop("duplicates", pair)


def _differ(
    seen: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64], values: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Return for each value whether it differs from the element of `seen` at its index, or that is past the end."""
    if len(seen) == 0:
        return np.ones(len(values), dtype=bool)
    return np.asarray(seen[np.minimum(indices, len(seen) - 1)] != values)


def _hash(pair: Pair) -> int:
    # The length of the source distinguishes the pair "a", "bc" from "ab", "c".
    text = f"{len(pair.source)}:{pair.source}{pair.target}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
