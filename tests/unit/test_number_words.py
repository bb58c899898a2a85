"""The generated language pair on which the tests train."""

from tests.support.number_words import english, german, split_numbers


def test_the_grammar_of_both_languages() -> None:
    assert english(1205) == "one thousand two hundred and five"
    assert english(9014) == "nine thousand and fourteen"
    assert german(1101) == "eintausendeinhunderteins"
    assert german(9999) == "neuntausendneunhundertneunundneunzig"
    assert german(21) == "einundzwanzig"


def test_the_test_pairs_are_not_in_the_training_pairs() -> None:
    parts = [set(part) for part in split_numbers()]
    assert list(map(len, parts)) == [7800, 200, 2000]
    assert len(set.union(*parts)) == 10_000
