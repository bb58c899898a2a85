"""Debian's descriptions: artificial lists of apt, converted to pairs of long and short descriptions."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.corpora import fetch
from dragoman.corpora.apt import AptList, read_apt_lists
from dragoman.corpora.debian_descriptions import family, split_description
from dragoman.corpora.debian_summaries import extract
from dragoman.corpora.debian_summaries import fetch as fetch_from
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.data.splitting import fold
from dragoman.errors import UserError

RELEASE = "http://debian.example.org/debian someday/main"


def packages(*entries: tuple[str, str]) -> AptList:
    """Return a list of packages and their source packages; "" if a package has the name of its source package."""
    stanzas = [f"Package: {p}\n" + (f"Source: {s}\n" if s else "") + "Description: short\n" for p, s in entries]
    return AptList(kind="Packages", name=f"{RELEASE} amd64 Packages", content="\n".join(stanzas).encode())


def descriptions(*entries: tuple[str, str]) -> AptList:
    stanzas = [f"Package: {p}\nDescription-md5: 00ff\nDescription-en: {text}\n" for p, text in entries]
    return AptList(kind="Translations", name=f"{RELEASE} Translation-en", content="\n".join(stanzas).encode())


def word(number: int) -> str:
    """Return a different word for each number, without digits, because fold() makes all numbers equal."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def many_sources(count: int) -> list[AptList]:
    """Return lists with a program and its data for each source; their long descriptions have the same beginning."""
    built, described = [], []
    for name in map(word, range(count)):
        built += [(f"{name}x", ""), (f"{name}x-data", f"{name}x (1.0-2)")]
        begin = f"Game of {name}, with\n {name}s that jump."
        described += [
            (f"{name}x", f"game of {name}\n {begin}"),
            (f"{name}x-data", f"game of {name} (data)\n {begin}\n .\n This package has the data."),
        ]
    return [packages(*built), descriptions(*described)]


def read(path: Path) -> list[Pair]:
    return list(read_pairs(parse_corpus(str(path))))


# Descriptions


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("chess\n A game for\n two.", Pair("A game for two.", "chess")),
        ("chess \n A  game.\n .\n With\n boards.", Pair("A game. ¶ With boards.", "chess")),
        ("x\n Has:\n  * one\n  * two", Pair("Has: * one * two", "x")),
        ("x\n .\n a\n .\n .\n b\n .", Pair("a ¶ b", "x")),
        ("x\n ...\n\ty\x85z", Pair("... y z", "x")),
        ("x", Pair("", "x")),
        ("x\n .\n .", Pair("", "x")),
        ("\n a", Pair("a", "")),
    ],
)
def test_descriptions_are_split_into_long_and_short(description: str, expected: Pair) -> None:
    assert split_description(description) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [("gcc-12", "gcc"), ("gcc-12-cross", "gcc-cross"), ("python3.11", "python"), ("0ad", "ad"), ("2048", "2048"),
     ("llvm-toolchain-14", "llvm-toolchain"), ("linux", "linux")],
)  # fmt: skip
def test_the_family_of_a_source_package(source: str, expected: str) -> None:
    assert family(source) == expected


def test_descriptions_are_grouped_by_source_package() -> None:
    lists = [
        descriptions(("gcc-12", "compiler\n One."), ("cpp-13", "preprocessor\n Two."), ("vim", "editor\n Three.")),
        packages(("gcc-12", ""), ("cpp-13", "gcc-13 (13.2-1)"), ("vim", "")),
    ]
    documents, left_out = extract(lists)
    assert documents == {
        "gcc": [Pair("One.", "compiler"), Pair("Two.", "preprocessor")],
        "vim": [Pair("Three.", "editor")],
    }
    assert left_out == {"no long description": 0, "control characters": 0, "repeated in its family": 0}


def test_what_is_left_out_is_counted() -> None:
    entries = [("a", "x\n Y."), ("a", "x\n Y."), ("b", "x"), ("c", "x\n nul\0"), ("d", "\n Y.")]
    documents, left_out = extract([descriptions(*entries)])
    assert documents == {"a": [Pair("Y.", "x")], "b": [], "c": [], "d": []}
    assert left_out == {"no long description": 2, "control characters": 1, "repeated in its family": 1}


def test_a_list_that_is_not_utf8_is_refused() -> None:
    bad = AptList(kind="Translations", name="somewhere", content=b"Package: a\nDescription-en: \xff\n")
    with pytest.raises(UserError, match="somewhere is not UTF-8"):
        extract([bad])


# Fetching


def test_a_fetched_corpus(tmp_path: Path) -> None:
    lists = many_sources(150)
    files = fetch_from(tmp_path / "out", lambda: lists)
    assert files.directory == tmp_path / "out" / "debian-summaries"
    names = ["README.md", "manifest.json", "test.tsv", "train.tsv", "valid.tsv"]
    assert sorted(path.name for path in files.directory.iterdir()) == names
    parts = {part: read(files.directory / f"{part}.tsv") for part in files.pairs}
    assert {part: len(pairs) for part, pairs in parts.items()} == files.pairs
    assert sum(files.pairs.values()) + sum(files.left_out.values()) == 300
    # The training data contains both the program and its data; the held-out parts contain only one of them.
    assert len(parts["train"]) == 2 * len({long.split(" ¶ ")[0] for long, _ in parts["train"]})
    seen = {fold(text) for long, short in parts["train"] for text in (long.split(" ¶ ")[0], short)}
    for long, short in parts["valid"] + parts["test"]:
        for text in (fold(long.split(" ¶ ")[0]), fold(short)):
            assert text not in seen
            seen.add(text)
    manifest = json.loads((files.directory / "manifest.json").read_bytes())
    assert [entry["name"] for entry in manifest["lists"]] == [apt_list.name for apt_list in reversed(lists)]
    assert f"{RELEASE} Translation-en" in (files.directory / "README.md").read_text(encoding="utf-8")


def test_equal_lists_give_the_same_corpus_and_other_lists_another(tmp_path: Path) -> None:
    lists = many_sources(150)
    first = fetch_from(tmp_path / "first", lambda: lists)
    second = fetch_from(tmp_path / "second", lambda: lists[::-1])
    for path in first.directory.iterdir():
        assert path.read_bytes() == (second.directory / path.name).read_bytes()
    assert fetch_from(tmp_path / "first", lambda: lists).already_there
    with pytest.raises(UserError, match="another release"):
        fetch_from(tmp_path / "first", lambda: many_sources(151))


def test_too_few_descriptions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="too few descriptions"):
        fetch_from(tmp_path, lambda: many_sources(2))
    assert list(tmp_path.iterdir()) == []


# apt


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def target(kind: str, file: Path, language: str = "") -> str:
    lines = [f"Created-By: {kind}", f"Filename: {file}", f"Description: {RELEASE} {file.name}", "Origin: Debian"]
    return "\n".join([*lines, *([f"Language: {language}"] if language else [])]) + "\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for a fake apt-get and apt-helper; PATH contains nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path / "helper", '[ "$1" = cat-file ] && exec /bin/cat "$2"')
    return tmp_path


def have_lists(machine: Path, targets: Sequence[str]) -> None:
    (machine / "targets").write_text("\n".join(targets), encoding="utf-8")
    program(machine / "apt-get", f'echo "$@" > {machine}/arguments; exec /bin/cat {machine}/targets')


def test_lists_are_read_by_the_commands_of_apt(machine: Path) -> None:
    for name in ("Packages", "Translation-en"):
        (machine / name).write_bytes(name.encode() + b"\xc3\xa4")
    german, contents = target("Translations", machine / "no", "de"), target("Contents-deb", machine / "no")
    have_lists(
        machine,
        [
            target("Packages", machine / "Packages"),
            german,
            contents,
            target("Translations", machine / "Translation-en", "en"),
        ],
    )
    assert read_apt_lists(str(machine / "helper")) == [
        AptList(kind="Packages", name=f"{RELEASE} Packages", content="Packagesä".encode()),
        AptList(kind="Translations", name=f"{RELEASE} Translation-en", content="Translation-enä".encode()),
    ]
    assert (machine / "arguments").read_text(encoding="utf-8") == (
        "-o Acquire::Languages=en indextargets Origin: Debian\n"
    )


def test_missing_descriptions_are_an_error(machine: Path, tmp_path: Path) -> None:
    for targets in ([], [target("Packages", machine / "Packages")]):
        have_lists(machine, targets)
        with pytest.raises(UserError, match=re.escape("apt-get -o Acquire::Languages=en update")):
            fetch("debian-summaries", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_apt_is_an_error(machine: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"apt-get cannot be run.*on a Debian machine"):
        fetch("debian-summaries", tmp_path / "out")


def test_a_failure_of_apt_is_an_error(machine: Path, tmp_path: Path) -> None:
    program(machine / "apt-get", "echo E: broken sources >&2; exit 100")
    with pytest.raises(UserError, match=r"(?s)indextargets.* failed: E: broken sources.*update"):
        read_apt_lists(str(machine / "helper"))
    have_lists(machine, [target("Translations", machine / "missing", "en")])
    with pytest.raises(UserError, match=r"cat-file .*missing failed"):
        read_apt_lists(str(machine / "helper"))
