"""An encoder of texts is trained by masking, resumed bit for bit, and used."""

import json
from pathlib import Path
from typing import Any

import pytest

import dragoman.run
from dragoman import Embedder
from dragoman.errors import ModelError, SettingsError
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.settings import merge
from dragoman.translation.translator import Translator
from tests.support.number_words import split_numbers
from tests.support.runs import interrupted_after

SETTINGS: dict[str, Any] = {
    "task": "masked",
    "preset": "tiny",
    "tokenizer": {"kind": "character"},
    "batching": {"batch_tokens": 512},
    "training": {"steps": 8, "validations": 2, "precision": "fp32", "ema_decay": 0.9},
    "model": {"context": 32},
}
NEXT_SENTENCE = {
    "masking": {"next_sentence": True, "whole_words": True},
    "model": {"context": 32, "next_sentence": True, "pooler": True, "segments": 2},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of number words."""
    file = tmp_path_factory.mktemp("text") / "numbers.txt"
    training, _, _ = split_numbers()
    file.write_text("".join(f"{pair.source}: {pair.target}\n" for pair in training[:600]), encoding="utf-8")
    return file


def test_an_encoder_learns_and_its_directory_describes_it(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    settings = merge(SETTINGS, {"training": {"steps": 50, "best_by": "masked_accuracy"}})
    result = dragoman.run.train([str(text)], out, settings=settings)
    # The vocabulary has 290 tokens: ln 290 = 5.7. The distribution of characters has an entropy of about 2.9 nats.
    assert result.best.loss < 3.1
    assert result.best["masked_accuracy"] > 10
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["validation"]["masked_accuracy"] == result.best["masked_accuracy"]
    assert "# An encoder of text" in (out / "README.md").read_text(encoding="utf-8")
    assert Embedder.load(out).embed(["one hundred"]).vectors.shape == (1, 64)
    with pytest.raises(ModelError, match="is an encoder of text"):
        Translator.load(out)


@pytest.mark.parametrize("changes", [{}, {"masking": {"dynamic": False}}, NEXT_SENTENCE])
def test_a_resumed_run_equals_an_uninterrupted_one(
    changes: dict[str, Any], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = merge(SETTINGS, changes)
    whole = tmp_path / "whole"
    result = dragoman.run.train([str(text)], whole, settings=settings)
    assert ("next_sentence_accuracy" in result.best.values()) == (changes is NEXT_SENTENCE)

    parts = tmp_path / "parts"
    with interrupted_after(5, monkeypatch):
        dragoman.run.train([str(text)], parts, settings=settings)
    dragoman.run.train([str(text)], parts, settings=settings)
    assert (parts / WEIGHTS_FILE).read_bytes() == (whole / WEIGHTS_FILE).read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masking": {"next_sentence": True}}, "model.next_sentence = true"),
        ({"masking": {"shares": 0.1}}, "did you mean"),
        ({"model": {"prediction_head": False}}, "needs model.prediction_head"),
        ({"model": {"context": 2}}, "at least 3"),
        ({"architecture": "language"}, "choose one of masked"),
        ({"training": {"best_by": "bleu"}}, "'loss', 'masked_accuracy'"),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, Any], message: str, text: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=message):
        dragoman.run.train([str(text)], tmp_path / "model", settings=merge(SETTINGS, changes))
