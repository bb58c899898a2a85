"""Evaluation of language models against a computation that predicts every token by itself."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman import Generator
from dragoman.data.texts import Part
from dragoman.errors import CorpusError, SettingsError
from dragoman.generation.results import Evaluation
from dragoman.text.subwords import BOS, EOS
from tests.support.small_language import SPEECH, random_generator

TEXT = SPEECH[:75] + " naïve 😀"


def nats_of(generator: Generator, tokens: list[int], first: int) -> float:
    """Return the negative log-probability of the tokens from index `first`, without a cache."""
    array = np.array([tokens])
    scores, _ = generator.backend.score(array[:, :-1], array[:, 1:], generator.backend.start(1))
    return -float(scores[0, first - 1 :].sum(dtype=np.float64))


@pytest.mark.parametrize("kind", ["character", "byte", "unigram"])
@pytest.mark.parametrize("stride", [1, 5, 8, 16, None])
def test_every_token_is_predicted_once_from_its_window(kind: Any, stride: int | None) -> None:
    generator = random_generator(kind)
    evaluation = generator.evaluate(TEXT, stride=stride)
    ids = [BOS, *generator.vocabulary.encode([TEXT])[0], EOS]
    # The first window has 16 tokens before the last one that it predicts; each further one ends `stride` tokens later.
    step = stride or 8
    nats, end = 0.0, 1
    while end < len(ids):
        first, end = end, min(len(ids), 17 if end == 1 else end + step)
        start = max(0, end - 17)
        nats += nats_of(generator, ids[start:end], first - start)
    assert evaluation.nats == pytest.approx(nats, rel=1e-5)
    assert (evaluation.tokens, evaluation.documents) == (len(ids) - 1, 1)
    assert (evaluation.characters, evaluation.bytes) == (len(TEXT), len(TEXT.encode()))
    assert (evaluation.context, evaluation.stride) == (16, step)


def test_a_stride_of_one_predicts_every_token_from_the_whole_window() -> None:
    generator = random_generator(positions="learned", max_positions=16)
    ids = [BOS, *generator.vocabulary.encode([TEXT])[0], EOS]
    nats = sum(nats_of(generator, ids[max(0, at - 16) : at + 1], min(at, 16)) for at in range(1, len(ids)))
    assert generator.evaluate(TEXT, stride=1).nats == pytest.approx(nats, rel=1e-5)
    assert generator.score([TEXT]) == [pytest.approx(-nats, rel=1e-5)]


def test_a_recurrent_model_is_evaluated_with_the_state_of_the_whole_text() -> None:
    generator = random_generator(architecture="recurrent-language")
    ids = [BOS, *generator.vocabulary.encode([TEXT])[0], EOS]
    evaluation = generator.evaluate(TEXT)
    assert evaluation.nats == pytest.approx(nats_of(generator, ids, 1), rel=1e-5)
    assert (evaluation.context, evaluation.stride) == (None, None)
    with pytest.raises(SettingsError, match="leave out stride"):
        generator.evaluate(TEXT, stride=4)


def test_documents_do_not_see_each_other() -> None:
    generator = random_generator()
    together = generator.evaluate([Part(TEXT[:40], False), Part("x", True), Part("Juliet", True)])
    one, other = generator.evaluate(TEXT[:40] + "x"), generator.evaluate("Juliet")
    assert together.nats == pytest.approx(one.nats + other.nats, rel=1e-5)
    assert together.tokens == one.tokens + other.tokens
    assert together.documents == 2


def test_the_measures_are_related() -> None:
    evaluation = Evaluation(
        nats=math.log(2) * 600,
        tokens=200,
        characters=150,
        bytes=300,
        documents=1,
        context=16,
        stride=8,
        engine="torch",
        seconds=4.0,
    )
    assert evaluation.nats_per_token == pytest.approx(3 * math.log(2))
    assert evaluation.perplexity == pytest.approx(8)
    assert evaluation.bits_per_character == pytest.approx(4)
    assert evaluation.bits_per_byte == pytest.approx(2)
    assert evaluation.tokens_per_second == 50
    assert evaluation.to_json()["perplexity"] == pytest.approx(8)


def test_an_infinite_perplexity_is_null_in_json() -> None:
    numbers = {"characters": 1, "bytes": 1, "documents": 1, "context": None, "stride": None}
    evaluation = Evaluation(nats=1e6, tokens=1, engine="torch", seconds=1.0, **numbers)  # type: ignore[arg-type]
    assert evaluation.perplexity == math.inf
    assert evaluation.to_json()["perplexity"] is None


def test_a_model_that_knows_nothing_needs_the_logarithm_of_the_vocabulary() -> None:
    generator = random_generator("byte")
    generator.backend.model.output.weight.data.zero_()  # type: ignore[attr-defined]
    evaluation = generator.evaluate("x" * 50)
    assert evaluation.nats_per_token == pytest.approx(math.log(260), rel=1e-5)
    assert evaluation.perplexity == pytest.approx(260, rel=1e-4)
    assert evaluation.bits_per_byte == pytest.approx(math.log2(260) * 51 / 50, rel=1e-5)


@pytest.mark.parametrize("text", ["x", "\0", "\ud800", "\n", "漢"])
def test_one_character_is_a_text(text: str) -> None:
    evaluation = random_generator().evaluate(text)
    assert evaluation.characters == 1
    assert math.isfinite(evaluation.bits_per_byte)


def test_an_empty_text_and_a_stride_out_of_range_are_errors() -> None:
    generator = random_generator()
    with pytest.raises(CorpusError, match="the text is empty"):
        generator.evaluate("")
    with pytest.raises(SettingsError, match="stride must lie between 1 and the context of 16 tokens, got 17"):
        generator.evaluate("abc", stride=17)


def test_progress_ends_with_all_tokens(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    evaluation = random_generator().evaluate(TEXT, on_progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (evaluation.tokens, evaluation.tokens)
