"""The vocabulary of running text: kinds, learning, files."""

import json
from pathlib import Path

import pytest

from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.text.character_model import CharacterModel
from dragoman.text.model_reading import read_model
from dragoman.text.subwords import BOS, EOS, PAD, UNK
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from dragoman.text.vocabulary import Vocabulary, VocabularyConfig, train_vocabulary
from tests.support.small_texts import KINDS, Kind, small_text, small_vocabulary


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return small_vocabulary(request.param)


def characters(text: str, size: int = 8000) -> Vocabulary:
    return train_vocabulary([text], VocabularyConfig(kind="character", vocabulary_size=size))


def test_each_character_is_a_token() -> None:
    vocabulary = characters("naïve\n text")
    letters = "\n aentvxï"
    assert vocabulary.size == 260 + len(letters)
    assert vocabulary.encode([letters]) == [[260 + index for index in range(len(letters))]]
    assert vocabulary.texts(range(vocabulary.size - 9, vocabulary.size)) == ["<0x0A>", "▁", *letters[2:]]
    # Other characters are bytes, also between known ones.
    assert vocabulary.encode(["aüx"]) == [[262, 4 + 0xC3, 4 + 0xBC, 267]]
    assert vocabulary.texts([*range(4), 4, 4 + ord("A"), 4 + ord(" "), 4 + 0xC3]) == [
        "<pad>", "<unk>", "<s>", "</s>", "<0x00>", "A", "▁", "<0xC3>",
    ]  # fmt: skip


def test_the_rarest_characters_of_a_large_alphabet_are_bytes() -> None:
    alphabet = [chr(0x4E00 + index) for index in range(100)]
    vocabulary = characters("".join(alphabet) + "".join(alphabet[60:]), 300)
    assert vocabulary.size == 300
    assert [len(row) for row in vocabulary.encode([alphabet[0], alphabet[59], alphabet[60]])] == [3, 3, 1]


def test_bytes_are_tokens() -> None:
    vocabulary = small_vocabulary("byte")
    assert vocabulary.size == 260
    assert vocabulary.encode(["é\n"]) == [[4 + byte for byte in "é\n".encode()]]
    assert vocabulary.byte_ids == list(range(4, 260))


def test_a_line_feed_is_a_token_of_its_own(vocabulary: Vocabulary) -> None:
    [row] = vocabulary.encode(["the king\n\nthe"])
    texts = vocabulary.texts(row)
    assert texts.count("<0x0A>") == 2
    assert not any("\n" in text for text in texts)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_no_space_is_assumed_before_a_text(kind: Kind) -> None:
    vocabulary = small_vocabulary(kind)
    joined, first, second = vocabulary.encode(["the king", "the", " king"])
    assert joined == first + second
    assert "".join(vocabulary.texts(first)) == "the"
    assert vocabulary.texts(second) == ["▁king"]


def test_special_symbols_have_no_text_and_unknown_bytes_are_replaced(vocabulary: Vocabulary) -> None:
    [row] = vocabulary.encode(["a中"])
    assert vocabulary.decode([[BOS, *row, EOS, PAD], [UNK], row[:-1], []]) == ["a中", "\ufffd", "a\ufffd", ""]
    assert vocabulary.decode(vocabulary.encode(["a\ud800b", "\ud83d\ude00"])) == ["a\ufffdb", "😀"]


def test_saving_and_loading(vocabulary: Vocabulary, tmp_path: Path) -> None:
    vocabulary.save(tmp_path)
    loaded = Vocabulary.load(tmp_path)
    text = small_text() + "\0中"
    assert loaded.encode([text]) == vocabulary.encode([text])
    assert (loaded.size, loaded.vocabulary_hash) == (vocabulary.size, vocabulary.vocabulary_hash)
    with pytest.raises(ModelError, match="not those that config"):
        Vocabulary.load(tmp_path, {"tokenizer.model": "0" * 64})
    with pytest.raises(ModelError, match="does not list it"):
        Vocabulary.load(tmp_path, {})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.model: the tokenizer cannot be read \(No such file"):
        Vocabulary.load(tmp_path)


def test_vocabularies_of_lines_and_of_running_text_are_not_exchanged(tmp_path: Path) -> None:
    small_vocabulary("unigram").save(tmp_path / "running")
    pairs = [("one two three", "eins zwei drei")] * 10
    train_tokenizer(pairs, TokenizerConfig(vocabulary_size=300)).save(tmp_path / "lines")
    with pytest.raises(ModelError, match="it is the vocabulary of a language model"):
        Tokenizer.load(tmp_path / "running")
    with pytest.raises(ModelError, match="it is the vocabulary of a translation model"):
        Vocabulary.load(tmp_path / "lines")
    # Characters are the same in both.
    train_tokenizer(pairs, TokenizerConfig(kind="character")).save(tmp_path / "characters")
    [row] = Vocabulary.load(tmp_path / "characters").encode(["drei"])
    assert Tokenizer.load(tmp_path / "characters").decode_target([row]) == ["drei"]


def test_learning_does_not_depend_on_the_blocks_of_lines() -> None:
    text = small_text()
    for kind in KINDS:
        config = VocabularyConfig(kind=kind, vocabulary_size=320)
        by_line = train_vocabulary(text.splitlines(keepends=True), config)
        assert by_line.vocabulary_hash == small_vocabulary(kind).vocabulary_hash


def test_subwords_of_a_large_text_are_learned_from_a_sample() -> None:
    lines = [f"{number:05d} the king\n" for number in range(2000)]
    config = VocabularyConfig(kind="bpe", vocabulary_size=300, max_training_bytes=4096)
    vocabulary = train_vocabulary((line for line in lines), config)
    assert vocabulary.vocabulary_hash == train_vocabulary(lines, config).vocabulary_hash
    # All words are known, and text that was not in the sample is encoded as well.
    assert vocabulary.decode(vocabulary.encode(lines)) == lines
    assert "▁king" in vocabulary.texts(vocabulary.encode([lines[0]])[0])


@pytest.mark.parametrize("kind", ["unigram", "bpe", "character"])
def test_no_text_to_learn_from(kind: Kind) -> None:
    with pytest.raises(CorpusError, match="no text to learn"):
        train_vocabulary([""], VocabularyConfig(kind=kind))


@pytest.mark.parametrize(
    "changes",
    [{"kind": "word"}, {"vocabulary_size": 299}, {"max_training_bytes": 100}, {"character_coverage": 1.1}],
    ids=lambda changes: next(iter(changes)),
)
def test_invalid_settings(changes: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=f"{next(iter(changes)).removeprefix('max_')}|choose unigram"):
        VocabularyConfig(**changes)  # type: ignore[arg-type]


HOSTILE = {
    "other key": {"characters": "ab", "more": 1},
    "no characters": {},
    "not text": {"characters": ["a", "b"]},
    "not ascending": {"characters": "ba"},
    "twice": {"characters": "aa"},
    "surrogate": {"characters": "\ud800"},
    "space mark": {"characters": "a▁"},
}


@pytest.mark.parametrize(
    "content", [*map(json.dumps, HOSTILE.values()), "{", "{}{}", '{"characters":"a\udc80"}', "{" * 9999]
)
def test_damaged_files_of_characters_are_refused(content: str) -> None:
    with pytest.raises(ValueError, match=r"character|expected|U\+2581|JSON|delimiter|UTF-8|Expecting|Extra|nested"):
        read_model(content.encode(errors="surrogateescape"))


def test_a_file_of_characters_contains_only_them() -> None:
    assert CharacterModel.of("cab▁").serialized == b'{"characters": "abc"}'
