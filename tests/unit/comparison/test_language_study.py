"""A trial of a language model: it is trained, and evaluated as by `dragoman evaluate`."""

import math
from pathlib import Path

import pytest

from dragoman.comparison.trial import Trial, load_result
from dragoman.comparison.trial_run import run_trial
from dragoman.generation.generator import Generator

TEXT = "Shall I compare thee to a summer's day? Thou art more lovely and more temperate.\n" * 20


def test_a_language_model_is_evaluated_on_the_beginning_of_the_validation_text(tmp_path: Path) -> None:
    training, validation = tmp_path / "text.txt", tmp_path / "validation.txt"
    training.write_text(TEXT)
    validation.write_text(TEXT[:1000])
    trial = Trial(
        name="LSTM",
        corpora=(str(training),),
        validation=str(validation),
        test=None,
        directory=tmp_path / "model",
        settings={
            "task": "language",
            "architecture": "recurrent-language",
            "preset": "tiny",
            "tokenizer": {"kind": "byte"},
            "data": {"validation_tokens": 300},
            "training": {"steps": 3, "validations": 2},
        },
    )
    run_trial(trial)
    result = load_result(trial.directory)
    assert result is not None
    expected = Generator.load(trial.directory, engine="torch").evaluate(TEXT[:300])
    assert result.test.metrics == pytest.approx(
        {
            "loss": expected.nats_per_token,
            "perplexity": math.exp(expected.nats_per_token),
            "bits_per_character": expected.bits_per_character,
        }
    )
    assert result.test.method == "with the state of the model"
    assert (result.architecture, result.updates) == ("recurrent-language", 3)
    assert [point.updates for point in result.curve] == [2, 3]
