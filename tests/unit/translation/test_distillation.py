"""Distillation: a corpus of a model's own translations."""

from pathlib import Path

import pytest

from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.errors import SettingsError
from dragoman.search.config import SearchConfig
from dragoman.translation.distillation import distill, distinct_sources, write_pairs
from tests.support.small_translator import copy_translator


def test_sources_are_distinct_and_have_text() -> None:
    pairs = [Pair("b", "1"), Pair(" ", "2"), Pair("a", "3"), Pair("b", "4"), Pair("", "5")]
    assert distinct_sources(pairs) == ["b", "a"]


def test_split_truncated_and_empty_translations_are_left_out() -> None:
    translator, _ = copy_translator(max_source_tokens=12)
    sources = ["the lamp", "turn the lamp on now. " * 3, "open the door now please", "\0", "off"]
    done: list[int] = []
    search = SearchConfig(beam=1, max_length_factor=0, max_length_offset=4)
    tokens = [len(row) for row in translator.tokenizer.encode_source(["the lamp", "open the door now please", "off"])]
    assert tokens[1] > 4 >= max(tokens[0], tokens[2])
    pairs = distill(translator, sources, search=search, on_progress=done.append)
    assert pairs == [Pair("the lamp", "the lamp"), Pair("off", "off")]
    assert done == [1, 2, 3, 4, 5]


def test_pairs_are_written_as_a_corpus(tmp_path: Path) -> None:
    pairs = [Pair('tab\t "quotes"', "Ä💡"), Pair("line\u2028end", "x")]
    write_pairs(tmp_path / "out.jsonl", pairs)
    assert list(read_pairs(parse_corpus(str(tmp_path / "out.jsonl")))) == pairs
    with pytest.raises(SettingsError, match=r"ends in \.jsonl"):
        write_pairs(tmp_path / "out.tsv", pairs)
    assert not (tmp_path / "out.tsv").exists()
