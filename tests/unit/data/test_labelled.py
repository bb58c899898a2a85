"""Texts with labels: readers, rows and batches."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching import Cursor
from dragoman.data.labelled import (
    NOTHING,
    LabelledCorpus,
    LabelledStream,
    first_tokens,
    label_rows,
    read_tagged,
    tag_rows,
)
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError, StorageError
from dragoman.text.subwords import BOS, EOS
from dragoman.text.vocabulary import VocabularyConfig, train_vocabulary

VOCABULARY = train_vocabulary(["the lamp is on.\nplease wait\n"] * 9, VocabularyConfig(vocabulary_size=300))


def test_sentences_of_words_and_tags(tmp_path: Path) -> None:
    file = tmp_path / "words.conll"
    file.write_bytes(b"\nThe\tO\nlamp\tB-X\r\n\n\nWait\tO\n")
    assert list(read_tagged(file)) == [Pair("The lamp", "O B-X"), Pair("Wait", "O")]
    for wrong in (b"The\n", b"The O\n", b"a\tb\tc\n", b"two words\tO\n"):
        file.write_bytes(b"The\tO\n" + wrong)
        with pytest.raises(CorpusError, match=r"words\.conll:2: expected a word, a tab and its tag"):
            list(read_tagged(file))


def test_the_label_of_a_text_is_the_target_of_its_first_token() -> None:
    pairs = [Pair("please wait", "b"), Pair("the lamp is on. " * 9, "a"), Pair("on", "unknown")]
    rows = [row for [row] in label_rows(pairs, VOCABULARY, ["a", "b"], context=12)]
    assert [row.targets[0] for row in rows] == [1, 0, NOTHING]
    assert all(row.targets[1:] == [NOTHING] * (len(row.tokens) - 1) for row in rows)
    assert all((row.tokens[0], row.tokens[-1]) == (BOS, EOS) for row in rows)
    assert len(rows[1].tokens) == 12


WORD = st.text(alphabet="abelmpth.é灯", min_size=1, max_size=6)


@given(st.lists(st.tuples(WORD, st.sampled_from("XYZ")), min_size=1, max_size=12), st.integers(5, 40))
def test_each_word_has_one_tag_at_its_first_token(sentence: list[tuple[str, str]], context: int) -> None:
    words, tags = zip(*sentence, strict=True)
    [rows] = tag_rows([Pair(" ".join(words), " ".join(tags))], VOCABULARY, ["X", "Y", "Z"], context)
    assert all(3 <= len(row.tokens) <= context for row in rows)
    found = [row.targets[position] for row in rows for position in row.positions]
    assert len(found) == len(words)
    sizes = [len(VOCABULARY.token_bytes[token]) for token in VOCABULARY.encode([" ".join(words)])[0]]
    firsts = first_tokens(words, sizes)
    assert firsts == sorted(firsts)
    if len(set(firsts)) == len(firsts) and len(rows) == 1 and len(sizes) <= context - 2:
        assert ["XYZ"[target] for target in found] == list(tags)
        assert rows[0].positions == [1 + first for first in firsts]


def test_a_corpus_is_read_as_it_was_written_and_its_batches_can_be_resumed(tmp_path: Path) -> None:
    pairs = [Pair("the lamp " * length, "ab"[length % 2]) for length in range(1, 30)]
    corpus = LabelledCorpus.of([row for [row] in label_rows(pairs, VOCABULARY, ["a", "b"], context=99)])
    corpus.save(tmp_path / "prepared")
    opened = LabelledCorpus.open(tmp_path / "prepared")
    for name in ("tokens", "targets", "starts"):
        np.testing.assert_array_equal(getattr(opened, name), getattr(corpus, name))
    stream = LabelledStream(opened, batch_tokens=200, seed=1)
    batches = stream.from_cursor(Cursor())
    earlier = [next(batches) for _ in range(6)]
    resumed = stream.from_cursor(earlier[2][1])
    for batch, cursor in earlier[3:]:
        again, following = next(resumed)
        assert following == cursor
        assert again.tokens.equal(batch.tokens)
        assert again.targets.equal(batch.targets)
        assert batch.predicted == len(batch.tokens)
    assert stream.longest().tokens.shape[1] == corpus.lengths.max()
    np.save(tmp_path / "prepared" / "targets.npy", np.zeros(3, dtype=np.int32))
    with pytest.raises(StorageError, match="different lengths"):
        LabelledCorpus.open(tmp_path / "prepared")
