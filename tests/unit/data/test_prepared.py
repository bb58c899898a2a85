"""Prepared corpora: the ids are read back unchanged and in order, from a memory map of the file."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.data import prepared
from dragoman.data.batching import BatchingConfig
from dragoman.data.prepared import PreparedCorpus, prepare
from dragoman.data.readers import Pair
from dragoman.errors import UserError
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from dragoman.training import stream
from dragoman.training.stream import BatchStream

WORDS = ["red", "blue", "green", "house", "tree", "river"]


def make_pairs(count: int) -> list[Pair]:
    return [Pair(" ".join(WORDS[(i * k) % 6] for k in range(i % 5)), f"{WORDS[i % 6]} {i}") for i in range(count)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(make_pairs(200), TokenizerConfig(vocabulary_size=300))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "BLOCK", 7)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 100])
def test_ids_are_read_back_in_order(tmp_path: Path, tokenizer: Tokenizer, count: int) -> None:
    pairs = make_pairs(count)
    prepare(iter(pairs), tokenizer, tmp_path / "corpus", max_tokens=50)
    corpus = PreparedCorpus.open(tmp_path / "corpus")
    assert len(corpus) == count
    source = [corpus.source(i).tolist() for i in range(count)]
    target = [corpus.target(i).tolist() for i in range(count)]
    assert source == tokenizer.encode_source([pair.source for pair in pairs])
    assert target == tokenizer.encode_target([pair.target for pair in pairs])
    assert corpus.source_lengths.tolist() == [len(row) for row in source]
    assert corpus.target_lengths.tolist() == [len(row) for row in target]
    assert corpus.meta.source_tokens == sum(map(len, source))
    assert corpus.meta.vocabulary_hash == tokenizer.vocabulary_hash


def test_rows_are_views_of_the_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = prepare(make_pairs(20), tokenizer, tmp_path / "corpus", max_tokens=50)
    assert corpus.source(3).dtype == np.uint16
    for array in (corpus.source(3), corpus.target(19), corpus.source_lengths):
        assert not array.flags.owndata
        assert not array.flags.writeable


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
def test_released_pages_use_no_memory_and_are_read_again(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "BLOCK", 16_384)
    long = [Pair("green house " * 400, "tree")] * 4000
    corpus = prepare(long, tokenizer, tmp_path / "corpus", max_tokens=4000)

    def resident() -> int:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssFile"))

    corpus.release()
    before, row = resident(), corpus.source(0)
    expected = row.tolist()
    for index in range(len(corpus)):
        assert corpus.source(index).sum() == sum(expected)
    size = (tmp_path / "corpus/subwords.arrow").stat().st_size // 1024
    read = resident()
    assert read - before > size // 2 > 1000
    corpus.release()
    assert resident() - before < (read - before) // 4
    assert row.tolist() == expected


@pytest.mark.parametrize("at_once", [3, 100])
def test_the_longest_batch_contains_the_longest_pairs(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(stream, "AT_ONCE", at_once)
    pairs = [Pair("red " * (1 + 7 * i % 20), "tree " * (1 + 3 * i % 20)) for i in range(20)]
    corpus = prepare(pairs, tokenizer, tmp_path / "corpus", max_tokens=50)
    lengths = np.maximum(corpus.source_lengths, corpus.target_lengths)
    budget = 4 * (int(lengths.max()) + 1)
    batch = BatchStream(corpus, tokenizer, BatchingConfig(batch_tokens=budget), seed=1).longest()
    sizes = torch.maximum(batch.source_mask.sum(1), batch.target_mask.sum(1)) - 1
    assert sorted(sizes.tolist()) == sorted(lengths.tolist())[-4:]


def test_indices_outside_the_corpus_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = prepare(make_pairs(20), tokenizer, tmp_path / "corpus", max_tokens=50)
    for index in (-1, 20, 21, 1000):
        with pytest.raises(IndexError):
            corpus.source(index)


def test_large_vocabularies_use_wider_ids(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = prepare(make_pairs(20), tokenizer, tmp_path / "narrow", max_tokens=50)
    monkeypatch.setattr(tokenizer, "target_size", 2**16 + 1)
    wide = prepare(make_pairs(20), tokenizer, tmp_path / "wide", max_tokens=50)
    assert wide.source(9).dtype == np.int32
    assert wide.source(9).tolist() == narrow.source(9).tolist()


def test_long_pairs_are_left_out_and_counted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = make_pairs(30)
    pairs[3] = Pair("tree " * 50, "tree")
    pairs[20] = Pair("tree", "tree " * 50)
    corpus = prepare(pairs, tokenizer, tmp_path / "corpus", max_tokens=30)
    assert (len(corpus), corpus.meta.dropped) == (28, 2)
    kept = [pair.target for i, pair in enumerate(pairs) if i not in (3, 20)]
    assert tokenizer.decode_target([corpus.target(i).tolist() for i in range(28)]) == kept


def test_threads_do_not_change_the_files(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for workers in (1, 3):
        prepare(make_pairs(50), tokenizer, tmp_path / str(workers), max_tokens=9, workers=workers)
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert names == ["lengths.arrow", "meta.json", "subwords.arrow"]
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes()


def test_a_failure_leaves_the_directory_unchanged(tmp_path: Path, tokenizer: Tokenizer) -> None:
    def broken() -> Iterator[Pair]:
        yield from make_pairs(20)
        raise UserError("corpus.tsv:21: no tab")

    with pytest.raises(UserError, match="no tab"):
        prepare(broken(), tokenizer, tmp_path / "corpus", max_tokens=50)
    assert list(tmp_path.iterdir()) == []
    prepare(make_pairs(5), tokenizer, tmp_path / "corpus", max_tokens=50)
    with pytest.raises(UserError, match="no tab"):
        prepare(broken(), tokenizer, tmp_path / "corpus", max_tokens=50)
    assert len(PreparedCorpus.open(tmp_path / "corpus")) == 5


def test_preparing_again_replaces(tmp_path: Path, tokenizer: Tokenizer) -> None:
    prepare(make_pairs(5), tokenizer, tmp_path / "corpus", max_tokens=50)
    assert len(prepare(make_pairs(9), tokenizer, tmp_path / "corpus", max_tokens=50)) == 9
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


@pytest.mark.parametrize("name", ["meta.json", "lengths.arrow", "subwords.arrow"])
def test_open_refuses_damage(tmp_path: Path, tokenizer: Tokenizer, name: str) -> None:
    corpus = tmp_path / "corpus"
    with pytest.raises(UserError, match="not a prepared corpus"):
        PreparedCorpus.open(corpus)
    prepare(make_pairs(20), tokenizer, corpus, max_tokens=50)
    whole = (corpus / name).read_bytes()
    for damaged in (b"", b"[]", b"{}", whole[: len(whole) // 2]):
        (corpus / name).write_bytes(damaged)
        with pytest.raises(UserError, match="prepare it again"):
            PreparedCorpus.open(corpus)


def test_open_refuses_other_versions_and_mixed_files(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = tmp_path / "corpus"
    prepare(make_pairs(20), tokenizer, corpus, max_tokens=50)
    meta = json.loads((corpus / "meta.json").read_text())
    for change, message in [({"version": 2}, "version 1, found 2"), ({"pairs": 19}, "different numbers")]:
        (corpus / "meta.json").write_text(json.dumps(meta | change))
        with pytest.raises(UserError, match=message):
            PreparedCorpus.open(corpus)


def test_rows_remain_valid_after_a_release(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = prepare(make_pairs(20), tokenizer, tmp_path / "corpus", max_tokens=50)
    row = corpus.source(3)
    before = row.tolist()
    corpus.release()
    assert row.tolist() == corpus.source(3).tolist() == before
