"""Wheels with any content: the result is pairs of clean lines, or a UserError."""

import contextlib
import io
import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from dragoman.corpora.debian_descriptions import PARAGRAPH, split_description
from dragoman.corpora.holdout import split_documents
from dragoman.corpora.home_assistant import extract
from dragoman.data.readers import Pair
from dragoman.data.splitting import fold
from dragoman.errors import UserError

texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["\ud800", "a\tb\nc"])
trees = st.recursive(
    texts | st.none() | st.integers(),
    lambda children: st.dictionaries(st.sampled_from("abc"), children, max_size=3) | st.lists(children, max_size=2),
    max_leaves=8,
)


def wheel_bytes(english: object, german: object) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("homeassistant-1.dist-info/licenses/LICENSE.md", "Apache License")
        for language, tree in (("en", english), ("de", german)):
            name = f"homeassistant/components/light/translations/{language}.json"
            archive.writestr(name, json.dumps(tree))
    return buffer.getvalue()


def extract_bytes(content: bytes) -> list[Pair]:
    with TemporaryDirectory() as directory:
        wheel = Path(directory) / "w.whl"
        wheel.write_bytes(content)
        return extract(wheel, "en", "de").documents.get("light", [])


@given(trees, trees)
def test_every_pair_is_one_line_of_utf_8(english: object, german: object) -> None:
    for pair in extract_bytes(wheel_bytes(english, german)):
        assert pair.source != pair.target
        for text in pair:
            assert text
            assert text == text.strip(" ")
            assert len(text.splitlines()) == 1
            assert "\t" not in text
            assert "  " not in text
            text.encode()


GOOD = wheel_bytes({"a": {"b": "one" * 20}, "c": "two"}, {"a": {"b": "eins"}, "c": "zwei"})


@given(
    st.integers(0, len(GOOD)),
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4),
)
def test_damage_raises_a_user_error(end: int, changes: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for offset, value in changes:
        content[offset] = value
    # Any other exception fails the test.
    with contextlib.suppress(UserError):
        extract_bytes(bytes(content[:end] if end % 3 == 0 else content))


@given(st.lists(st.text(st.sampled_from(" .\t\x85\u2028aé*"), max_size=6), max_size=8))
def test_a_description_is_two_lines_of_text(lines: list[str]) -> None:
    pair = split_description("\n ".join(lines))
    for text in pair:
        assert len(text.splitlines()) <= 1
        assert "\t" not in text
        assert "  " not in text
        assert text == text.strip(" ")
    # Only white space and paragraph separators are removed or inserted.
    kept = "".join([*lines[:1], *(line for line in lines[1:] if line.strip() != ".")])
    assert "".join((pair.target + pair.source.replace(PARAGRAPH, "")).split()) == "".join(kept.split())


phrases = st.sampled_from(["on", "On!", "off", "3 on", "4 on", "...", "auf", "zu", "an", "aus 1"])
documents = st.dictionaries(
    # By their hashes, about half of these names are in the training data and the others in the held-out parts.
    st.sampled_from(["mqtt", "light", "zha", "knx", "sql", "smtp", "roon", "alert", "aws"]),
    st.lists(st.builds(Pair, phrases, phrases), max_size=5),
)


@given(documents)
def test_held_out_parts_are_disjoint_from_each_other_and_from_training(documents: dict[str, list[Pair]]) -> None:
    split = split_documents(documents)
    for side in (0, 1):
        seen = {fold(pair[side]) for pair in split.train} | {""}
        for pair in [*split.test, *split.valid]:
            assert fold(pair[side]) not in seen
            seen.add(fold(pair[side]))
    kept = len(split.train) + len(split.valid) + len(split.test)
    assert kept + split.repeated + split.seen == sum(map(len, documents.values()))
    assert split == split_documents(dict(reversed(documents.items())))
