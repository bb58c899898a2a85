"""Classifiers and taggers are trained from scratch and from an encoder, resumed, evaluated and used."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import dragoman.run
from dragoman import Embedder, Labeller
from dragoman.cli import run
from dragoman.data.batching import Cursor
from dragoman.data.labelled import LabelledStream
from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.models.storage import load_encoder, load_labelled_model, weights_of
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.settings import merge

SETTINGS: dict[str, Any] = {
    "preset": "tiny",
    "tokenizer": {"vocabulary_size": 300},
    "batching": {"batch_tokens": 400},
    "training": {"steps": 60, "validations": 2, "precision": "fp32"},
}
ANIMALS, PLANTS, VERBS = ["cat", "dog", "cow"], ["oak", "elm", "fir"], ["sees", "likes", "finds"]


def sentences(seed: int) -> list[tuple[str, list[str], list[str]]]:
    """Return a label, words and tags of sentences."""
    draw = random.Random(seed)
    made = []
    for _ in range(200):
        names, label = draw.choice([(ANIMALS, "animal"), (PLANTS, "plant")])
        words = ["the", draw.choice(names), draw.choice(VERBS), "the", "big", draw.choice(names)]
        made.append((label, words, ["O", f"B-{label}", "O", "O", f"B-{label}", f"I-{label}"]))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpora and an encoder."""
    folder = tmp_path_factory.mktemp("labelled")
    for seed, name in enumerate(("train", "test")):
        examples = sentences(seed)
        (folder / f"{name}.tsv").write_text("".join(f"{' '.join(words)}\t{label}\n" for label, words, _ in examples))
        (folder / f"{name}.conll").write_text(
            "\n".join("".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)) for _, words, tags in examples)
        )
    (folder / "text.txt").write_text("".join(f"{' '.join(words)}\n" for _, words, _ in sentences(2)))
    settings = merge(SETTINGS, {"task": "masked", "training": {"steps": 10}, "model": {"context": 32}})
    dragoman.run.train([str(folder / "text.txt")], folder / "encoder", settings=settings)
    return folder


def train(folder: Path, out: Path, suffix: str, **changes: Any) -> dict[str, float]:
    task = {"tsv": "classify", "conll": "tag"}[suffix]
    settings = merge(merge(SETTINGS, {"task": task}), changes)
    validation = str(folder / f"test.{suffix}")
    result = dragoman.run.train([str(folder / f"train.{suffix}")], out, validation=validation, settings=settings)
    return result.best.values()


@pytest.mark.parametrize("suffix", ["tsv", "conll"])
def test_labels_are_learned_from_an_encoder_and_evaluated(
    suffix: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    best = train(folder, out, suffix, from_model=str(folder / "encoder"), schedule={"peak_learning_rate": 0.003})
    assert best["accuracy"] > 95
    assert ("span_f1" in best) == (suffix == "conll")
    labeller = Labeller.load(out)
    assert labeller.label(["the  dog sees the big cat"]) == [
        "animal" if suffix == "tsv" else "O B-animal O O B-animal I-animal"
    ]
    with pytest.raises(CorpusError, match="text 2 is empty"):
        labeller.label(["the dog", " "])
    assert Embedder.load(out).embed(["the dog"]).vectors.shape == (1, 64)
    assert "texts from train" in (out / "README.md").read_text(encoding="utf-8")
    test, picture = str(folder / f"test.{suffix}"), tmp_path / "confusion.png"
    capsys.readouterr()
    assert run(["evaluate", str(out), test, "--json", "--confusion", str(picture)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert 100 * shown["accuracy"] == pytest.approx(best["accuracy"])
    assert 100 * shown["macro_f1"] == pytest.approx(best["macro_f1"])
    assert picture.exists()
    assert run(["evaluate", str(out), test, "--output", str(tmp_path / "labels")]) == 0
    table = capsys.readouterr().out
    assert "macro F1" in table
    assert "200 texts of" in table
    # The labels of texts are independent, the tags of a sentence are not.
    assert ("95 % interval" in table) == ("accuracy_interval" in shown) == (suffix == "tsv")
    assert len((tmp_path / "labels").read_text().splitlines()) == 200
    assert run(["evaluate", str(out), test, "--beam", "3"]) == 2


def test_a_frozen_encoder_keeps_its_weights(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    train(folder, out, "tsv", from_model=str(folder / "encoder"), frozen=True, training={"steps": 5})
    encoder, trained = weights_of(load_encoder(folder / "encoder")), weights_of(load_labelled_model(out).encoder)
    assert trained.keys() < encoder.keys()
    assert all(weight.equal(encoder[name]) for name, weight in trained.items())


@pytest.mark.parametrize("frozen", [False, True])
def test_a_resumed_run_equals_an_uninterrupted_one(
    frozen: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"training": {"steps": 12}}
    if frozen:
        changes |= {"from_model": str(folder / "encoder"), "frozen": True}
    train(folder, tmp_path / "whole", "tsv", **changes)
    original = LabelledStream.from_cursor

    def stops(self: LabelledStream, cursor: Cursor) -> Any:
        for number, batch in enumerate(original(self, cursor)):
            if number == 7:
                raise KeyError
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(LabelledStream, "from_cursor", stops)
        with pytest.raises(KeyError):
            train(folder, tmp_path / "parts", "tsv", **changes)
    train(folder, tmp_path / "parts", "tsv", **changes)
    assert (tmp_path / "parts" / WEIGHTS_FILE).read_bytes() == (tmp_path / "whole" / WEIGHTS_FILE).read_bytes()


def test_mistakes_are_reported(folder: Path, tmp_path: Path) -> None:
    out, model = tmp_path / "model", str(folder / "encoder")
    for changes, message in (
        ({"frozen": True}, "frozen needs from_model"),
        ({"model": {"labels": ["a"]}}, "model.labels are those of the corpus"),
        ({"model": {"pools": "mean"}}, "did you mean"),
        ({"from_model": model, "model": {"encoder": {"d_model": 32}}}, "changes the shapes"),
    ):
        with pytest.raises((SettingsError, ModelError), match=message):
            train(folder, out, "tsv", **changes)
    (tmp_path / "one.tsv").write_text("a text\tlabel\n")
    with pytest.raises(CorpusError, match="no texts are left to"):
        dragoman.run.train([str(tmp_path / "one.tsv")], out, settings=merge(SETTINGS, {"task": "classify"}))
    with pytest.raises(ModelError, match="neither a classifier nor a tagger"):
        Labeller.load(folder / "encoder")
    assert run(["evaluate", model, str(folder / "test.tsv"), "--confusion", "x.png"]) == 2
