"""Folding, and the validation split made with it."""

import pytest

from dragoman.data.splitting import count_keys, fold, is_validation


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Delete 3 files?", "delete 0 files"),
        ("delete 17 FILES!", "delete 0 files"),
        ("Delete {count}   files.", "delete files"),
        ("%(name)s: %s of %1$s, {{ x }}%{y}", "of"),
        ("50 % done", "0 done"),
        ("Straße ﬁn", "strasse fin"),
        ("中文，你好！", "中文 你好"),
        ("हिन्दी", "हिन्दी"),
        ("...", ""),
        ("\ud800a\0b\u2028c", "a b c"),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded
    assert fold(folded) == folded


def test_the_split_is_a_function_of_the_folded_source() -> None:
    words = [first + second for first in "abcdefghij" for second in "klmnopqrst"]
    sides = []
    for word in words:
        first, second = f"Word {word} 1.", f"WORD {word.upper()} 77 {{n}}!"
        sides.append(is_validation(first, 0.5))
        assert is_validation(second, 0.5) == sides[-1]
    assert 30 < sum(sides) < 70


def test_shares_nest_and_are_met_and_seeds_differ() -> None:
    letters = "abcdefghij"
    texts = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    small = {text for text in texts if is_validation(text, 0.05)}
    large = {text for text in texts if is_validation(text, 0.1)}
    assert small < large
    assert 400 < len(small) < 600
    assert small != {text for text in texts if is_validation(text, 0.05, seed=1)}
    assert not any(is_validation(text, 0.0) for text in texts)
    assert all(is_validation(text, 1.0) for text in texts)


def test_keys_are_counted_up_to_a_limit() -> None:
    assert count_keys(["1 + 2", "33 - 4!", "{name} 5 6"], limit=10) == 1
    assert count_keys(["one", "two", "ONE", "three"], limit=10) == 3
    assert count_keys(["one", "two", "three"], limit=2) == 2
    assert count_keys([], limit=10) == 0
