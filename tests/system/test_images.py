"""Models of pictures: training, resuming, making pictures, giving labels, showing attention."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from dragoman.cli import read_arguments
from dragoman.cli import run as command
from dragoman.cli.images import Images, TrainImages
from dragoman.data.picture_batches import PictureBatch
from dragoman.errors import UserError
from dragoman.images.picture_classifier import PictureClassifier
from dragoman.images.picture_generator import PictureGenerator
from dragoman.models.sagan import Sagan
from dragoman.models.storage import load_sagan
from dragoman.run import train
from dragoman.settings import merge
from dragoman.training.loop import Trainer
from dragoman.training.stopping import TrainingStopped
from tests.support.runs import train_with

GAN: dict[str, Any] = {
    "task": "images",
    "preset": "tiny",
    "data": {"size": 16, "channels": 1},
    "batching": {"pictures": 8},
    "judging": {"pictures": 20, "judge_steps": 5},
    "training": {"steps": 4, "validations": 2, "precision": "fp32"},
}
CLASSES: dict[str, Any] = {
    "task": "classify-images",
    "preset": "tiny",
    "data": {"size": 16, "channels": 1},
    "batching": {"pictures": 16},
    "schedule": {"peak_learning_rate": 0.003},
    "training": {"steps": 150, "validations": 1, "precision": "fp32"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of pictures: squares that are dark at the top, and squares that are dark at the left."""
    folder = tmp_path_factory.mktemp("pictures")
    draw = np.random.default_rng(1)
    for label in ("left", "top"):
        (folder / label).mkdir()
        for number in range(60):
            picture = draw.integers(150, 256, (16, 16), dtype=np.uint8)
            picture[:6] //= 4
            Image.fromarray(picture if label == "top" else np.ascontiguousarray(picture.T)).save(
                folder / label / f"{number}.png"
            )
    return folder


@pytest.fixture(scope="module")
def gan(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "gan"
    train([str(folder)], out, settings=GAN)
    return out


@pytest.fixture(scope="module")
def classifier(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "classifier"
    train([str(folder)], out, settings=CLASSES)
    return out


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        picture.load()
        return picture.size


def test_a_run_writes_a_model_directory_with_metrics_and_samples(gan: Path) -> None:
    assert {"config.json", "model.safetensors", "metrics.json", "README.md", "run"} <= {p.name for p in gan.iterdir()}
    metrics = json.loads((gan / "metrics.json").read_text())["validation"]
    assert set(metrics) == {"loss", "frechet_distance", "kernel_distance", "pictures"}
    assert size_of(gan / "run/samples/latest.png")[0] > 8 * 16
    assert "dragoman images sample" in (gan / "README.md").read_text()


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    folder: Path, gan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Trainer[Sagan, PictureBatch]):
        def update(self, batches: Sequence[PictureBatch]) -> None:
            super().update(batches)
            if self.state.progress.step == 3:
                signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        train_with(patch, Interrupted)
        with pytest.raises(TrainingStopped):
            train([str(folder)], tmp_path / "broken", settings=GAN)
    train([str(folder)], tmp_path / "broken", settings=GAN)
    for file in ("model.safetensors", "run/checkpoints/step-00000004/model.safetensors"):
        whole, broken = load_file(gan / file), load_file(tmp_path / "broken" / file)
        assert whole.keys() == broken.keys()
        for name, tensor in whole.items():
            assert tensor.equal(broken[name]), name


@pytest.mark.slow
def test_a_short_training_lowers_the_distance(folder: Path, tmp_path: Path) -> None:
    settings = merge(
        GAN,
        {
            "augmentations": [],
            "judging": {"pictures": 100, "judge_steps": 50},
            "schedule": {"peak_learning_rate": 5e-4},
            "training": {"steps": 120, "validations": 6, "ema_decay": 0.9},
        },
    )
    result = train([str(folder)], tmp_path / "model", settings=settings)
    log = [json.loads(line) for line in (tmp_path / "model/run/log.jsonl").read_text().splitlines()]
    distances = [event["frechet_distance"] for event in log if event["event"] == "validation"]
    assert result.best["frechet_distance"] == min(distances)
    assert min(distances) < 0.5 * distances[0]


def test_the_same_seed_gives_the_same_pictures_whatever_their_number(gan: Path) -> None:
    generator = PictureGenerator.load(gan, device="cpu")
    pictures = generator.sample(5, seed=3)
    assert pictures.shape == (5, 16, 16, 1)
    assert np.array_equal(generator.sample(5, seed=3), pictures)
    assert np.abs(generator.sample(2, seed=3).astype(int) - pictures[:2]).max() <= 1
    assert not np.array_equal(generator.sample(5, seed=4), pictures)


def test_rows_of_an_interpolation_go_from_one_random_vector_to_another(gan: Path) -> None:
    generator = PictureGenerator.load(gan, device="cpu")
    rows = generator.interpolate(2, 5, seed=1, labels=["top", "left"]).reshape(2, 5, 16, 16, 1)
    ends = generator.from_latents(generator.latents(4, 1), generator.label_indices(4, ["top", "top", "left", "left"]))
    for row in range(2):
        assert np.abs(rows[row, 0].astype(int) - ends[2 * row]).max() <= 1
        assert np.abs(rows[row, -1].astype(int) - ends[2 * row + 1]).max() <= 1


def test_attention_is_a_distribution_over_positions(gan: Path) -> None:
    attending = PictureGenerator.load(gan, device="cpu").attend(3, seed=1)
    assert attending.weights.shape == (3, 8, 8, 8, 8)
    np.testing.assert_allclose(attending.weights.sum(axis=(3, 4)), 1, atol=1e-5)
    attention = load_sagan(gan).generator.attention
    assert attention is not None
    assert attending.gamma == pytest.approx(attention.gamma.item())


def test_a_classifier_learns_the_labels(classifier: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert json.loads((classifier / "metrics.json").read_text())["validation"]["accuracy"] == 100
    assert command(["images", "classify", str(classifier), str(folder)]) == 0
    output, messages = capfd.readouterr()
    lines = [line.split("\t") for line in output.splitlines()]
    assert len(lines) == 120
    assert all(name.split("/")[0] == label and float(probability) > 0.5 for name, label, probability in lines)
    assert "120 of 120 right (100.0%)" in messages


def test_pictures_and_pages_are_written(
    gan: Path, classifier: Path, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(["images", "sample", str(gan), "--out", str(tmp_path / "grid.png"), "--label", "top"]) == 0
    assert (
        command(["images", "sample", str(gan), "--out", str(tmp_path / "rows.png"), "--interpolate", "--count", "2"])
        == 0
    )
    for name in ("attention.png", "attention.svg", "attention.html"):
        assert command(["images", "attention", str(gan), "--out", str(tmp_path / name), "--count", "2"]) == 0
    rollout = str(tmp_path / "rollout.png")
    assert command(["images", "classify", str(classifier), str(folder), "--rollout", rollout, "--count", "3"]) == 0
    assert "γ = " in capfd.readouterr().out
    for name in ("grid.png", "rows.png", "attention.png", "rollout.png"):
        assert min(size_of(tmp_path / name)) > 16
    assert "<script" in (tmp_path / "attention.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["images", "sample", "GAN", "--out", "x.jpg"], "written as .png only"),
        (["images", "sample", "GAN", "--out", "x.png", "--count", "0"], "--count must be at least 1"),
        (["images", "sample", "GAN", "--out", "x.png", "--label", "cat"], "no label 'cat'"),
        (["images", "sample", "CLASSIFIER", "--out", "x.png"], "makes no pictures"),
        (["images", "attention", "GAN", "--out", "x.txt"], "ends in .html, .png or .svg"),
        (["images", "attention", "GAN", "--out", "x.png", "--point", "a"], "ROW,COLUMN"),
        (["images", "attention", "GAN", "--out", "x.png", "--point", "9,9"], "outside the grid"),
        (["images", "classify", "GAN", "FOLDER"], "not a classifier of images"),
        (["translate", "GAN", "x"], "makes pictures"),
        (["embed", "GAN", "x", "--out", "x.npy"], "makes pictures"),
    ],
)
def test_mistakes_are_reported(
    arguments: list[str], message: str, gan: Path, classifier: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = {"GAN": str(gan), "CLASSIFIER": str(classifier), "FOLDER": str(folder)}
    assert command([names.get(argument, argument) for argument in arguments]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize("table", ["training", "data", "model"])
def test_a_run_file_without_tables_is_reported(
    table: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.toml").write_text(f"{table} = 3\n")
    options = ["--config", str(tmp_path / "run.toml"), "--minutes", "1", "--size", "16"]
    assert command(["images", "train", str(folder), "--out", str(tmp_path / "out"), *options]) == 2
    message = capfd.readouterr().err
    assert table in message
    assert "table of settings" in message


def test_options_of_training_take_precedence_over_the_run_file(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[training]\nsteps = 3\nseed = 5\n[data]\nsize = 64\nchannels = 3\n")
    options = ["--config", str(tmp_path / "run.toml"), "--minutes", "2", "--size", "16", "--grey"]
    verb = read_arguments(["images", "train", "x", "--out", "y", "--task", "classify", *options])
    assert isinstance(verb, Images)
    assert isinstance(verb.action, TrainImages)
    assert verb.action.settings() == {
        "task": "classify-images",
        "training": {"seed": 5, "minutes": 2.0},
        "data": {"size": 16, "channels": 1},
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"optimizer": "adam"}}, "must be 'two-time-scale'"),
        ({"data": {"size": 17}}, "size must be one of 16"),
        ({"augmentations": ["blur"]}, "augmentations must be some of"),
        ({"model": {"size": 32}}, "model.size follows from the pictures"),
        ({"model": {"attention": 64}}, "attention must be the size of a feature map"),
        ({"architecture": "vision"}, "is not one of task 'images'"),
        ({"task": "classify-images", "data": {"use_labels": False}, "judging": {}}, "judging"),
    ],
)
def test_invalid_settings_are_reported_before_the_pictures_are_read(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        train([str(tmp_path / "nowhere")], tmp_path / "out", settings=merge(GAN, changes))
    assert not (tmp_path / "out").exists()


def test_a_broken_picture_is_named_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for path in (folder / "top").iterdir():
        (pictures / path.name).write_bytes(path.read_bytes())
    (pictures / "bad.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match=r"bad\.png"):
        train([str(pictures)], tmp_path / "out", settings=GAN)
    assert not (tmp_path / "out").exists()
    # Without labels, and without the broken picture.
    train(
        [str(pictures)], tmp_path / "out", settings=merge(GAN, {"data": {"broken": "skip"}, "training": {"steps": 1}})
    )
    assert PictureGenerator.load(tmp_path / "out", device="cpu").config.labels == ()


def test_pictures_with_a_single_label_are_judged_by_their_rotations(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pictures" / "only").mkdir(parents=True)
    for path in (folder / "top").iterdir():
        (tmp_path / "pictures" / "only" / path.name).write_bytes(path.read_bytes())
    train([str(tmp_path / "pictures")], tmp_path / "out", settings=merge(GAN, {"training": {"steps": 1}}))
    assert PictureGenerator.load(tmp_path / "out", device="cpu").config.labels == ("only",)
    judge = PictureClassifier.load(tmp_path / "out/run/judge", device="cpu")
    assert judge.config.labels == ("0", "90", "180", "270")


def test_classifiers_need_two_labels(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at least two subfolders"):
        train([str(folder / "top")], tmp_path / "out", settings=CLASSES)


def test_other_models_have_no_second_learning_rate(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a b\tb a\n" * 5 + "b c\tc b\n" * 5)
    settings = {"preset": "tiny", "tokenizer": {"vocabulary_size": 300}, "training": {"optimizer": "two-time-scale"}}
    with pytest.raises(UserError, match="discriminator"):
        train([str(tmp_path / "x.tsv")], tmp_path / "out", validation=str(tmp_path / "x.tsv"), settings=settings)


def test_rollouts_have_one_weight_for_each_patch(classifier: Path) -> None:
    pictures = np.zeros((3, 16, 16, 1), dtype=np.uint8)
    maps = PictureClassifier.load(classifier, device="cpu").rollout(pictures)
    assert maps.shape[0] == 3
    assert (maps.sum(axis=(1, 2)) < 1).all()
    assert (maps > 0).all()
