"""A language model is trained, resumed bit for bit, and refused where it cannot be used."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import dragoman.run
from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.models.storage import load_language_model
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.run.plan import load_plan
from dragoman.settings import merge
from dragoman.training.events import read_events
from dragoman.translation.translator import Translator
from tests.support.number_words import split_numbers
from tests.support.runs import interrupted_after

SETTINGS: dict[str, Any] = {
    "task": "language",
    "preset": "tiny",
    "tokenizer": {"kind": "character"},
    "batching": {"batch_tokens": 256},
    "training": {"steps": 60, "validations": 3, "precision": "fp32", "ema_decay": 0.9},
    "model": {"context": 32},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of number words."""
    file = tmp_path_factory.mktemp("text") / "numbers.txt"
    training, _, _ = split_numbers()
    file.write_text("".join(f"{pair.source}: {pair.target}\n" for pair in training[:600]), encoding="utf-8")
    return file


def test_a_language_model_learns_and_its_directory_describes_it(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    result = dragoman.run.train([str(text)], out, settings=merge(SETTINGS, {"training": {"steps": 150}}))
    # The distribution of single characters has an entropy of about 2.9 nats.
    assert result.best.loss < 1.7
    plan = load_plan(out / "run")
    assert (plan.config.task, plan.config.architecture) == ("language", "language")
    characters = len(text.read_text(encoding="utf-8"))
    # BOS and EOS of each part are tokens.
    assert plan.training_size + plan.validation_size == characters + 4
    assert plan.training_size == int(0.9 * characters) + 2
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["validation"]["tokens"] == plan.validation_size
    # A token is a character here; that the text ends must be predicted as well.
    held_out = plan.validation_size - 2
    bits = metrics["validation"]["loss"] / math.log(2) * (held_out + 1) / held_out
    assert metrics["validation"]["bits_per_character"] == pytest.approx(bits)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "# A language model" in card
    assert "numbers.txt" in card
    assert load_language_model(out).max_context is None
    with pytest.raises(ModelError, match="is a language model: use dragoman generate"):
        Translator.load(out)


@pytest.mark.parametrize(
    ("architecture", "model"),
    [("language", {}), ("recurrent-language", {}), ("transformer-xl", {"segment": 8, "memory": 8})],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    architecture: str, model: dict[str, Any], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = merge(SETTINGS, {"architecture": architecture, "model": model, "training": {"steps": 12}})
    whole = tmp_path / "whole"
    dragoman.run.train([str(text)], whole, settings=settings)

    parts = tmp_path / "parts"
    with interrupted_after(7, monkeypatch):
        dragoman.run.train([str(text)], parts, settings=settings)
    dragoman.run.train([str(text)], parts, settings=settings)
    assert (parts / WEIGHTS_FILE).read_bytes() == (whole / WEIGHTS_FILE).read_bytes()
    losses = [
        [event["loss"] for event in read_events(out / "run" / "log.jsonl") if event["event"] == "validation"]
        for out in (whole, parts)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "speech"}, "unknown task 'speech': choose one of translation, language"),
        ({"architecture": "transformer"}, "architecture 'transformer' is not one of task 'language'"),
        ({"data": {"max_length": 10}}, r"unknown key data\.max_length"),
        ({"cleaning": {"max_characters": 10}}, "unknown key cleaning"),
        ({"training": {"subword_sampling": 0.1}}, r"training\.subword_sampling is not available"),
        ({"training": {"source_loss": 0.1}}, r"training\.source_loss is not available"),
        ({"training": {"best_by": "bleu"}}, r"training\.best_by is 'bleu', which is not measured here"),
        ({"preset": "big"}, "language has no preset 'big'"),
        ({"model": {"positions": "learned", "max_positions": 8}}, "context is 32, but there are only"),
    ],
)
def test_wrong_settings_leave_nothing_behind(
    settings: dict[str, Any], message: str, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    with pytest.raises(SettingsError, match=message):
        dragoman.run.train([str(text)], out, settings=merge(SETTINGS, settings))
    assert not (out / "config.json").exists()


def test_a_language_architecture_needs_its_task(text: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="architecture 'language' is not one of task 'translation'"):
        dragoman.run.train(["x.tsv"], tmp_path / "model", settings={"architecture": "language"})


@pytest.mark.parametrize("content", [b"", b"a", b"\xff\xfe bad"])
def test_texts_without_use_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(content)
    with pytest.raises(CorpusError):
        dragoman.run.train([str(file)], tmp_path / "model", settings=SETTINGS)
    assert not (tmp_path / "model").exists()
