"""The translator: one output line per input line, for lines of any content."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.data.readers import Pair
from dragoman.errors import ModelError, UserError
from dragoman.models.description import ModelDescription, load_description, save_description
from dragoman.models.storage import save_model, weights_of
from dragoman.models.transformer import build_transformer
from dragoman.native.engine_selection import EngineName, select_engine
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.text import lines as lines_module
from dragoman.text.segmenting import Segment, join, segment, sentences
from dragoman.text.tokenizer import TokenizerConfig, train_tokenizer
from dragoman.translation.assembly import translate_split
from dragoman.translation.results import Translation
from dragoman.translation.splitting import SplitLine
from dragoman.translation.translator import Translator
from tests.support.small_translator import (
    WORDS,
    copy_translator,
    model_config,
    random_models,
    random_translator,
    tokenizer,
)

SHORT = SearchConfig(max_length_factor=0.5, max_length_offset=8)


def texts(translations: list[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def test_one_output_per_line_in_order() -> None:
    translator, _ = copy_translator()
    lines = [" ".join(WORDS[: 1 + i % 7]) + f" {i}." for i in range(40)]
    assert texts(translator.translate(lines)) == lines
    assert translator.translate([]) == []


def test_lines_without_text_stay_empty_without_running_the_model() -> None:
    translator, engine = copy_translator()
    lines: list[str | bytes] = ["", "  ", "\t", "\0", "\u2028\x85", "\u3000", b"\r\n", b"\n", "\n\n"]
    for translation in translator.translate(lines):
        assert translation == Translation(
            text="",
            log_probability=0.0,
            score=0.0,
            alternatives=(),
            segments=0,
            cut=False,
            truncated=False,
            invalid_utf8=False,
        )
    assert engine.read == []
    assert texts(translator.translate(["", "the lamp", " ", "the door"])) == ["", "the lamp", "", "the door"]


@pytest.mark.parametrize("character", list("\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))
def test_line_breaks_inside_a_line_become_spaces(character: str) -> None:
    translator, _ = copy_translator()
    lines = ["the", f"lamp{character}is", f"{character}on{character}", "off"]
    assert texts(translator.translate(lines)) == ["the", "lamp is", "on", "off"]


def test_output_is_one_line_even_if_the_model_generates_line_breaks() -> None:
    translator, _ = copy_translator()
    breaks = [f"a{character}b" for character in "\n\r\u2028\u2029\x85\v\f\0\x1c"]
    # Bypass the cleaning of the input: the model copies the line breaks of these segments.
    for ids in tokenizer().encode_source(breaks):
        line = SplitLine(text="", segments=[Segment(ids)], invalid_utf8=False)
        (translation,) = translate_split([line], lambda inputs: translator.backend.search(inputs, SHORT), tokenizer())
        assert [alternative.text for alternative in translation.alternatives] == [translation.text] == ["a b"]


def test_bytes_that_are_not_utf8_are_replaced_and_flagged() -> None:
    translator, _ = copy_translator()
    lines: list[str | bytes] = [
        b"the lamp\n",
        b"the \xff lamp\r\n",
        "the \udcff lamp",
        "the \ufffd lamp",
        "the 💡 lamp".encode(),
        b"\xc3",
    ]
    translations = translator.translate(lines)
    assert texts(translations) == [
        "the lamp",
        "the \ufffd lamp",
        "the \ufffd lamp",
        "the \ufffd lamp",
        "the 💡 lamp",
        "\ufffd",
    ]
    assert [each.invalid_utf8 for each in translations] == [False, True, True, False, False, True]


def test_a_long_line_is_split_at_sentence_ends_without_loss() -> None:
    translator, engine = copy_translator(max_source_tokens=20)
    sentence = "turn the lamp on now."
    assert len(tokenizer().encode_source([sentence])[0]) <= 10
    line = " ".join([sentence] * 7)
    (translation,) = translator.translate([line])
    assert translation.text == line
    assert not translation.cut
    assert 1 < translation.segments == len(engine.read) < 7
    assert all(len(read) <= 21 for read in engine.read)  # 20 and EOS
    # Each segment begins at the beginning of a sentence.
    assert len({read[0] for read in engine.read}) == 1


def test_a_long_sentence_is_split_at_spaces_and_flagged() -> None:
    translator, engine = copy_translator(max_source_tokens=8)
    line = " ".join(WORDS)
    translation, other = translator.translate([line, "the lamp"])
    assert translation.cut
    assert not other.cut
    assert translation.segments > 1
    assert all(len(read) <= 9 for read in engine.read)
    assert translation.text == line


def test_a_character_of_more_bytes_than_the_limit_is_split() -> None:
    translator, engine = copy_translator(max_source_tokens=2)
    (translation,) = translator.translate(["💡💡"])
    assert translation.cut
    assert sum(len(read) - 1 for read in engine.read) >= 8


def test_very_long_lines_are_translated_whole() -> None:
    translator, _ = copy_translator(max_source_tokens=200)
    greedy = SearchConfig(beam=1)
    for line in ("x" * 3000, "." * 3000, "lamp. " * 1000, "'" * 3000, "。" * 500):
        (translation,) = translator.translate([line], search=greedy)
        assert translation.text.replace(" ", "") == line.replace(" ", "")


def test_sentences_joined_give_the_line() -> None:
    line = 'One. "Two!" Three?! Pi is 3.14 … four。five！」six？？ seven'
    parts = list(sentences(line))
    assert "".join(parts) == line
    assert parts == [
        "One. ",
        '"Two!" ',
        "Three?! ",
        "Pi is 3.14 … ",
        "four。",
        "five！」",
        "six？？ ",
        "seven",
    ]


def test_hostile_lines_are_split_in_linear_time() -> None:
    # In quadratic time, this would take hours.
    for line in (".'" * 500_000, "." * 1_000_000, "." + "'" * 1_000_000, "。" * 1_000_000, ". " * 500_000):
        assert "".join(sentences(line)) == line


def test_segments_contain_as_many_sentences_as_fit() -> None:
    def characters(lines: list[str]) -> list[list[int]]:
        return [list(map(ord, line)) for line in lines]

    line = "aaa. bb. cccc. " + "d" * 12 + ". ee."
    segments = list(segment(line, 10, lambda lines: characters(list(lines))))
    assert ["".join(map(chr, segment.ids)) for segment in segments] == ["aaa. bb.", "cccc.", "dddddd", "dddddd.", "ee."]
    assert [segment.cut for segment in segments] == [False, False, True, True, False]


def test_segments_are_joined_without_spaces_in_scripts_without_spaces() -> None:
    assert join(["One.", "", "Two."]) == "One. Two."
    assert join(["打开灯。", "关门。"]) == "打开灯。关门。"
    assert join(["打开 TV", "关门。"]) == "打开 TV 关门。"
    assert join([]) == ""


def test_a_stream_keeps_order_and_reads_a_limited_number_of_lines_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LINES_AHEAD", 10)
    translator, _ = copy_translator()
    taken = 0

    def lines() -> Iterator[bytes]:
        nonlocal taken
        for i in range(25):
            taken += 1
            yield f"{' '.join(WORDS[: i % 5])} {i}\n".encode()

    stream = translator.translate_stream(lines(), search=SearchConfig(beam=1))
    first = next(stream)
    assert taken == 10
    rest = texts(list(stream))
    assert [first.text, *rest] == [f"{' '.join(WORDS[: i % 5])} {i}".strip() for i in range(25)]


def test_a_stream_reads_a_limited_number_of_characters_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "CHARACTERS_AHEAD", 10)
    translator, _ = copy_translator()
    lines = iter(["the", "lamp", "kitchen", "is"])
    stream = translator.translate_stream(lines)
    assert next(stream).text == "the"
    assert next(lines) == "is"


def test_n_best_alternatives() -> None:
    search = replace(SHORT, beam=5, n_best=4)
    for translation in random_translator().translate(["the lamp", "turn on"], search=search):
        assert len(translation.alternatives) == 4
        assert translation.alternatives[0].text == translation.text
        assert translation.alternatives[0].score == translation.score
        scores = [alternative.score for alternative in translation.alternatives]
        assert scores == sorted(scores, reverse=True)


def test_the_alternatives_of_a_split_line_are_whole_lines() -> None:
    translator, _ = copy_translator(max_source_tokens=10)
    sentence = "turn the lamp on now."
    search = SearchConfig(beam=3, n_best=3)
    (one,) = translator.translate([sentence], search=search)
    (two,) = translator.translate([f"{sentence} {sentence}"], search=search)
    assert two.segments == 2
    for whole, part in zip(two.alternatives, one.alternatives, strict=True):
        assert whole.text == join([part.text, part.text])
        assert math.isclose(whole.score, 2 * part.score, abs_tol=1e-4)
        assert math.isclose(whole.log_probability, 2 * part.log_probability, abs_tol=1e-4)


def test_an_output_of_the_maximum_length_is_flagged() -> None:
    translator, _ = copy_translator()
    tight = SearchConfig(max_length_factor=0, max_length_offset=2)
    long, short = translator.translate(["turn the lamp on now", "the"], search=tight)
    assert long.truncated
    assert not short.truncated


def test_output_begins_with_the_prefix() -> None:
    translator = random_translator(max_source_tokens=8)
    lines = ["the lamp is on", "", "turn the lamp on now. " * 3, "the door"]
    translations = translator.translate(lines, search=SHORT, prefixes=["window open", "door", "kitchen", ""])
    assert translations[0].text.startswith("window open")
    assert translations[1].text == ""
    assert translations[2].text.count("kitchen") == 1
    assert translations[2].text.startswith("kitchen")
    assert translations[3].text == translator.translate(["the door"], search=SHORT)[0].text
    with pytest.raises(UserError, match="4 lines but 1 prefixes"):
        translator.translate(lines, prefixes=["the"])


def test_a_stream_needs_one_prefix_per_line() -> None:
    translator = random_translator()
    lines = ["the lamp", "", "turn on"]
    prefixes: list[str | bytes] = ["window", "door", b"kitchen\n"]
    expected = translator.translate(lines, search=SHORT, prefixes=prefixes)
    translations = list(translator.translate_stream(iter(lines), search=SHORT, prefixes=iter(prefixes)))
    assert texts(translations) == texts(expected)
    assert translations[2].text.startswith("kitchen")
    for other in (prefixes[:2], [*prefixes, ""]):
        with pytest.raises(UserError, match="give one prefix for each line"):
            list(translator.translate_stream(lines, search=SHORT, prefixes=other))


def test_samples_depend_on_the_line_and_the_seed_only() -> None:
    translator = random_translator()
    sampling = SamplingConfig(samples=3, seed=5, temperature=2.0)
    lines = ["the lamp", "turn on", "", "the lamp"]
    translations = translator.translate(lines, search=SHORT, sampling=sampling)
    assert translations[0] == translations[3]
    assert len(translations[0].alternatives) == 3
    backwards = translator.translate(lines[::-1], search=SHORT, sampling=sampling)
    assert texts(backwards) == texts(translations)[::-1]
    other_seed = replace(sampling, seed=6)
    assert texts(translator.translate(lines, search=SHORT, sampling=other_seed)) != texts(translations)


@pytest.mark.parametrize("models", [1, 2])
def test_score_equals_what_translate_reports(models: int) -> None:
    translator = random_translator(models)
    lines = ["the lamp is on", "turn on", "please wait", "window", "open the door now"]
    # Text of random tokens is usually encoded to other tokens: force words, which are encoded to the same tokens.
    targets = ["door open", "lamp", "wait now", "turn", "the kitchen is closed"]
    tokens = [len(ids) for ids in tokenizer().encode_target(targets)]
    for line, target, count in zip(lines, targets, tokens, strict=True):
        exactly = SearchConfig(max_length_factor=0, max_length_offset=count, min_length_offset=count, beam=2)
        (translation,) = translator.translate([line], search=exactly, prefixes=[target])
        assert translation.text == target
        (alone,) = translator.score([(line, target)])
        assert math.isclose(alone.log_probability, translation.log_probability, abs_tol=1e-4)
        assert math.isclose(alone.score, translation.score, abs_tol=1e-4)
        assert alone.tokens == count + 1
    together = translator.score([Pair(*pair) for pair in zip(lines, targets, strict=True)])
    assert [each.tokens for each in together] == [count + 1 for count in tokens]
    (first,) = translator.score([(lines[0], targets[0])])
    assert math.isclose(together[0].log_probability, first.log_probability, abs_tol=1e-4)
    assert translator.score([]) == []
    assert [each.tokens for each in translator.score([("", ""), ("the", "")])] == [1, 1]


def test_a_model_in_training_mode_translates_without_dropout_and_stays_in_training_mode() -> None:
    translator = random_translator()
    expected = translator.translate(["the lamp is on"], search=SHORT)
    (model,) = random_models(1)
    model.train()
    try:
        assert translator.translate(["the lamp is on"], search=SHORT) == expected
        assert model.training
    finally:
        model.eval()


def write_model(directory: Path, number: int, trained_length: int = 12) -> Path:
    directory.mkdir()
    tokenizer().save(directory)
    description = ModelDescription(architecture="transformer", model=model_config(), trained_length=trained_length)
    save_model(directory, description, weights_of(random_models(2)[number]))
    return directory


def test_load_one_model_and_an_ensemble(tmp_path: Path) -> None:
    one = write_model(tmp_path / "one", 0)
    two = write_model(tmp_path / "two", 1, trained_length=9)
    lines = ["the lamp is on", "turn off"]
    single = Translator.load(one, device="cpu", engine="torch")
    assert single.max_source_tokens == 12
    assert single.translate(lines, search=SHORT) == random_translator(1).translate(lines, search=SHORT)
    both = Translator.load(one, two, device="cpu")
    assert both.max_source_tokens == 9
    assert both.translate(lines, search=SHORT) == random_translator(2).translate(lines, search=SHORT)
    assert Translator.load(one, device="cpu", max_source_tokens=30).max_source_tokens == 30


def line_of(tokens: int) -> str:
    """Return words of at least this many tokens."""
    words: list[str] = []
    while len(tokenizer().encode_source([" ".join(words)])[0]) < tokens:
        words.append(WORDS[len(words) % len(WORDS)])
    return " ".join(words)


def test_four_hundred_tokens_in_one_segment() -> None:
    translator, engine = copy_translator(max_source_tokens=420)
    line = line_of(400)
    (translation,) = translator.translate([line])
    assert (translation.text, translation.segments, translation.cut, translation.truncated) == (line, 1, False, False)
    assert [len(read) >= 400 for read in engine.read] == [True]


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_outputs_of_four_hundred_tokens(tmp_path: Path, engine: EngineName) -> None:
    if engine == "native" and select_engine().build is None:
        pytest.skip("the native engine is not installed")
    one = write_model(tmp_path / "one", 0)
    translator = Translator.load(one, device="cpu", engine=engine, max_source_tokens=420)
    (translation,) = translator.translate([line_of(400)], search=SearchConfig(beam=1, min_length_factor=1.0))
    assert translation.segments == 1
    assert translation.text


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_line_longer_than_the_learned_positions_is_an_error(tmp_path: Path, engine: EngineName) -> None:
    if engine == "native" and select_engine().build is None:
        pytest.skip("the native engine is not installed")
    config = replace(model_config(), positions="learned", max_positions=60)
    torch.manual_seed(0)
    directory = tmp_path / "learned"
    directory.mkdir()
    tokenizer().save(directory)
    description = ModelDescription(architecture="transformer", model=config, trained_length=12)
    save_model(directory, description, weights_of(build_transformer(config)))
    line = line_of(80)
    within = Translator.load(directory, device="cpu", engine=engine)
    assert within.translate([line], search=replace(SHORT, beam=1))[0].segments > 1
    beyond = Translator.load(directory, device="cpu", engine=engine, max_source_tokens=100)
    with pytest.raises(UserError, match=r"longer than the 60 learned positions of the model: .*larger max_positions"):
        beyond.translate([line], search=replace(SHORT, beam=1))


def test_loading_mismatched_files_is_an_error(tmp_path: Path) -> None:
    one = write_model(tmp_path / "one", 0)
    with pytest.raises(UserError):
        Translator.load(tmp_path, device="cpu")
    with pytest.raises(UserError, match="device"):
        Translator.load(one, device="abacus")
    other = write_model(tmp_path / "other", 1)
    pairs = [Pair("ein anderes Vokabular", "mit anderen Wörtern")] * 5
    tokens = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=300))
    tokens.save(other)
    with pytest.raises(ModelError, match=r"tokenizer\.model: .* \(its bytes are not those that config\.json lists\)"):
        Translator.load(other, device="cpu")
    # Without a hash of the vocabulary, as in a directory that another program wrote, the sizes are compared.
    description = replace(load_description(other), vocabulary_hash=None)
    save_description(other, description)
    with pytest.raises(ModelError, match=rf"it has {tokens.source_size} source subwords, the model \d+; copy"):
        Translator.load(other, device="cpu")
    config = replace(model_config(), source_vocabulary=tokens.source_size, target_vocabulary=tokens.target_size)
    save_model(other, replace(description, model=config), weights_of(build_transformer(config)))
    with pytest.raises(UserError, match="different vocabularies"):
        Translator.load(one, other, device="cpu")
    with pytest.raises(UserError, match="must lie between 1 and"):
        Translator.load(one, device="cpu", batch_tokens=0)
