"""Debian's sections: artificial lists of apt, converted to pairs of description and section."""

from pathlib import Path

import pytest

from dragoman.corpora.apt import AptList
from dragoman.corpora.debian_sections import extract, fetch
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.data.splitting import fold
from dragoman.errors import UserError


def lists_of(*entries: tuple[str, str, str, str]) -> list[AptList]:
    """Return the lists with these packages: name, source package, section, description."""
    packages = [
        f"Package: {name}\n" + (f"Source: {source}\n" if source else "") + (f"Section: {section}\n" if section else "")
        for name, source, section, _ in entries
    ]
    described = [f"Package: {name}\nDescription-en: {text}\n" for name, _, _, text in entries]
    return [
        AptList(kind="Packages", name="someday/main Packages", content="\n".join(packages).encode()),
        AptList(kind="Translations", name="someday/main Translation-en", content="\n".join(described).encode()),
    ]


def word(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def test_a_description_and_its_section() -> None:
    lists = lists_of(
        ("chess-1", "", "contrib/games", "chess\n A game.\n .\n For two."),
        ("chess-2", "chess-1 (2.0)", "games", "chess, again\n A game."),
        ("chess-data", "chess-1", "games", "chess, again\n A game."),
        ("old", "", "oldlibs", "x\n Y."),
        ("none", "", "", "x\n Y."),
        ("short", "", "games", "x"),
        ("nul", "", "games", "x\n nul\0"),
        ("ftp", "", "net", "files\n A client."),
    )
    documents, left_out = extract(lists, least=2)
    assert documents["chess"] == [Pair("chess ¶ A game. ¶ For two.", "games"), Pair("chess, again ¶ A game.", "games")]
    assert left_out == {
        "no long description": 1,
        "control characters": 1,
        "no topic": 2,
        "repeated in its family": 1,
        "rare section": 1,
    }


def test_a_fetched_corpus(tmp_path: Path) -> None:
    lists = lists_of(
        *((f"{word(i)}x", "", ("games", "net")[i % 2], f"about {word(i)}\n It is {word(i)}.") for i in range(300))
    )
    files = fetch(tmp_path, lambda: lists)
    parts = {name: list(read_pairs(parse_corpus(str(files.directory / f"{name}.tsv")))) for name in files.pairs}
    assert {name: len(pairs) for name, pairs in parts.items()} == files.pairs
    # Labels of the parts are the same; texts are not.
    assert {pair.target for pairs in parts.values() for pair in pairs} == {"games", "net"}
    assert {pair.target for pair in parts["test"]} <= {pair.target for pair in parts["train"]}
    seen = {fold(pair.source) for pair in parts["train"]}
    assert seen.isdisjoint(fold(pair.source) for pair in parts["valid"] + parts["test"])
    assert sum(files.pairs.values()) + sum(files.left_out.values()) == 300


def test_a_description_in_the_training_data_is_not_held_out(tmp_path: Path) -> None:
    lists = lists_of(*((f"{word(i)}x", "", "games", f"about {word(i)}\n Always the same.") for i in range(300)))
    with pytest.raises(UserError, match="too few descriptions"):
        fetch(tmp_path, lambda: lists)
