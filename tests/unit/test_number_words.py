"""The language pair that the tests train on."""

from tests.support.number_words import english, german, split_numbers


def test_the_grammar_itself() -> None:
    assert english(1205) == "one thousand two hundred and five"
    assert english(9014) == "nine thousand and fourteen"
    assert german(1101) == "eintausendeinhunderteins"
    assert german(9999) == "neuntausendneunhundertneunundneunzig"
    assert german(21) == "einundzwanzig"


def test_what_is_tested_on_was_not_seen_in_training() -> None:
    parts = [set(part) for part in split_numbers()]
    assert list(map(len, parts)) == [7800, 200, 2000]
    assert len(set.union(*parts)) == 10_000
