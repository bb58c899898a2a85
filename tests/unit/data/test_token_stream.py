"""The prepared stream of tokens: documents, blocks, windows, damage."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

import dragoman.data.token_stream
from dragoman.data.texts import Part
from dragoman.data.token_stream import TokenStream, prepare_stream, windows_at
from dragoman.errors import CorpusError, StorageError
from dragoman.text.subwords import BOS, EOS, PAD
from tests.support.small_texts import KINDS, Kind, small_text, small_vocabulary, stream_of


def parts_of(documents: list[str], size: int) -> Iterator[Part]:
    for document in documents:
        for start in range(0, len(document), size):
            yield Part(document[start : start + size], False)
        yield Part("", True)


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_encoded_as_wholes(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = small_vocabulary(kind)
    documents = [small_text(), "a", "ü" * 3000, "the king " * 400]
    expected = [[BOS, *row, EOS] for row in vocabulary.encode(documents)]
    for size, together in ((7, 3), (10**6, 8192)):
        monkeypatch.setattr(dragoman.data.token_stream, "ENCODED_AT_ONCE", together)
        stream = prepare_stream(parts_of(documents, size), vocabulary, tmp_path / "stream")
        assert [stream.document(index).tolist() for index in range(4)] == expected
        assert stream.tokens.tolist() == list(chain(*expected))
    meta = TokenStream.open(tmp_path / "stream").meta
    assert (meta.tokens, meta.documents) == (sum(map(len, expected)), 4)
    assert (meta.characters, meta.bytes) == (sum(map(len, documents)), sum(len(text.encode()) for text in documents))
    assert meta.vocabulary_hash == vocabulary.vocabulary_hash


def test_files_are_in_a_standard_format(tmp_path: Path) -> None:
    stream = prepare_stream([Part("text", True)] * 3, small_vocabulary(), tmp_path / "stream")
    for name, array in (("tokens", stream.tokens), ("starts", stream.starts)):
        loaded = np.load(tmp_path / f"stream/{name}.npy", allow_pickle=False)
        assert loaded.dtype == array.dtype
        assert loaded.tolist() == array.tolist()


def test_no_documents_are_an_error_that_leaves_the_directory_unchanged(tmp_path: Path) -> None:
    prepare_stream([Part("text", True)], small_vocabulary(), tmp_path / "stream")
    with pytest.raises(CorpusError, match="no text to prepare"):
        prepare_stream([], small_vocabulary(), tmp_path / "stream")
    assert TokenStream.open(tmp_path / "stream").meta.documents == 1
    assert [path.name for path in tmp_path.iterdir()] == ["stream"]


@pytest.mark.parametrize("name", ["tokens.npy", "starts.npy", "meta.json"])
def test_missing_truncated_and_changed_files_are_errors(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "stream"
    prepare_stream([Part("text", True)] * 3, small_vocabulary(), directory)
    content = (directory / name).read_bytes()
    for changed in (None, b"", content[:-3], content + b"\0", content[:50], b"\x93NUMPY\x01\0\xff\xff{"):
        if changed is None:
            (directory / name).unlink()
        else:
            (directory / name).write_bytes(changed)
        with pytest.raises(StorageError, match=r"not a prepared text .* prepare it again"):
            TokenStream.open(directory)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("tokens", np.zeros(18, np.float32)),
        ("tokens", np.zeros((2, 9), np.uint16)),
        ("tokens", np.zeros(18, np.uint16)),  # does not end with EOS
        ("tokens", np.array([{}] * 18)),  # a pickle
        ("starts", np.array([0, 12, 6])),
        ("starts", np.array([1, 6, 12])),
        ("starts", np.array([0, 6, 17])),
        ("starts", np.array([0, 6])),
    ],
)
def test_hostile_arrays_are_errors(name: str, array: np.ndarray, tmp_path: Path) -> None:
    prepare_stream([Part("text", True)] * 3, small_vocabulary(), tmp_path)
    np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(StorageError, match="not a prepared text"):
        TokenStream.open(tmp_path)


def test_released_pages_are_read_again(tmp_path: Path) -> None:
    stream = prepare_stream([Part("text", True)], small_vocabulary(), tmp_path / "stream")
    view = stream.document(0)
    before = view.tolist()
    stream.release()
    assert view.tolist() == before
    for index in (-1, 1):
        with pytest.raises(IndexError):
            stream.document(index)


def test_windows_of_one_document_have_neither_documents_nor_mask() -> None:
    stream = stream_of([[10, 11, 12, 13, 14]])
    batch = windows_at(stream, np.array([0, 3]), 3)
    assert batch.tokens_in.tolist() == [[BOS, 10, 11], [12, 13, 14]]
    assert batch.tokens_out.tolist() == [[10, 11, 12], [13, 14, EOS]]
    assert (batch.documents, batch.target_mask, batch.tokens) == (None, None, 6)


def test_the_beginning_of_a_document_is_not_predicted() -> None:
    stream = stream_of([[10], [20, 21], [30]])
    batch = windows_at(stream, np.array([0, 2]), 7)
    assert batch.tokens_in.tolist() == [[BOS, 10, EOS, BOS, 20, 21, EOS], [EOS, BOS, 20, 21, EOS, BOS, 30]]
    assert batch.tokens_out.tolist() == [[10, EOS, PAD, 20, 21, EOS, PAD], [PAD, 20, 21, EOS, PAD, 30, EOS]]
    assert batch.documents is not None
    assert batch.documents.tolist() == [[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 2, 2]]
    assert batch.target_mask is not None
    assert torch.equal(batch.target_mask, batch.tokens_out != PAD)
    assert batch.tokens == 10
    second = batch.rows(1, 2)
    assert (second.tokens, second.tokens_out.tolist()) == (5, [[PAD, 20, 21, EOS, PAD, 30, EOS]])
    assert batch.to("cpu").tokens_in.tolist() == batch.tokens_in.tolist()


def test_a_window_that_ends_with_a_document_has_a_mask_and_one_document() -> None:
    batch = windows_at(stream_of([[10], [20]]), np.array([0]), 3)
    assert batch.documents is None
    assert batch.tokens_out.tolist() == [[10, EOS, PAD]]
    assert batch.tokens == 2
