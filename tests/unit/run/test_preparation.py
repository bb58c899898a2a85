"""Clean text on disk: training text is cleaned in the same way as text to translate."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dragoman.data.cleaning import CleaningConfig, CleaningReport, clean
from dragoman.data.readers import Pair, parse_corpus, read_corpora
from dragoman.data.splitting import fold
from dragoman.errors import CorpusError
from dragoman.run.config import DataConfig
from dragoman.run.preparation import VALIDATION_TEXT, CleanText, read_clean_text, write_clean_text
from dragoman.text.lines import clean_line, read_line

UNCHANGED = [(f"the {word} lamp", f"die {word} Lampe") for word in ("red", "blue", "für", "開", "a\u00a0b", "1 000")]
CHANGED = [(" outer\u00a0", "außen "), ("two\u2028lines", "zwei\u2029Zeilen"), ("unit\u3000", "\u2003Einheit")]


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8", newline="\n")
    return str(path)


def cleaned(corpus: str, validation: str | None, directory: Path, share: float = 0.02) -> CleanText:
    console = Console(quiet=True)
    data = DataConfig(validation_share=share)
    return write_clean_text([corpus], validation, CleaningConfig(), data, directory, console)


def test_text_without_unusual_characters_is_unchanged(tmp_path: Path) -> None:
    corpus = write(tmp_path / "a.tsv", UNCHANGED)
    text = cleaned(corpus, corpus, tmp_path / "text")
    assert list(read_clean_text(text.training)) == [Pair(*pair) for pair in UNCHANGED]
    assert list(read_clean_text(tmp_path / "text" / VALIDATION_TEXT)) == [Pair(*pair) for pair in UNCHANGED]


def test_lines_are_cleaned_in_the_same_way_as_lines_to_translate(tmp_path: Path) -> None:
    corpus = write(tmp_path / "a.tsv", CHANGED)
    text = cleaned(corpus, corpus, tmp_path / "text")
    expected = [Pair(*(read_line(side)[0] for side in pair)) for pair in CHANGED]
    assert expected == [("outer", "außen"), ("two lines", "zwei Zeilen"), ("unit", "Einheit")]
    for written in (text.training, tmp_path / "text" / VALIDATION_TEXT):
        assert list(read_clean_text(written)) == expected


def test_pairs_are_removed_by_their_lines_before_cleaning(tmp_path: Path) -> None:
    """Pairs that become equal when their lines are cleaned are kept, and the report counts the original pairs."""
    corpus = write(
        tmp_path / "a.tsv", [*UNCHANGED, ("same", "gleich"), ("same ", "gleich"), (" ", "leer"), *UNCHANGED[:2]]
    )
    text = cleaned(corpus, corpus, tmp_path / "text")
    report = CleaningReport()
    kept = list(clean(read_corpora([parse_corpus(corpus)]), CleaningConfig(), report))
    assert (text.training_pairs, text.report) == (len(kept), report)
    assert list(read_clean_text(text.training)).count(Pair("same", "gleich")) == 2


@given(st.text(alphabet="ab\u00a0\u3000. \u2028\x85\n\0"))
def test_cleaning_a_line_does_not_change_whether_it_is_held_out(source: str) -> None:
    assert fold(clean_line(source)) == fold(source)


@pytest.mark.parametrize("share", [0.02, 0.999999], ids=["hashed into training", "hashed into validation"])
def test_sources_that_fold_to_one_key_cannot_be_split(tmp_path: Path, share: float) -> None:
    corpus = write(tmp_path / "a.tsv", [(f"{n} + 7", f"sum {n}") for n in range(600)])
    with pytest.raises(CorpusError) as error:
        cleaned(corpus, None, tmp_path / "text", share)
    message = str(error.value)
    assert message.startswith("all 600 sources are the same apart from digits, case, punctuation and placeholders")
    assert "the first is '0 + 7'" in message
    assert message.endswith("use --validation FILE")


def test_a_corpus_too_small_to_split(tmp_path: Path) -> None:
    corpus = write(tmp_path / "a.tsv", [(source, f"{target} {n}") for source, target in UNCHANGED for n in "abc"])
    with pytest.raises(CorpusError) as error:
        cleaned(corpus, None, tmp_path / "text", share=1e-9)
    message = str(error.value)
    assert message.startswith("the corpus of 18 pairs is too small")
    assert "6 different sources" in message
    assert message.endswith("use --validation FILE, or raise data.validation_share")


def test_a_corpus_that_is_all_held_out(tmp_path: Path) -> None:
    corpus = write(tmp_path / "a.tsv", UNCHANGED)
    with pytest.raises(CorpusError, match=r"all 6 pairs were held out.*or lower data\.validation_share"):
        cleaned(corpus, None, tmp_path / "text", share=0.999999)


def test_a_corpus_of_which_nothing_is_left(tmp_path: Path) -> None:
    corpus = write(tmp_path / "a.tsv", [(" ", "leer")])
    with pytest.raises(CorpusError, match="no pairs are left to train on"):
        cleaned(corpus, None, tmp_path / "text")
