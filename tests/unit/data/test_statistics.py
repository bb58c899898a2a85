"""Statistics of corpora, compared with values counted by hand."""

import random

from dragoman.data.readers import Pair
from dragoman.data.statistics import Lengths, corpus_stats

PAIRS = [
    Pair("Hello {name}", "Hallo {name}"),
    Pair("Off", "Aus"),
    Pair("Off", "Aus"),
    Pair("Off", "Ab"),
    Pair("one two three four", "eins"),
]


def test_statistics_equal_values_counted_by_hand() -> None:
    stats = corpus_stats(PAIRS)
    assert (stats.pairs, stats.distinct) == (5, 4)
    assert stats.source is not None
    assert stats.target is not None
    assert (stats.source.total_characters, stats.target.total_characters) == (39, 24)
    assert (stats.source.total_words, stats.target.total_words) == (9, 6)
    assert stats.source.characters == Lengths(mean=7.8, p5=3, median=3, p95=18, longest=18)
    assert stats.target.words == Lengths(mean=1.2, p5=1, median=1, p95=2, longest=2)
    assert (stats.source.placeholders, stats.target.placeholders) == (1, 1)
    assert set(stats.examples) == set(PAIRS)


def test_quantiles_are_lengths_that_occur() -> None:
    stats = corpus_stats(Pair("x" * n, "y") for n in range(100))
    assert stats.source is not None
    assert stats.source.characters == Lengths(mean=49.5, p5=4, median=49, p95=94, longest=99)


def test_examples_do_not_depend_on_the_order() -> None:
    pairs = [Pair(f"source {i}", f"target {i}") for i in range(300)]
    stats = corpus_stats(pairs)
    assert len(set(stats.examples)) == 5
    random.Random(1).shuffle(pairs)
    again = corpus_stats(pairs + pairs)
    assert (again.pairs, again.distinct) == (600, 300)
    assert again.examples == stats.examples


def test_no_pairs() -> None:
    stats = corpus_stats([])
    assert (stats.pairs, stats.source, stats.target, stats.examples) == (0, None, None, ())
    assert stats.table() == "0 pairs, 0 distinct"


def test_the_table() -> None:
    lines = corpus_stats(PAIRS).table().split("\n")
    assert lines[0] == "5 pairs, 4 distinct"
    assert " ".join(lines[1].split()) == "total mean 5 % median 95 % longest placeholders"
    assert lines[2].split() == ["source", "characters", "39", "7.8", "3", "3", "18", "18", "20.0%"]
    assert lines[5].split() == ["target", "words", "6", "1.2", "1", "1", "2", "2"]
    assert len({len(line) for line in lines[1:3]}) == 1
    assert "  one two three four\n  eins" in "\n".join(lines)


def test_control_characters_do_not_reach_the_terminal() -> None:
    hostile = Pair("\x1b[31mred\r\n\u2028\u202e", "\ud800[bold]" + "x" * 1_000_000)
    table = corpus_stats([hostile]).table()
    source, target = table.split("\n")[-2:]
    assert source == "  \ufffd[31mred\ufffd\ufffd\ufffd\ufffd"
    assert target.startswith("  \ufffd[bold]xxx")
    assert target.endswith("x ...")
    assert len(target) < 120
