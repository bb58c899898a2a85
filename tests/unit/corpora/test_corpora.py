"""Corpora: downloading, aligning, holding out, and the errors of each step."""

import hashlib
import json
import os
import stat
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.corpus import Fetch, ListCorpora
from dragoman.corpora import download, fetch, home_assistant, list_corpora
from dragoman.corpora.download import Release, cache_directory, obtain, pip_download
from dragoman.corpora.folder import find
from dragoman.corpora.holdout import split_documents
from dragoman.corpora.home_assistant import LANGUAGES, RELEASE, extract, parse_pair
from dragoman.data.readers import Pair
from dragoman.data.splitting import fold
from dragoman.errors import SettingsError, UserError

LICENCE = "homeassistant-2026.2.3.dist-info/licenses/LICENSE.md"


def member(integration: str, language: str) -> str:
    return f"homeassistant/components/{integration}/translations/{language}.json"


def make_wheel(path: Path, members: Mapping[str, object], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Make a wheel with a licence and these members: bytes are written unchanged, other values as JSON."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in {LICENCE: b"Apache License", **members}.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            archive.writestr(name, data)
    return path


def two_languages(english: object, german: object, name: str = "light") -> dict[str, object]:
    return {member(name, "en"): english, member(name, "de"): german}


def word(number: int) -> str:
    """Return a different word for each number, without digits, because fold() makes all numbers equal."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def many_integrations(count: int) -> dict[str, object]:
    """Return the members of a wheel: for each integration, three strings of its own and one that all share."""
    members: dict[str, object] = {}
    for i in range(count):
        unique = [f"{word(i)} {device}" for device in ("lamp", "switch", "sensor {name}")]
        for language in ("en", "de"):
            tree = {"own": {str(n): f"{language}{text}" for n, text in enumerate(unique)}}
            shared = "Set up {name}?" if language == "en" else "{name} einrichten?"
            members[member(f"integration_{i}", language)] = {"common": shared, **tree}
    return members


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "homeassistant-1-py3-none-any.whl", many_integrations(60))


def read(path: Path) -> list[Pair]:
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    return [Pair(*line.split("\t")) for line in lines]


def everything_below(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


# Extraction


def test_texts_are_aligned_by_the_path_of_their_keys(tmp_path: Path) -> None:
    english = {"a": {"b": "one", "only_here": "lost"}, "a.b": "two", "z": "last"}
    german = {"z": "letzte", "a.b": "zwei", "a": {"b": "eins"}, "only_there": "fort"}
    wheel = make_wheel(tmp_path / "w.whl", two_languages(english, german))
    extracted = extract(wheel, "en", "de")
    assert extracted.documents == {"light": [Pair("one", "eins"), Pair("two", "zwei"), Pair("last", "letzte")]}
    assert extracted.version == "2026.2.3"
    assert extracted.licence == b"Apache License"


def test_both_directions_have_the_same_pairs(wheel: Path) -> None:
    forward, backward = extract(wheel, "en", "de"), extract(wheel, "de", "en")
    swapped = {name: [Pair(t, s) for s, t in pairs] for name, pairs in forward.documents.items()}
    assert swapped == backward.documents


def test_chinese_is_simplified_chinese(tmp_path: Path) -> None:
    members = {
        member("light", "en"): {"a": "on"},
        member("light", "zh-Hans"): {"a": "开"},
        member("light", "zh-Hant"): {"a": "開"},
    }
    wheel = make_wheel(tmp_path / "w.whl", members)
    assert extract(wheel, "zh", "en").documents == {"light": [Pair("开", "on")]}
    assert extract(wheel, "zh-Hant", "en").documents == {"light": [Pair("開", "on")]}


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    english = {"a": " ", "b": "WLAN", "c": "[%key:common::on%]", "d": "nul\0", "e": "\ud800", "f": "x"}
    german = {"a": "leer", "b": "WLAN", "c": "An", "d": "null", "e": "halb", "f": "y"}
    extracted = extract(make_wheel(tmp_path / "w.whl", two_languages(english, german)), "en", "de")
    assert extracted.documents == {"light": [Pair("x", "y")]}
    assert extracted.left_out == {
        "empty": 1,
        "reference": 1,
        "control characters": 2,
        "untranslated": 1,
    }


def test_a_pair_is_one_line_with_one_tab(tmp_path: Path) -> None:
    english = {"a": "\n one\n\n\ttwo\r\nthree\u2028four\x85five\x1c\x0bsix  seven "}
    german = {"a": "un\u00a0deux"}
    extracted = extract(make_wheel(tmp_path / "w.whl", two_languages(english, german)), "en", "de")
    assert extracted.documents["light"] == [
        # The no-break space is kept: it belongs to the orthography.
        Pair("one two three four five six seven", "un\u00a0deux")
    ]


@pytest.mark.parametrize(
    "german", [None, 3, True, "text", [], ["eins"], {"a": ["eins"]}, {"a": None}, {"a": {"b": "x"}}]
)
def test_values_that_are_not_text_are_ignored(tmp_path: Path, german: object) -> None:
    wheel = make_wheel(tmp_path / "w.whl", two_languages({"a": "one"}, german))
    assert extract(wheel, "en", "de").documents == {"light": []}


def test_other_files_are_not_read(tmp_path: Path) -> None:
    members = two_languages({"a": "one"}, {"a": "eins"}) | {
        "homeassistant/components/../../../etc/translations/en.json": b"not JSON",
        "/homeassistant/components/x/translations/en.json": b"not JSON",
        "homeassistant/components/x/y/translations/en.json": b"not JSON",
        "homeassistant/components/light/__init__.py": b"raise SystemExit('imported')",
        member("x", "en") + "\n": b"not JSON",
        member("x", "../en"): b"not JSON",
    }
    wheel = make_wheel(tmp_path / "w.whl", members)
    assert extract(wheel, "en", "de").documents == {"light": [Pair("one", "eins")]}
    assert everything_below(tmp_path) == [wheel]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "light/translations/de.json is not JSON"),
        (b"", "is not JSON"),
        (b'{"a": "\xff"}', "is not JSON"),
        (b'{"a":' * 200_000, "damaged"),
        (b" " * 16_000_001, "too large"),
    ],
    ids=["broken", "empty", "not utf-8", "deeply nested", "too large"],
)
def test_a_bad_translation_file_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    wheel = make_wheel(tmp_path / "w.whl", two_languages({"a": "one"}, content))
    with pytest.raises(UserError, match=message) as raised:
        extract(wheel, "en", "de")
    assert str(wheel) in str(raised.value)


def test_deep_nesting_that_json_accepts_is_read(tmp_path: Path) -> None:
    depth = 400
    english, german = (b'{"a":' * depth + text + b"}" * depth for text in (b'"one"', b'"eins"'))
    wheel = make_wheel(tmp_path / "w.whl", two_languages(english, german))
    assert extract(wheel, "en", "de").documents == {"light": [Pair("one", "eins")]}


def test_a_file_that_is_not_a_wheel_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04", b"not a zip"):
        (tmp_path / "w.whl").write_bytes(content)
        with pytest.raises(UserError, match="damaged"):
            extract(tmp_path / "w.whl", "en", "de")


@pytest.mark.parametrize("cut", [1, 30, 1000, 20_000])
def test_a_truncated_wheel_is_refused(wheel: Path, cut: int) -> None:
    wheel.write_bytes(wheel.read_bytes()[:-cut])
    with pytest.raises(UserError, match="damaged"):
        extract(wheel, "en", "de")


def test_a_wheel_with_unusual_compression_is_refused(tmp_path: Path) -> None:
    members = two_languages({"a": "one"}, {"a": "eins"})
    wheel = make_wheel(tmp_path / "w.whl", members, zipfile.ZIP_BZIP2)
    with pytest.raises(UserError, match="method that wheels do not use"):
        extract(wheel, "en", "de")


def test_a_wheel_of_another_project_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        archive.writestr(member("light", "en"), "{}")
    with pytest.raises(UserError, match="not a wheel of Home Assistant"):
        extract(tmp_path / "w.whl", "en", "de")


# Language pairs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("en-de", ("en", "de")),
        ("zh-en", ("zh", "en")),
        ("zh-Hans-en", ("zh", "en")),
        ("zh-Hant-zh", ("zh-Hant", "zh")),
        ("pt-pt-BR", ("pt", "pt-BR")),
        ("en-GB-sr-Latn", ("en-GB", "sr-Latn")),
    ],
)
def test_language_pairs(text: str, expected: tuple[str, str]) -> None:
    assert parse_pair(text) == expected


@pytest.mark.parametrize(
    "text", ["", "-", "en", "en-", "-en", "en-en", "zh-zh-Hans", "en-xx", "en_de", "en-de-fr", "../x-de"]
)
def test_invalid_language_pairs_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="en-de") as raised:
        parse_pair(text)
    assert repr(text) in str(raised.value)
    assert "zh-Hant" in str(raised.value)


# Held-out data


def test_held_out_pairs_do_not_occur_in_the_training_data(wheel: Path) -> None:
    documents = extract(wheel, "en", "de").documents
    split = split_documents(documents)
    held_out = [*split.valid, *split.test]
    assert split.valid
    assert split.test
    assert split.valid_documents
    assert split.test_documents
    for side in (0, 1):
        seen = {fold(pair[side]) for pair in split.train}
        folded = [fold(pair[side]) for pair in held_out]
        assert seen.isdisjoint(folded)
        assert len(set(folded)) == len(folded)
    # Whole documents are held out: a pair of a test document that is not in `test` occurs in a training document too.
    for name in split.test_documents:
        assert set(documents[name]) - set(split.test) == {Pair("Set up {name}?", "{name} einrichten?")}
    # Every pair is counted.
    kept = len(split.train) + len(held_out)
    assert kept + split.repeated + split.seen == sum(map(len, documents.values()))


def by_part(*pairs: tuple[str, Pair]) -> dict[str, list[Pair]]:
    """Return documents whose names have hashes in the given parts: train, valid, test."""
    names = {"train": "mqtt", "valid": "sql", "test": "alert"}
    documents: dict[str, list[Pair]] = {name: [] for name in names.values()}
    for part, pair in pairs:
        documents[names[part]].append(pair)
    return documents


@pytest.mark.parametrize(
    "held_out",
    [
        Pair("DELETE 7 files!", "Sieben entfernen"),
        Pair("Remove {n} files", "{name}: 12 Dateien löschen"),
        Pair("...", "Punkte"),
        Pair("Dots", "{dots}"),
    ],
    ids=["source seen", "target seen", "empty source", "empty target"],
)
@pytest.mark.parametrize("part", ["valid", "test"])
def test_a_pair_similar_to_one_in_training_is_not_held_out(part: str, held_out: Pair) -> None:
    seen = Pair("delete 3 files", "3 Dateien löschen")
    fresh = Pair("Something else", "Etwas anderes")
    split = split_documents(by_part(("train", seen), (part, held_out), (part, fresh)))
    assert split.train == [seen]
    assert [*split.valid, *split.test] == [fresh]
    assert split.seen == 1


def test_a_pair_in_both_held_out_parts_is_kept_in_test() -> None:
    pair = Pair("A sentence", "Ein Satz")
    split = split_documents(by_part(("valid", pair), ("test", pair), ("test", pair)))
    assert (split.train, split.valid, split.test, split.seen) == ([], [], [pair], 2)


def test_training_keeps_different_translations_once_each() -> None:
    pairs = [Pair("on", "an"), Pair("on", "ein"), Pair("on", "an")]
    split = split_documents(by_part(*(("train", pair) for pair in pairs)))
    assert (split.train, split.repeated) == (pairs[:2], 1)


def test_the_part_of_a_document_does_not_depend_on_other_documents() -> None:
    pairs = [Pair("a", "b")]
    names = [f"integration_{i}" for i in range(400)]
    everything = split_documents(dict.fromkeys(names, pairs))
    assert 8 <= len(everything.test_documents) <= 32
    assert 8 <= len(everything.valid_documents) <= 32
    few = split_documents(dict.fromkeys(reversed(names[:100]), pairs))
    assert few.test_documents == [n for n in everything.test_documents if n in names[:100]]


# Fetching


def test_the_list_of_corpora() -> None:
    sources = {source.name: source for source in list_corpora()}
    assert list(sources) == [
        *("home-assistant", "cmudict", "debian-summaries", "debian-sections"),
        *("copy", "reverse", "addition"),
        *("digits", "mnist-5k", "emoji"),
    ]
    assert [name for name, source in sources.items() if source.kind == "pictures"] == ["digits", "mnist-5k", "emoji"]
    assert [name for name, source in sources.items() if source.languages] == ["home-assistant"]
    assert [name for name, source in sources.items() if source.training_pairs] == ["copy", "reverse", "addition"]
    assert [name for name, source in sources.items() if source.download_bytes] == [
        *("home-assistant", "cmudict", "digits", "mnist-5k", "emoji"),
    ]
    source = sources["home-assistant"]
    assert source.licence == "Apache-2.0"
    assert {"en", "de", "fr", "zh"} < set(source.languages)
    assert source.languages == LANGUAGES
    assert 50e6 < source.download_bytes < 52e6


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("home-assistant", {}, "choose two, such as --pair en-de: .*zh-Hant"),
        ("home-assistant", {"pair": "en-de", "training_pairs": 10}, "remove --pairs"),
        ("cmudict", {"pair": "en-de"}, "remove --pair$"),
        ("cmudict", {"training_pairs": 10}, "remove --pairs"),
        ("debian-summaries", {"pair": "de-en"}, "remove --pair$"),
        ("debian-summaries", {"wheel": Path("x.whl")}, "not read from a wheel"),
        ("copy", {"pair": "en-de"}, "remove --pair$"),
        ("copy", {"training_pairs": 0}, "at least 1"),
        ("addition", {"wheel": Path("x.whl")}, "not read from a wheel"),
        ("digits", {}, "consists of pictures; use fetch_pictures"),
    ],
)
def test_options_that_a_corpus_does_not_have_are_refused(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        fetch(name, tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_lists_and_makes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ListCorpora().run()
    listed = capsys.readouterr().out
    assert all(f"{source.name}\n    {source.description}" in listed for source in list_corpora())
    assert "the number given with --pairs" in listed
    for ending in ("", " (already there)"):
        Fetch(name="copy", pairs=30, out=tmp_path).run()
        assert capsys.readouterr().out == (
            f"{tmp_path / 'copy'}: train.tsv 30 pairs, valid.tsv 1,000 pairs, test.tsv 1,080 pairs, "
            f"test-short.tsv 1,000 pairs{ending}\n"
        )


@pytest.mark.parametrize(
    ("name", "options", "messages"),
    [
        ("copy", {"training_pairs": 30}, ["Generating 30 examples of copy ..."]),
        (
            "home-assistant",
            {"pair": "en-de"},
            [
                "Downloading homeassistant 2026.2.3 (51 MB, once) ...",
                "Reading en-de from homeassistant-1-py3-none-any.whl ...",
            ],
        ),
    ],
)
def test_progress_is_reported_to_the_caller_and_nothing_is_printed(
    tmp_path: Path,
    wheel: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    options: dict[str, Any],
    messages: list[str],
) -> None:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(home_assistant, "RELEASE", replace(RELEASE, file_name=wheel.name, sha256=sha256))
    monkeypatch.setattr(download, "obtain", lambda release, cache: wheel)
    # Code that printed progress would print it on a terminal only.
    monkeypatch.setenv("FORCE_COLOR", "1")
    reported: list[str] = []
    assert not fetch(name, tmp_path / "reported", **options, on_progress=reported.append).already_there
    assert reported == messages
    reported.clear()
    assert fetch(name, tmp_path / "reported", **options, on_progress=reported.append).already_there
    assert reported == []
    fetch(name, tmp_path / "silent", **options)
    assert capfd.readouterr() == ("", "")


def test_the_verb_draws_progress_on_a_terminal_and_is_silent_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def made(directory: Path) -> str:
        Fetch(name="copy", pairs=30, out=directory).run()
        return capsys.readouterr().err

    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert made(tmp_path / "file") == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "Generating 30 examples of copy ..." in made(tmp_path / "terminal")


def test_a_fetched_corpus(wheel: Path, tmp_path: Path) -> None:
    files = fetch("home-assistant", tmp_path / "out", pair="en-de", wheel=wheel)
    folder = tmp_path / "out" / "home-assistant" / "en-de"
    assert files.directory == folder
    assert not files.already_there
    names = ["LICENSE", "README.md", "manifest.json", "test.tsv", "train.tsv", "valid.tsv"]
    assert everything_below(tmp_path / "out") == [folder / name for name in names]
    parts = {"train": files.train, "valid": files.valid, "test": files.test}
    assert {name: len(read(path)) for name, path in parts.items()} == files.pairs
    # 60 integrations of 4 strings.
    assert sum(files.pairs.values()) + sum(files.left_out.values()) == 240
    assert Pair("Set up {name}?", "{name} einrichten?") in read(files.train)

    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert manifest["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert manifest["version"] == "2026.2.3"
    assert manifest["licence"] == "Apache-2.0"
    assert (manifest["source_language"], manifest["target_language"]) == ("en", "de")
    assert manifest["pairs"] == files.pairs
    for name, sha256 in manifest["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "The Home Assistant Authors" in readme
    assert wheel.name in readme
    # The folder has the same permissions as any new folder, so others can read it too.
    (tmp_path / "new").mkdir()
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE((tmp_path / "new").stat().st_mode)


def test_fetching_again_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    first, second = (
        fetch("home-assistant", tmp_path / name, pair="en-de", wheel=wheel).directory for name in ("first", "second")
    )
    for path in everything_below(first):
        assert path.read_bytes() == (second / path.name).read_bytes()


def test_an_existing_folder_is_used_and_not_changed(wheel: Path, tmp_path: Path) -> None:
    first = fetch("home-assistant", tmp_path, pair="en-de", wheel=wheel)
    before = {path: path.stat().st_mtime_ns for path in everything_below(first.directory)}
    again = fetch("home-assistant", tmp_path, pair="en-de", wheel=wheel)
    assert again == replace(first, already_there=True)
    assert before == {path: path.stat().st_mtime_ns for path in everything_below(first.directory)}


def test_an_existing_folder_needs_no_download(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    release = replace(RELEASE, file_name=wheel.name, sha256=sha256)
    monkeypatch.setattr(home_assistant, "RELEASE", release)
    monkeypatch.setattr(download, "obtain", lambda release, cache: wheel)
    assert not fetch("home-assistant", tmp_path, pair="de-en").already_there

    def refuse(release: Release, cache: Path) -> Path:
        raise AssertionError("the wheel was requested")

    monkeypatch.setattr(download, "obtain", refuse)
    assert fetch("home-assistant", tmp_path, pair="de-en").already_there


def edit_training(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(b"my\town\n")


def delete_training(folder: Path) -> None:
    (folder / "train.tsv").unlink()


def edit_manifest(folder: Path) -> None:
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    (folder / "manifest.json").write_text(text.replace('"recipe": 1', '"recipe": 0'), encoding="utf-8")


def break_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b'{"files": []}')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit_training, "train.tsv changed"),
        (delete_training, "train.tsv changed"),
        (edit_manifest, "another release"),
        (break_manifest, "without the manifest"),
    ],
)
def test_a_changed_folder_is_never_overwritten(
    wheel: Path, tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    files = fetch("home-assistant", tmp_path, pair="en-de", wheel=wheel)
    change(files.directory)
    before = {path: path.read_bytes() for path in everything_below(tmp_path)}
    with pytest.raises(UserError, match=message) as raised:
        fetch("home-assistant", tmp_path, pair="en-de", wheel=wheel)
    assert "remove it, or choose another directory" in str(raised.value)
    assert before == {path: path.read_bytes() for path in everything_below(tmp_path)}


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"{}", b"\xff", b"[" * 200_000])
def test_a_folder_with_another_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(UserError, match="exists already"):
        find(tmp_path, {"corpus": "home-assistant"})


def test_a_file_in_place_of_the_folder_is_refused(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "home-assistant").mkdir()
    (tmp_path / "home-assistant" / "en-de").write_bytes(b"mine")
    with pytest.raises(UserError, match="exists already"):
        fetch("home-assistant", tmp_path, pair="en-de", wheel=wheel)
    (tmp_path / "other").write_bytes(b"mine")
    with pytest.raises(UserError, match="cannot be written"):
        fetch("home-assistant", tmp_path / "other", pair="en-de", wheel=wheel)


def test_an_interrupted_write_leaves_no_files(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def interrupt(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch("home-assistant", tmp_path / "out", pair="en-de", wheel=wheel)
    assert len(written) == 3
    assert everything_below(tmp_path / "out") == []
    assert list((tmp_path / "out" / "home-assistant").iterdir()) == []


def test_invalid_requests_are_refused(wheel: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match=r"'hansard'.*home-assistant"):
        fetch("hansard", out, pair="en-de", wheel=wheel)
    with pytest.raises(UserError, match="'en-tlh'"):
        fetch("home-assistant", out, pair="en-tlh", wheel=wheel)
    with pytest.raises(UserError, match="too few texts in both fr and de"):
        fetch("home-assistant", out, pair="fr-de", wheel=wheel)
    with pytest.raises(UserError, match="cannot be read"):
        fetch("home-assistant", out, pair="en-de", wheel=tmp_path / "missing.whl")
    wheel.write_bytes(wheel.read_bytes()[:5000])
    with pytest.raises(UserError, match="damaged"):
        fetch("home-assistant", out, pair="en-de", wheel=wheel)
    assert not out.exists()


# Downloads


CONTENT = b"published content"
PUBLISHED = Release(
    project="somewhere",
    version="1.0",
    file_name="somewhere-1.0-py3-none-any.whl",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    python="3.14",
)


def downloading(content: bytes) -> Callable[[Release, Path], None]:
    def download(release: Release, directory: Path) -> None:
        (directory / release.file_name).write_bytes(content)

    return download


def fail(release: Release, directory: Path) -> None:
    (directory / release.file_name).write_bytes(CONTENT[:5])
    raise UserError("the connection was lost")


def test_a_download_is_kept(tmp_path: Path) -> None:
    wheel = obtain(PUBLISHED, tmp_path / "cache", downloading(CONTENT))
    assert wheel.read_bytes() == CONTENT
    assert obtain(PUBLISHED, tmp_path / "cache", fail) == wheel
    assert everything_below(tmp_path) == [wheel]


@pytest.mark.parametrize(
    ("download", "message"),
    [
        (downloading(b"something else"), "the downloaded file is not the published one"),
        (lambda release, directory: None, "the downloaded file is not the published one"),
        (fail, "(?s)the connection was lost.*save it as .*somewhere-1.0-py3-none-any.whl"),
    ],
    ids=["other content", "nothing", "failure"],
)
def test_a_failed_download_leaves_no_files(
    tmp_path: Path, download: Callable[[Release, Path], None], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        obtain(PUBLISHED, tmp_path, download)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_cache_is_replaced(tmp_path: Path) -> None:
    (tmp_path / PUBLISHED.file_name).write_bytes(CONTENT[:-1])
    with pytest.raises(UserError):
        obtain(PUBLISHED, tmp_path, fail)
    assert obtain(PUBLISHED, tmp_path, downloading(CONTENT)).read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="set XDG_CACHE_HOME"):
        obtain(PUBLISHED, tmp_path / "file" / "cache", downloading(CONTENT))


def test_the_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "dragoman"
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_directory() == tmp_path / ".cache" / "dragoman"


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pip use no index and none of this machine's settings."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def test_pip_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(UserError) as raised:
        fetch("home-assistant", tmp_path / "out", pair="en-de")
    message = str(raised.value)
    assert "pip could not download homeassistant 2026.2.3 (51 MB, needed once)" in message
    assert "ERROR: No matching distribution found" in message
    assert str(tmp_path / "cache" / "dragoman" / RELEASE.file_name) in message
    assert everything_below(tmp_path) == []
    assert not (tmp_path / "out").exists()


def test_pip_checks_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    links = tmp_path / "links"
    links.mkdir()
    info = "somewhere-1.0.dist-info"
    with zipfile.ZipFile(links / PUBLISHED.file_name, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: somewhere\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    with pytest.raises(UserError, match=r"pip could not download somewhere 1\.0") as raised:
        obtain(PUBLISHED, tmp_path / "cache", pip_download)
    assert "DO NOT MATCH THE HASHES" in str(raised.value)
    assert everything_below(tmp_path / "cache") == []
    # With the correct hash, the download succeeds.
    sha256 = hashlib.sha256((links / PUBLISHED.file_name).read_bytes()).hexdigest()
    wheel = obtain(replace(PUBLISHED, sha256=sha256), tmp_path / "cache", pip_download)
    assert everything_below(tmp_path / "cache") == [wheel]


def test_an_error_about_a_missing_pip_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(UserError, match="ensurepip"):
        obtain(PUBLISHED, tmp_path / "cache", pip_download)
    assert everything_below(tmp_path / "cache") == []
