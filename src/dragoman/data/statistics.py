"""Statistics of a corpus: sizes, lengths, placeholders, repetitions, examples."""

import hashlib
import heapq
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from dragoman.data.readers import Pair
from dragoman.data.splitting import PLACEHOLDER

_EXAMPLES = 5
_LONGEST_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Mean and quantiles of the lengths of texts.

    Each quantile is the length of one of the texts: half of the texts are at most as long as `median`, and 5 % are
    longer than `p95`.
    """

    mean: float
    p5: int
    median: int
    p95: int
    longest: int


@dataclass(frozen=True, kw_only=True)
class SideStats:
    """Statistics of one side of a corpus.

    Attributes:
        total_characters: number of Unicode code points, without line ends.
        total_words: number of words separated by white space; for Chinese or Japanese, use the characters instead.
        characters: lengths of the texts in characters.
        words: lengths of the texts in words.
        placeholders: number of texts with a placeholder such as {name} or %s.
    """

    total_characters: int
    total_words: int
    characters: Lengths
    words: Lengths
    placeholders: int


@dataclass(frozen=True, kw_only=True)
class CorpusStats:
    """Statistics of a corpus.

    Attributes:
        pairs: number of pairs.
        distinct: number of distinct pairs.
        source: statistics of the sources; None if there are no pairs.
        target: statistics of the targets; None if there are no pairs.
        examples: a random sample of the pairs, which is always the same for the same pairs.
    """

    pairs: int
    distinct: int
    source: SideStats | None
    target: SideStats | None
    examples: tuple[Pair, ...]

    def table(self) -> str:
        """Return the statistics and examples as plain text; control characters are shown as U+FFFD."""
        lines = [f"{self.pairs:,} pairs, {self.distinct:,} distinct"]
        if self.source is None or self.target is None:
            return lines[0]
        columns = ("total", "mean", "5 %", "median", "95 %", "longest", "placeholders")
        lines.append("".join([" " * 18, *(f"{column:>13}" for column in columns)]))
        for name, side in (("source", self.source), ("target", self.target)):
            share = f"{side.placeholders / self.pairs:.1%}"
            for unit, total, lengths, last in (
                ("characters", side.total_characters, side.characters, share),
                ("words", side.total_words, side.words, ""),
            ):
                cells = [f"{total:,}", f"{lengths.mean:.1f}"]
                cells += [f"{n:,}" for n in (lengths.p5, lengths.median, lengths.p95)]
                cells += [f"{lengths.longest:,}", last]
                row = "".join([f"{f'{name} {unit}':18}", *(f"{cell:>13}" for cell in cells)])
                lines.append(row.rstrip())
        for pair in self.examples:
            lines += ["", f"  {_shown(pair.source)}", f"  {_shown(pair.target)}"]
        return "\n".join(lines)


def corpus_stats(pairs: Iterable[Pair]) -> CorpusStats:
    """Return the statistics of pairs, which are read once.

    This needs about a hundred bytes of memory for each distinct pair.

    Example:
        >>> stats = corpus_stats([Pair("Open", "Auf"), Pair("Open the door", "Tür auf")])
        >>> stats.pairs, stats.source.words.longest
        (2, 3)
    """
    source, target = _Counting(), _Counting()
    digests: set[int] = set()
    # The examples are the pairs with the largest digests, in a heap whose first element has the smallest of these.
    examples: list[tuple[int, Pair]] = []
    for pair in pairs:
        source.add(pair.source)
        target.add(pair.target)
        joined = "\0".join(pair).encode("utf-8", "surrogatepass")
        digest = int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "big")
        if digest in digests:
            continue
        digests.add(digest)
        if len(examples) < _EXAMPLES:
            heapq.heappush(examples, (digest, pair))
        elif digest > examples[0][0]:
            heapq.heapreplace(examples, (digest, pair))
    return CorpusStats(
        pairs=len(source.characters),
        distinct=len(digests),
        source=source.result(),
        target=target.result(),
        examples=tuple(pair for _, pair in sorted(examples, reverse=True)),
    )


@dataclass
class _Counting:
    """Lengths of the texts of one side, counted while they are read."""

    characters: "array[int]" = field(default_factory=lambda: array("Q"))
    words: "array[int]" = field(default_factory=lambda: array("Q"))
    placeholders: int = 0

    def add(self, text: str) -> None:
        self.characters.append(len(text))
        self.words.append(len(text.split()))
        self.placeholders += PLACEHOLDER.search(text) is not None

    def result(self) -> SideStats | None:
        if not self.characters:
            return None
        return SideStats(
            total_characters=sum(self.characters),
            total_words=sum(self.words),
            characters=_lengths(self.characters),
            words=_lengths(self.words),
            placeholders=self.placeholders,
        )


def _lengths(counts: "array[int]") -> Lengths:
    numbers = np.frombuffer(counts, dtype=np.uint64)
    # With this method, every quantile is a length that occurs.
    p5, median, p95 = np.quantile(numbers, [0.05, 0.5, 0.95], method="inverted_cdf")
    return Lengths(
        mean=float(numbers.mean()),
        p5=int(p5),
        median=int(median),
        p95=int(p95),
        longest=int(numbers.max()),
    )


def _shown(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else "\ufffd" for letter in text[:1000])
    cut = printable[:_LONGEST_SHOWN]
    return cut if len(text) <= _LONGEST_SHOWN else cut + " ..."
