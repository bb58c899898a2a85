"""Generation of text with models of random weights."""

import logging
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Generator, native
from dragoman.errors import ModelError, SettingsError
from dragoman.generation.results import Generation
from dragoman.search.config import ContinuationConfig, SamplingConfig
from dragoman.text.subwords import BOS, EOS
from tests.support.small_language import SPEECH, random_generator, vocabulary, write_language_model
from tests.support.small_translator import write_model

THREE = ContinuationConfig(max_tokens=40, sampling=SamplingConfig(samples=3, seed=1))
STOPS = ["e", "th", "\n\n", "o R"]


def streamed(generator: Generator, prompt: str, config: ContinuationConfig, stop: list[str]) -> list[str]:
    """Return the texts that the pieces form."""
    texts = [""] * config.outputs
    complete: dict[int, Generation] = {}
    for piece in generator.stream(prompt, config, stop=stop):
        assert piece.number not in complete
        texts[piece.number] += piece.text
        if piece.generation is not None:
            complete[piece.number] = piece.generation
    assert [complete[number].text for number in range(config.outputs)] == texts
    return texts


@pytest.mark.parametrize("kind", ["character", "byte", "unigram"])
@pytest.mark.parametrize("stop", [[], STOPS])
def test_the_pieces_of_a_stream_form_the_text(kind: Any, stop: list[str]) -> None:
    generator = random_generator(kind)
    generations = generator.generate("ROMEO:", THREE, stop=stop)
    assert streamed(generator, "ROMEO:", THREE, stop) == [generation.text for generation in generations]
    for generation in generations:
        assert not any(text in generation.text for text in stop)


def test_a_stop_string_cuts_the_text_that_is_written_without_it() -> None:
    generator = random_generator()
    for whole, cut in zip(generator.generate("O", THREE), generator.generate("O", THREE, stop=STOPS), strict=True):
        first = min((whole.text.find(stop) + len(stop) for stop in STOPS if stop in whole.text), default=None)
        if first is None:
            assert cut == whole
        else:
            assert cut.end == "stop"
            assert whole.text.startswith(cut.text)
            # Each character is a token here, and the stop string is the last.
            assert cut.tokens == first


def test_log_probabilities_are_those_of_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random_generator()
    backend, tokens = generator.backend, []
    extend = backend.extend

    def record(*arguments: Any) -> Any:
        extension = extend(*arguments)
        tokens.extend(extension.tokens[0].tolist())
        return extension

    monkeypatch.setattr(backend, "extend", record)
    config = ContinuationConfig(max_tokens=12, sampling=SamplingConfig(temperature=0.5, top_k=9))
    [generation] = generator.generate("So", config)
    ids = np.array([[BOS, *generator.vocabulary.encode(["So"])[0], *tokens]])
    scores, _ = backend.score(ids[:, :-1], ids[:, 1:], backend.start(1))
    assert generation.log_probability == pytest.approx(float(scores[0, 2:].sum()), rel=1e-4)
    assert generation.tokens == len(tokens) - (tokens[-1] == EOS)


def test_greedy_search_is_a_beam_of_one_and_sampling_the_most_probable_token() -> None:
    generator = random_generator()
    [greedy] = generator.generate("Ju", ContinuationConfig(max_tokens=30, beam=1))
    [top] = generator.generate("Ju", ContinuationConfig(max_tokens=30, sampling=SamplingConfig(top_k=1)))
    assert (greedy.text, greedy.tokens) == (top.text, top.tokens)
    assert greedy.log_probability == pytest.approx(top.log_probability)


def test_beam_search_returns_its_outputs_best_first() -> None:
    generator = random_generator()
    config = ContinuationConfig(max_tokens=8, beam=4, n_best=3, length_penalty=0)
    outputs = generator.generate("Ju", config)
    assert len(outputs) == 3
    assert sorted((output.log_probability for output in outputs), reverse=True) == [
        output.log_probability for output in outputs
    ]
    assert streamed(generator, "Ju", config, []) == [output.text for output in outputs]
    [stopped, *_] = generator.generate("Ju", config, stop=[outputs[0].text[2:4]])
    assert stopped.end == "stop"
    assert outputs[0].text.startswith(stopped.text)


def test_a_text_longer_than_the_context_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    generator = random_generator(positions="learned", max_positions=16)
    config = ContinuationConfig(max_tokens=60, beam=1)
    with caplog.at_level(logging.WARNING, "dragoman"):
        [first] = generator.generate("But, soft! what light", config)
        [second] = generator.generate("But, soft! what light", config)
    assert first == second
    assert len(caplog.messages) == 1
    assert "longer than the context of 16 tokens" in caplog.messages[0]
    # Before the last token of the prompt, half a context is read; also of a prompt of millions of characters.
    [one] = generator.generate("But, soft! what light", ContinuationConfig(max_tokens=1, beam=1))
    assert one.text == most_probable(generator, generator.vocabulary.encode(["But, soft! what light"])[0][-9:])
    [huge] = generator.generate("x" * 3_000_000 + "But, soft! what light", config)
    assert huge == first


def most_probable(generator: Generator, ids: list[int]) -> str:
    """Return the text of the most probable next token."""
    state = generator.backend.read(np.array([ids[:-1]]), generator.backend.start(1))
    logits, _ = generator.backend.step(np.array(ids[-1:]), state)
    logits[:, :3] = -math.inf
    return generator.vocabulary.decode([[int(logits.argmax())]])[0]


@pytest.mark.parametrize("prompt", ["", "\0", "\ud800", "漢", b"\xff\xfe", b"", "\n" * 40])
@pytest.mark.parametrize("kind", ["character", "unigram"])
def test_any_prompt_is_continued(prompt: str | bytes, kind: Any) -> None:
    config = ContinuationConfig(max_tokens=3, beam=1)
    [generation] = random_generator(kind).generate(prompt, config)
    assert generation.tokens <= 3
    assert (generation.tokens == 3) == (generation.end == "length")


def test_a_recurrent_model_carries_its_state() -> None:
    generator = random_generator(architecture="recurrent-language")
    assert generator.context is None
    [one] = generator.generate("a" + "b" * 30, ContinuationConfig(max_tokens=1, beam=1))
    assert one.text == most_probable(generator, [BOS, *generator.vocabulary.encode(["a" + "b" * 30])[0]])


@settings(max_examples=10)
@given(st.integers(1, 12), st.integers(0, 3))
def test_at_most_max_tokens_are_written(most: int, seed: int) -> None:
    config = ContinuationConfig(max_tokens=most, sampling=SamplingConfig(seed=seed, samples=2))
    for generation in random_generator().generate("", config):
        assert generation.tokens <= most
        assert (generation.end == "length") == (generation.tokens == most)


def test_progress_is_the_number_of_tokens() -> None:
    counts: list[int] = []
    [generation] = random_generator().generate("", ContinuationConfig(max_tokens=30, beam=1), on_progress=counts.append)
    assert counts == sorted(counts)
    assert counts[-1] == generation.tokens


def test_a_model_directory_is_loaded(tmp_path: Path) -> None:
    directory = write_language_model(tmp_path / "model")
    generator = Generator.load(directory, engine="torch", device="cpu")
    assert generator.engine == "torch, float32, cpu"
    assert generator.context == 16
    assert generator.generate("ROMEO:", THREE) == random_generator().generate("ROMEO:", THREE)


def test_the_context_can_be_changed_where_positions_allow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rotary = write_language_model(tmp_path / "rotary")
    learned = write_language_model(tmp_path / "learned", positions="learned", max_positions=24)
    recurrent = write_language_model(tmp_path / "recurrent", architecture="recurrent-language")
    with caplog.at_level(logging.WARNING, "dragoman"):
        assert Generator.load(rotary, engine="torch", context=8).context == 8
        assert caplog.messages == []
        assert Generator.load(rotary, engine="torch", context=100).context == 100
        assert "longer than that of training (16)" in caplog.text
    assert Generator.load(learned, engine="torch", context=24).context == 24
    with pytest.raises(SettingsError, match="learned positions for 24 tokens"):
        Generator.load(learned, engine="torch", context=25)
    with pytest.raises(SettingsError, match="at least 2 tokens"):
        Generator.load(rotary, engine="torch", context=1)
    with pytest.raises(SettingsError, match="carries its state"):
        Generator.load(recurrent, engine="torch", context=32)
    segments = write_language_model(tmp_path / "segments", architecture="transformer-xl", segment=8, memory=8)
    one, other = Generator.load(segments), Generator.load(segments, context=4)
    assert one.context is None
    text = "Juliet is the sun"
    assert one.evaluate(text[:4]).nats == pytest.approx(other.evaluate(text[:4]).nats)
    assert one.evaluate(text).nats != pytest.approx(other.evaluate(text).nats)
    with pytest.raises(SettingsError, match="context must lie between 1 and"):
        Generator.load(segments, context=0)


def test_other_models_and_other_vocabularies_are_refused(tmp_path: Path) -> None:
    (tmp_path / "translator").mkdir()
    with pytest.raises(ModelError, match="is a translation model: use dragoman translate"):
        Generator.load(write_model(tmp_path / "translator", 0, right_to_left=False))
    directory = write_language_model(tmp_path / "model")
    vocabulary("byte").save(directory)
    with pytest.raises(ModelError, match="tokenizer"):
        Generator.load(directory)


def test_weights_that_give_no_probabilities_are_an_error() -> None:
    generator = random_generator()
    with torch.no_grad():
        generator.backend.model.output.weight.fill_(math.nan)  # type: ignore[attr-defined]
    with pytest.raises(FloatingPointError, match="not finite"):
        generator.generate("a")
    with pytest.raises(FloatingPointError, match="not finite"):
        generator.evaluate("abc")


@pytest.mark.skipif(not native.builds(), reason="the native engine is not installed")
def test_the_native_engine_writes_and_measures_the_same(tmp_path: Path) -> None:
    directory = write_language_model(tmp_path / "model")
    engines = [
        Generator.load(directory, engine=engine, precision="fp32", device="cpu") for engine in ("native", "torch")
    ]
    assert engines[0].engine.startswith("native")
    # Longer than the context; with every setting of sampling.
    sampling = SamplingConfig(temperature=0.9, top_k=90, top_p=0.95, min_p=1e-4, samples=3, seed=4)
    for config in (
        ContinuationConfig(max_tokens=70, sampling=sampling, repetition_penalty=1.2),
        ContinuationConfig(max_tokens=40, beam=1),
        ContinuationConfig(max_tokens=12, beam=3, n_best=2),
    ):
        one, other = (generator.generate("But, soft!", config, stop=["\n"]) for generator in engines)
        assert [output.text for output in one] == [output.text for output in other]
        for output, expected in zip(one, other, strict=True):
            assert output.log_probability == pytest.approx(expected.log_probability, rel=1e-4)
    one_nats, other_nats = (generator.evaluate(SPEECH, stride=3).nats for generator in engines)
    assert one_nats == pytest.approx(other_nats, rel=1e-4)


@pytest.mark.skipif(not native.builds(), reason="the native engine is not installed")
def test_generating_with_the_native_engine_does_not_import_torch(tmp_path: Path) -> None:
    """Importing torch would take most of the time to the first token."""
    directory = write_language_model(tmp_path / "model")
    arguments = ["generate", str(directory), "x", "--max-tokens", "3", "--device", "cpu"]
    program = f"import sys; from dragoman import cli; cli.run({arguments!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
