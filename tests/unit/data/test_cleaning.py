"""Cleaning: the pairs that each rule drops and keeps, and the report."""

from collections.abc import Iterator

import pytest

from dragoman.data.cleaning import DUPLICATES_AT_ONCE, RULES, CleaningConfig, CleaningReport, clean
from dragoman.data.readers import Pair
from dragoman.errors import UserError

SENTENCE = "The connection to the server was lost."
ALL_OFF = CleaningConfig(
    empty=False,
    control_characters=False,
    max_characters=0,
    max_length_ratio=0,
    copied_source=False,
    duplicates=False,
)
BAD = {
    "empty": Pair(" \u3000", "Hallo"),
    "control_characters": Pair("bell\a", "Glocke"),
    "max_characters": Pair("long " * 300, "lang " * 300),
    "max_length_ratio": Pair(SENTENCE, "Weg."),
    "copied_source": Pair(SENTENCE, SENTENCE.upper() + " "),
}


def run(
    pairs: list[Pair], config: CleaningConfig, at_once: int = DUPLICATES_AT_ONCE
) -> tuple[list[Pair], CleaningReport]:
    report = CleaningReport()
    return list(clean(pairs, config, report, at_once)), report


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_drops_its_example_and_can_be_turned_off(rule: str) -> None:
    kept, report = run([BAD[rule]], CleaningConfig())
    assert kept == []
    assert report.dropped == dict.fromkeys(RULES, 0) | {rule: 1}
    others = {name: False for name in RULES if name == rule}
    kept, report = run([BAD[rule]], CleaningConfig(**others))
    assert kept == [BAD[rule]]
    assert report.kept == 1


def test_all_rules_off_keeps_everything() -> None:
    pairs = [*BAD.values(), *BAD.values(), Pair("", "")]
    assert run(pairs, ALL_OFF)[0] == pairs


@pytest.mark.parametrize(
    "pair",
    [
        Pair("OK", "OK"),
        Pair("Off", "Ausgeschaltet"),
        Pair("Philips Hue Bridge", "Philips Hue Bridge"),
        Pair("192.168.0.1 - 255.255.255.255 (1234567890)", "192.168.0.1 - 255.255.255.255 (1234567890)"),
        Pair("设备已断开连接，请重试", "The device was disconnected, please try again"),
        Pair("The device was disconnected from network", "डिवाइस नेटवर्क से डिस्कनेक्ट हो गया था"),
        Pair("a\tb\u200c\u200f", "ب\u200cا\u2028"),
        Pair("  spaces  kept ", "  so "),
    ],
)  # fmt: skip
def test_good_pairs_are_kept_unchanged(pair: Pair) -> None:
    assert run([pair], CleaningConfig())[0] == [pair]


@pytest.mark.parametrize("character", ["\0", "\n", "\r", "\x1b", "\x7f", "\x85", "\ufffd"])
def test_control_characters_on_either_side(character: str) -> None:
    pairs = [Pair(f"a{character}b", "c"), Pair("a", f"{character}c")]
    assert run(pairs, CleaningConfig())[1].dropped["control_characters"] == 2


def test_length_limits_are_inclusive() -> None:
    config = CleaningConfig(max_characters=90, copied_source=False)
    pairs = [Pair("x" * 90, "y" * 30), Pair("x" * 91, "y" * 91), Pair("x" * 90, "y" * 29)]
    kept, report = run(pairs, config)
    assert kept == pairs[:1]
    assert report.dropped["max_characters"] == report.dropped["max_length_ratio"] == 1


def test_only_pairs_equal_on_both_sides_are_duplicates() -> None:
    pairs = [Pair("a", "bc"), Pair("ab", "c"), Pair("a", "b"), Pair("b", "a"), Pair("a", "B")]
    for at_once in (1, 2, 3, 100):
        kept, report = run([*pairs, *pairs[::-1], pairs[0]], CleaningConfig(), at_once)
        assert kept == pairs
        assert report.dropped["duplicates"] == 6


def test_duplicates_in_many_chunks_match_a_set() -> None:
    pairs = [Pair(f"s{i * i % 1009}", f"t{i % 3}") for i in range(5000)]
    assert run(pairs, CleaningConfig(), at_once=64)[0] == list(dict.fromkeys(pairs))


def test_lone_surrogates_do_not_stop_cleaning() -> None:
    pairs = [Pair("\ud800" * 50, "x" * 50)]
    assert run(pairs, CleaningConfig())[0] == pairs


def test_table_names_rules_counts_and_examples() -> None:
    bells = [Pair(f"{i}\x07", "Glocke") for i in range(1200)]
    _, report = run([Pair("a", "b"), *bells, *BAD.values()], CleaningConfig())
    table = report.table()
    assert table.startswith("1,206 pairs read, 1 kept, 1,205 dropped\n")
    assert "control_characters         1,201" in table
    assert "'0\\x07' = 'Glocke'" in table
    assert "\a" not in table
    assert "'3\\x07'" not in table
    assert "duplicates" not in table
    assert max(map(len, table.splitlines())) < 150


def test_pairs_are_streamed() -> None:
    def endless() -> Iterator[Pair]:
        while True:
            yield Pair("a", "b")

    config = CleaningConfig(duplicates=False)
    assert next(clean(endless(), config, CleaningReport())) == Pair("a", "b")


@pytest.mark.parametrize(
    "wrong",
    [{"max_characters": -1}, {"max_length_ratio": 0.5}, {"max_length_ratio": float("nan")}],
)
def test_config_is_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        CleaningConfig(**wrong)  # type: ignore[arg-type]
