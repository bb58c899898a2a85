"""The tokenizer: encoding, decoding, sampling, saving and loading, and errors."""

import json
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.data.readers import Pair
from dragoman.errors import UserError
from dragoman.text.subword_sampling import SegmentationSampler
from dragoman.text.tokenizer import (
    BOS,
    EOS,
    PAD,
    UNK,
    Tokenizer,
    TokenizerConfig,
    train_tokenizer,
)
from dragoman.text.words import Words

ENGLISH = ["one", "two", "three", "four", "five", "hundred", "thousand", "and"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "hundert", "tausend", "und"]


def pairs() -> Iterator[Pair]:
    for i in range(400):
        indices = [(i * step) % 8 for step in (1, 3, 5, 7)]
        yield Pair(" ".join(ENGLISH[k] for k in indices), " ".join(GERMAN[k] for k in indices))


def config(**changes: object) -> TokenizerConfig:
    return TokenizerConfig(**({"vocabulary_size": 320} | changes))  # type: ignore[arg-type]


def symbols(digits: str = "0123456789", count: int = 400) -> list[Pair]:
    draw = random.Random(0)
    rows = [draw.choices(digits, k=draw.randint(1, 20)) for _ in range(count)]
    return [Pair(" ".join(row), " ".join(reversed(row))) for row in rows]


@pytest.fixture(scope="module", params=["unigram", "bpe", "word", "character", "byte"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(pairs(), config(kind=request.param))


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word"])
def test_known_words_take_few_subwords(kind: str) -> None:
    tokenizer = train_tokenizer(pairs(), config(kind=kind))
    assert len(tokenizer.encode_source(["three hundred and four"])[0]) <= 8


def test_known_words_take_no_special_symbols(tokenizer: Tokenizer) -> None:
    [ids] = tokenizer.encode_source(["three hundred and four"])
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert tokenizer.decode_source([ids]) == ["three hundred and four"]


@pytest.mark.parametrize(
    "text",
    ["", " ", "  two  spaces ", "tab\tand\r", "NUL\0x", "a\nb", "\u2028\u2029\x85\x0b", "\ufeff",
     "▁", "a▁b ▁▁", "\U0010ffff▁", "<s> </s> <pad> <unk> <0x41>", "中文😀", "é é", "\ufffd"],
)  # fmt: skip
def test_decoding_returns_the_encoded_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode_target([text])
    assert not {PAD, UNK, BOS, EOS} & set(ids[0])
    assert tokenizer.decode_target(ids) == [text]


def test_lone_surrogates_become_replacement_characters(tokenizer: Tokenizer) -> None:
    rows = tokenizer.encode_source(["a\ud800b", "\ud83d\ude00"])
    assert tokenizer.decode_source(rows) == ["a\ufffdb", "😀"]


def test_a_symbol_is_one_token_of_the_word_kind_and_two_of_the_others() -> None:
    lines = ["3 1 4", "2 7 1 8"]
    word = train_tokenizer(symbols(), TokenizerConfig(kind="word"))
    # 4 special symbols, 256 byte symbols and 10 digits, although vocabulary_size is larger.
    assert word.source_size == 270
    assert [len(row) for row in word.encode_source(lines)] == [3, 4]
    assert word.decode_target(word.encode_target(lines)) == lines
    for kind in ("unigram", "bpe"):
        subwords = train_tokenizer(symbols(), config(kind=kind))
        assert [len(row) for row in subwords.encode_source(lines)] == [6, 8]


def test_symbols_of_several_letters_and_separate_vocabularies() -> None:
    spoken = [Pair("t h r e e", "TH R IY"), Pair("t w o", "T UW"), Pair("f o u r", "F AO R")] * 20
    tokenizer = train_tokenizer(spoken, TokenizerConfig(kind="word", joint=False))
    assert (tokenizer.source_size, tokenizer.target_size) == (260 + 8, 260 + 7)
    [ids] = tokenizer.encode_target(["TH R UW T"])
    assert len(set(ids)) == 4
    assert tokenizer.decode_target([ids]) == ["TH R UW T"]
    # A part of a symbol is not a symbol.
    assert set(tokenizer.encode_target(["A O"])[0]) <= set(tokenizer.target_bytes)


def test_unknown_symbols_are_encoded_as_bytes_with_their_spaces() -> None:
    tokenizer = train_tokenizer(symbols("01"), TokenizerConfig(kind="word"))
    zero, one = (tokenizer.encode_source([digit])[0][0] for digit in "01")
    spelled = {letter: tokenizer.target_bytes[ord(letter)] for letter in " x10"}
    space, x = spelled[" "], spelled["x"]
    expected = {
        "0 x 1": [zero, space, x, one],
        "x 1": [x, one],
        "10 1": [spelled["1"], spelled["0"], one],
        # A space that belongs to no symbol.
        "0  1": [zero, space, one],
        " 1": [space, spelled["1"]],
        "1 ": [one, space],
    }
    assert tokenizer.encode_source(list(expected)) == list(expected.values())
    assert tokenizer.decode_source(list(expected.values())) == list(expected)


def test_the_rarest_symbols_are_encoded_as_bytes_if_the_vocabulary_is_small() -> None:
    letters = [chr(0x4E00 + i) for i in range(60)]
    often = [Pair(" ".join(letters[:30]), " ".join(letters[:30]))] * 3
    rows = [Pair(" ".join(letters), " ".join(letters)), *often]
    tokenizer = train_tokenizer(rows, TokenizerConfig(kind="word", vocabulary_size=300))
    assert tokenizer.source_size == 300
    assert len(tokenizer.encode_source([" ".join(letters[:30])])[0]) == 30
    assert tokenizer.decode_source(tokenizer.encode_source([" ".join(letters)])) == [" ".join(letters)]


@pytest.mark.parametrize("kind", ["word", "character", "byte"])
def test_sampling_does_not_change_symbols_characters_and_bytes(kind: str) -> None:
    tokenizer = train_tokenizer(symbols(), config(kind=kind))
    lines = ["3 1 4", "0 x 1"]
    assert tokenizer.sample_source(lines, 0.1, seed=1) == tokenizer.encode_source(lines)


@pytest.mark.parametrize("kind", ["character", "byte"])
def test_characters_and_bytes_are_grouped_into_words(kind: str) -> None:
    tokenizer = train_tokenizer(pairs(), config(kind=kind))
    [ids] = tokenizer.encode_target(["fünf und vier"])
    assert Words.from_tokens(tokenizer.target_texts(ids)).texts == ("fünf", "und", "vier")


def test_ids_that_are_not_utf8_decode_to_replacement_characters(tokenizer: Tokenizer) -> None:
    first_byte_of_three = tokenizer.encode_source(["中"])[0][-3]
    assert "\ufffd" in tokenizer.decode_source([[first_byte_of_three]])[0]


def test_no_lines_and_empty_rows(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_source([]) == []
    assert tokenizer.sample_source([], 0.1, 0) == []
    assert tokenizer.decode_source([]) == []
    assert tokenizer.decode_source([[], []]) == ["", ""]


def test_threads_do_not_change_the_encoding(tokenizer: Tokenizer) -> None:
    lines = [pair.source for pair in pairs()]
    assert tokenizer.encode_source(lines, workers=4) == tokenizer.encode_source(lines)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sampling_is_a_function_of_lines_alpha_and_seed(kind: str) -> None:
    tokenizer = train_tokenizer(pairs(), config(kind=kind))
    lines = [*(pair.source for pair in list(pairs())[:50]), "▁ and"]
    first = tokenizer.sample_source(lines, 0.2, seed=7)
    tokenizer.sample_source(lines, 0.2, seed=8)
    assert tokenizer.sample_source(lines, 0.2, seed=7) == first
    assert tokenizer.sample_source(lines, 0.2, seed=8) != first
    assert tokenizer.sample_source(lines[:1], 0.2, seed=7) == first[:1]
    assert tokenizer.decode_source(first) == lines


def test_training_is_deterministic_and_separate_vocabularies_differ() -> None:
    joint = [train_tokenizer(pairs(), config()) for _ in range(2)]
    assert joint[0].vocabulary_hash == joint[1].vocabulary_hash
    separate = train_tokenizer(pairs(), config(joint=False))
    assert not separate.joint
    assert separate.vocabulary_hash != joint[0].vocabulary_hash
    english = separate.encode_source(["thousand"]), separate.encode_target(["thousand"])
    assert len(english[0][0]) < len(english[1][0])


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word", "character"])
def test_a_small_corpus_gets_a_smaller_vocabulary(kind: str) -> None:
    tokenizer = train_tokenizer(pairs(), config(kind=kind, vocabulary_size=30_000))
    assert 260 < tokenizer.source_size < 1000
    assert tokenizer.source_size == tokenizer.target_size


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word", "character", "byte"])
def test_training_on_hostile_lines_is_quiet(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    hostile = ["", " ", "▁", "\0", "a\nb", "\ud800", "\t", "\u2047", "q" * 100_000]
    train_tokenizer([*pairs(), *(Pair(text, text) for text in hostile)], config(kind=kind))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


SAMPLE = """
import json, sys
from pathlib import Path
from dragoman.text.tokenizer import Tokenizer
tokenizer = Tokenizer.load(Path(sys.argv[1]))
print(json.dumps(tokenizer.sample_source(["three hundred and four thousand"] * 50, 0.2, seed=7)))
"""


def test_another_process_samples_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    command = [sys.executable, "-c", SAMPLE, str(tmp_path)]
    elsewhere = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert elsewhere == tokenizer.sample_source(["three hundred and four thousand"] * 50, 0.2, seed=7)


def test_only_a_sample_is_learned_from() -> None:
    noise = (Pair("xyzzy" * 3, "xyzzy" * 3) for _ in range(3))
    few = train_tokenizer([*pairs(), *noise], config(max_training_pairs=20))
    assert few.decode_source(few.encode_source(["one xyzzy"])) == ["one xyzzy"]
    assert few.vocabulary_hash != train_tokenizer([*pairs(), *noise], config()).vocabulary_hash


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", ["unigram", "word"])
def test_save_and_load(tmp_path: Path, joint: bool, kind: str) -> None:
    # The directory already contains a tokenizer with the other value of `joint`.
    train_tokenizer(pairs(), config(joint=not joint)).save(tmp_path)
    tokenizer = train_tokenizer(pairs(), config(kind=kind, joint=joint))
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.joint == joint
    assert loaded.vocabulary_hash == tokenizer.vocabulary_hash
    assert loaded.encode_target(["fünf"]) == tokenizer.encode_target(["fünf"])
    assert loaded.encode_target(["acht x"]) == tokenizer.encode_target(["acht x"])


def test_load_refuses_missing_and_damaged_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"contains no tokenizer\.model"):
        Tokenizer.load(tmp_path)
    train_tokenizer(pairs(), config(joint=False)).save(tmp_path)
    target = tmp_path / "tokenizer.target.model"
    for content in (b"", b"garbage", target.read_bytes()[:-7]):
        target.write_bytes(content)
        with pytest.raises(UserError, match=r"tokenizer\.target\.model: .*cannot be read"):
            Tokenizer.load(tmp_path)
    target.unlink()
    with pytest.raises(UserError, match=r"tokenizer\.target\.model"):
        Tokenizer.load(tmp_path)
    assert capfd.readouterr().err == ""


def test_errors_of_training_name_what_to_do() -> None:
    with pytest.raises(UserError, match="no text"):
        train_tokenizer([], config())
    for blank in (Pair("", " "), Pair("▁", "\t")):
        with pytest.raises(UserError, match="no text"):
            train_tokenizer([blank], config(kind="word"))
    with pytest.raises(UserError, match="max_line_bytes"):
        train_tokenizer([Pair("a" * 50, "b" * 50)], config(max_line_bytes=10))
    many = [Pair(chr(0x4E00 + i), chr(0x5E00 + i)) for i in range(500)]
    with pytest.raises(UserError, match="vocabulary_size 320 is too small"):
        train_tokenizer(many, config())


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "words"}, {"vocabulary_size": 10}, {"max_training_pairs": 0}, {"max_line_bytes": 0},
     {"character_coverage": 1.5}],
)  # fmt: skip
def test_config_is_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong)).replace("kind", "kind is 'words'")):
        config(**wrong)


def test_unigram_segmentations_are_drawn_in_proportion_to_their_probability() -> None:
    scores = {"▁": (0, -2.0), "a": (1, -1.5), "b": (2, -1.0), "▁a": (3, -2.5), "ab": (4, -1.2), "▁ab": (5, -4.0)}
    sampler = SegmentationSampler(scores, list(range(300, 556)), merges=False)
    draw = random.Random(0)
    counts = Counter(tuple(sampler.sample("ab", 0.5, draw)) for _ in range(20_000))
    weights = {(0, 1, 2): -4.5, (3, 2): -3.5, (0, 4): -3.2, (5,): -4.0}
    total = sum(math.exp(0.5 * weight) for weight in weights.values())
    assert counts.keys() == weights.keys()
    for ids, weight in weights.items():
        assert counts[ids] / 20_000 == pytest.approx(math.exp(0.5 * weight) / total, abs=0.015)


def test_merges_are_skipped_with_the_given_probability() -> None:
    scores = {"▁": (0, -8.0), "a": (1, -9.0), "b": (2, -10.0), "ab": (3, 0.0), "▁ab": (4, -1.0)}
    sampler = SegmentationSampler(scores, list(range(300, 556)), merges=True)
    draw = random.Random(0)
    counts = Counter(tuple(sampler.sample("ab", 0.3, draw)) for _ in range(20_000))
    assert counts.keys() == {(4,), (0, 3), (0, 1, 2)}
    assert counts[0, 1, 2] / 20_000 == pytest.approx(0.3, abs=0.015)
    assert counts[4,] / 20_000 == pytest.approx(0.49, abs=0.015)


def test_characters_that_the_vocabulary_lacks_are_sampled_as_bytes(tokenizer: Tokenizer) -> None:
    line = "中 ▁ \0 \udc00"
    assert tokenizer.decode_source(tokenizer.sample_source([line], 0.1, 0)) == ["中 ▁ \0 \ufffd"]
