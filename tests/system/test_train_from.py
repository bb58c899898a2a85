"""Training that starts from a trained translator: weights, subwords and sizes are its own."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from dragoman.data.batching import Batch
from dragoman.errors import UserError
from dragoman.models.description import load_description
from dragoman.models.seq2seq import Seq2Seq
from dragoman.run import train
from dragoman.settings import merge
from dragoman.training.loop import Trainer
from dragoman.training.stopping import TrainingStopped
from dragoman.translation.translator import Translator
from tests.support.number_words import split_numbers
from tests.support.runs import SHORT_RUN, train_with, write_tsv


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a trained translator and two corpora: its own, and one with other pairs."""
    folder = tmp_path_factory.mktemp("from")
    training, validation, _ = split_numbers()
    write_tsv(folder / "old.tsv", training[:300])
    write_tsv(folder / "new.tsv", training[300:600])
    write_tsv(folder / "valid.tsv", validation[:20])
    settings = merge(SHORT_RUN, {"source_language": "en", "target_language": "de", "architecture": "decoder-only"})
    train([str(folder / "old.tsv")], folder / "old", validation=str(folder / "valid.tsv"), settings=settings)
    return folder


def tune(folder: Path, out: Path, **changes: Any) -> None:
    settings = {"from_model": str(folder / "old"), "training": {"steps": 4, "validations": 1, "precision": "fp32"}}
    train([str(folder / "new.tsv")], out, validation=str(folder / "valid.tsv"), settings=merge(settings, changes))


def test_weights_subwords_and_languages_are_those_of_the_model(folder: Path, tmp_path: Path) -> None:
    # Updates of this size change no weight by more than 1e-6.
    tune(folder, tmp_path / "new", schedule={"peak_learning_rate": 1e-7}, model={"dropout": 0.25})
    old, new = (load_file(directory / "model.safetensors") for directory in (folder / "old", tmp_path / "new"))
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        assert (tensor - new[name]).abs().max() < 1e-6, name
    before, after = (load_description(directory) for directory in (folder / "old", tmp_path / "new"))
    assert after.vocabulary_hash == before.vocabulary_hash
    assert (after.architecture, after.source_language, after.target_language) == ("decoder-only", "en", "de")
    assert after.model.dropout == 0.25
    texts = ["twenty-one", "four hundred and two"]
    old_translations, new_translations = (
        [translation.text for translation in Translator.load(directory, device="cpu").translate(texts)]
        for directory in (folder / "old", tmp_path / "new")
    )
    assert old_translations == new_translations


def test_training_changes_the_model_and_not_the_one_it_started_from(folder: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (folder / "old").glob("*") if path.is_file()}
    tune(folder, tmp_path / "new")
    assert {path: path.read_bytes() for path in before} == before
    old, new = (load_file(directory / "model.safetensors") for directory in (folder / "old", tmp_path / "new"))
    assert any((tensor - new[name]).abs().max() > 1e-4 for name, tensor in old.items())


def test_a_resumed_run_equals_an_uninterrupted_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(folder, tmp_path / "whole")

    class Interrupted(Trainer[Seq2Seq, Batch]):
        def update(self, batches: Sequence[Batch]) -> None:
            super().update(batches)
            if self.state.progress.step == 2:
                signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        train_with(patch, Interrupted)
        with pytest.raises(TrainingStopped):
            tune(folder, tmp_path / "broken")
    tune(folder, tmp_path / "broken")
    whole, broken = (tmp_path / name / "model.safetensors" for name in ("whole", "broken"))
    assert whole.read_bytes() == broken.read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "transformer"}, "architecture is that of the model to start from"),
        ({"preset": "small"}, "preset is that of the model to start from"),
        ({"tokenizer": {"vocabulary_size": 300}}, "tokenizer is that of the model to start from"),
        ({"model": {"d_model": 32}}, "model.d_model is that of the model to start from"),
        ({"model": {"positions": "sinusoidal"}}, "model.positions is that of the model to start from"),
        ({"from_model": "missing"}, "missing"),
    ],
)
def test_settings_that_contradict_the_model_are_rejected_before_the_corpus_is_read(
    folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    settings = merge({"from_model": str(folder / "old")}, changes)
    with pytest.raises(UserError, match=message):
        train([str(tmp_path / "no such file.tsv")], tmp_path / "out", settings=settings)
    assert not (tmp_path / "out").exists()


def test_a_classifier_is_not_a_model_to_start_from(tmp_path: Path) -> None:
    (tmp_path / "labels.tsv").write_text("a b\tx\nb a\ty\na a\tx\nb b\ty\n" * 10, encoding="utf-8")
    small = {"training": {"steps": 1, "validations": 1}, "tokenizer": {"kind": "byte"}, "task": "classify"}
    labels = str(tmp_path / "labels.tsv")
    train([labels], tmp_path / "classifier", validation=labels, settings=small)
    with pytest.raises(UserError, match="is a classifier"):
        train([labels], tmp_path / "out", settings={"from_model": str(tmp_path / "classifier")})
