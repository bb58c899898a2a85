"""Whole training runs on number words: translation of unseen numbers, interruption and resuming, rejected requests."""

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.data.batching import Batch
from dragoman.data.readers import Pair
from dragoman.errors import UserError
from dragoman.files import exclusive
from dragoman.models.seq2seq import Seq2Seq
from dragoman.run import train
from dragoman.search.config import SearchConfig
from dragoman.settings import merge
from dragoman.training.checkpoint import list_steps
from dragoman.training.loop import Trainer
from dragoman.training.stopping import TrainingStopped
from dragoman.translation.confidence import Confidence
from dragoman.translation.translator import Translator
from tests.support.number_words import split_numbers
from tests.support.runs import TINY_RUN, train_with, write_tsv


@pytest.fixture
def numbers(tmp_path: Path) -> tuple[str, str, list[Pair]]:
    training, validation, test = split_numbers()
    return (
        str(write_tsv(tmp_path / "train.tsv", training)),
        str(write_tsv(tmp_path / "valid.tsv", validation)),
        test,
    )


@pytest.mark.slow
def test_tiny_learns_to_translate_unseen_numbers(numbers: tuple[str, str, list[Pair]], tmp_path: Path) -> None:
    training, validation, test = numbers
    settings = {
        "preset": "tiny",
        "tokenizer": {"vocabulary_size": 400},
        "model": {"dropout": 0.0, "norm_placement": "pre"},
        "schedule": {"kind": "cosine", "peak_learning_rate": 4e-3, "warmup": 100},
        "training": {"steps": 1000, "validations": 2, "precision": "fp32", "best_by": "exact_match"},
    }
    result = train([training], tmp_path / "model", validation=validation, settings=settings)
    assert result.steps == 1000
    log = [json.loads(line) for line in (tmp_path / "model/run/log.jsonl").read_text().splitlines()]
    matches = {event["step"]: event["exact_match"] for event in log if event["event"] == "validation"}
    assert matches[result.best_step] == result.best["exact_match"] == max(matches.values())
    assert result.best["exact_match"] >= 95
    translator = Translator.load(tmp_path / "model", device="cpu")
    translations = translator.translate([pair.source for pair in test], search=SearchConfig(beam=4))
    right = sum(translation.text == pair.target for translation, pair in zip(translations, test, strict=True))
    assert right >= 0.98 * len(test), f"only {right} of {len(test)} unseen numbers are right"


@pytest.fixture
def few_numbers(tmp_path: Path) -> tuple[str, str]:
    training, validation, _ = split_numbers()
    return (
        str(write_tsv(tmp_path / "few.tsv", training[:600])),
        str(write_tsv(tmp_path / "few-valid.tsv", validation[:20])),
    )


@pytest.fixture
def interrupt_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return a list of updates, filled by the test, after which training receives SIGTERM."""
    steps: list[int] = []

    class Interrupted(Trainer[Seq2Seq, Batch]):
        def update(self, batches: Sequence[Batch]) -> None:
            super().update(batches)
            if self.state.progress.step in steps:
                steps.remove(self.state.progress.step)
                signal.raise_signal(signal.SIGTERM)

    train_with(monkeypatch, Interrupted)
    yield steps
    assert not steps, "training never reached this update"


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"optimizer": "adam"}},
        {"training": {"optimizer": "muon"}},
        {"architecture": "recurrent"},
        {"architecture": "convolutional"},
        {"architecture": "universal", "model": {"halting": "adaptive", "random_positions": 50}},
    ],
    ids=str,
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    few_numbers: tuple[str, str], tmp_path: Path, interrupt_after: list[int], changes: dict[str, Any]
) -> None:
    training, validation = few_numbers
    settings = merge(TINY_RUN, changes)
    whole = train([training], tmp_path / "whole", validation=validation, settings=settings)
    # In the middle of an epoch, at a validation, and just before the end.
    interrupt_after += [7, 20, 39]
    for step in (7, 20, 39):
        with pytest.raises(TrainingStopped) as stopped:
            train([training], tmp_path / "broken", validation=validation, settings=settings)
        assert stopped.value.signal_number == signal.SIGTERM
        assert list_steps(tmp_path / "broken/run/checkpoints")[-1] == step
    resumed = train([training], tmp_path / "broken", validation=validation, settings=settings)

    assert (resumed.best, resumed.best_step) == (whole.best, whole.best_step)
    for file in ("model.safetensors", "run/checkpoints/step-00000040/model.safetensors"):
        expected, actual = load_file(tmp_path / "whole" / file), load_file(tmp_path / "broken" / file)
        assert expected.keys() == actual.keys()
        for name, tensor in expected.items():
            assert torch.equal(tensor, actual[name]), name
    events = [
        [
            {key: value for key, value in json.loads(line).items() if key not in ("elapsed", "tokens_per_second")}
            for line in (tmp_path / run / "run/log.jsonl").read_text().splitlines()
        ]
        for run in ("whole", "broken")
    ]
    assert events[0] == events[1]


def test_better_weights_replace_the_confidence_of_the_former_ones(
    few_numbers: tuple[str, str], tmp_path: Path, interrupt_after: list[int]
) -> None:
    training, validation = few_numbers
    model = tmp_path / "model"
    interrupt_after += [20]
    with pytest.raises(TrainingStopped):
        train([training], model, validation=validation, settings=TINY_RUN)
    Confidence(slope=8.0, offset=-4.0, good_chrf=70.0, lines=300).save(model)
    result = train([training], model, validation=validation, settings=TINY_RUN)
    assert result.best_step > 20
    assert not (model / "confidence.json").exists()
    assert Translator.load(model, device="cpu").confidence is None


def test_repeating_the_call_of_a_finished_run_changes_nothing(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    training, validation = few_numbers
    first = train([training], tmp_path / "model", validation=validation, settings=TINY_RUN)
    weights = (tmp_path / "model/model.safetensors").read_bytes()
    second = train([training], tmp_path / "model", validation=validation, settings=TINY_RUN)
    assert (second.best, second.best_step, second.steps) == (first.best, first.best_step, first.steps)
    assert (tmp_path / "model/model.safetensors").read_bytes() == weights


def test_other_settings_in_the_same_directory_are_rejected(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    training, validation = few_numbers
    train([training], tmp_path / "model", validation=validation, settings=TINY_RUN)
    other = {**TINY_RUN, "batching": {"batch_tokens": 128, "window": 200}}
    with pytest.raises(UserError, match=r"batching\.batch_tokens"):
        train([training], tmp_path / "model", validation=validation, settings=other)


def test_a_directory_with_other_files_is_not_changed(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "run").mkdir()
    (out / "chapter1.tex").write_text("text")
    with pytest.raises(UserError, match="another --out"):
        train([few_numbers[0]], out, settings=TINY_RUN)
    assert {path.name for path in out.iterdir()} == {"chapter1.tex", "run"}


def test_an_invalid_line_is_reported_before_training(tmp_path: Path) -> None:
    corpus = tmp_path / "bad.tsv"
    corpus.write_bytes(b"one\teins\nno tab here\n")
    with pytest.raises(UserError, match=r"bad\.tsv:2"):
        train([str(corpus)], tmp_path / "model", settings=TINY_RUN)
    assert not (tmp_path / "model").exists()


def test_a_misspelt_setting_is_reported_before_the_corpus_is_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"training\.steps"):
        train(["missing.tsv"], tmp_path / "model", settings={"training": {"stpes": 3}})


def test_a_budget_of_minutes(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    training, validation = few_numbers
    settings = {
        **TINY_RUN,
        "schedule": {},
        "training": {"minutes": 0.05, "validations": 2},
    }
    result = train([training], tmp_path / "model", validation=validation, settings=settings)
    assert result.seconds >= 3
    run = json.loads((tmp_path / "model/run/run.json").read_text(encoding="utf-8"))
    assert run["config"]["schedule"]["kind"] == "linear", "the schedule does not suit the budget"
    assert 0 < run["config"]["schedule"]["warmup"] < 1


def test_patience_stops_a_run_that_does_not_improve(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    training, validation = few_numbers
    settings = {
        **TINY_RUN,
        # With such a small learning rate, nothing improves after the first validation.
        "schedule": {"kind": "constant", "warmup": 0, "peak_learning_rate": 1e-12},
        "training": {"steps": 100, "validations": 50, "patience": 3, "best_by": "loss", "precision": "fp32"},
    }
    result = train([training], tmp_path / "model", validation=validation, settings=settings)
    assert result.stopped_early
    assert result.steps < 100
    assert result.best_step < result.steps


def test_metrics_are_written_for_tensorboard(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    training, validation = few_numbers
    settings = {**TINY_RUN, "training": {"steps": 10, "validations": 1, "tensorboard": True}}
    train([training], tmp_path / "model", validation=validation, settings=settings)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "model/run/tensorboard"))
    events.Reload()
    assert {"training/loss", "validation/bleu"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("validation/loss")] == [10]


def test_pairs_are_held_out_if_no_validation_corpus_is_given(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    settings = {**TINY_RUN, "training": {"steps": 2, "validations": 1}, "data": {"validation_share": 0.1}}
    train([few_numbers[0]], tmp_path / "model", settings=settings)
    run = tmp_path / "model/run"
    held_out = (run / "text/validation.jsonl").read_text().splitlines()
    trained = (run / "text/training.jsonl").read_text().splitlines()
    assert len(held_out) + len(trained) == 600
    assert 30 < len(held_out) < 100
    assert not set(held_out) & set(trained)


def test_two_processes_cannot_train_in_one_directory(few_numbers: tuple[str, str], tmp_path: Path) -> None:
    with exclusive(tmp_path / "model/run"), pytest.raises(UserError, match="another process"):
        train([few_numbers[0]], tmp_path / "model", settings=TINY_RUN)
