"""Models of pictures: training, resuming, making pictures, giving labels, showing attention."""

import io
import json
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file

from dragoman.cli import read_arguments
from dragoman.cli import run as command
from dragoman.cli.images import Images
from dragoman.cli.images_evaluate import EvaluateImages
from dragoman.cli.images_train import TrainImages
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
from tests.support.digit_wheels import publish_digits
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
    return made_folder(tmp_path_factory.mktemp("made") / "pictures", seed=1)


def made_folder(folder: Path, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    for label in ("left", "top"):
        (folder / label).mkdir(parents=True)
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


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (GAN, "sagan, preset tiny: 16x16 grey, width 8, latent 16, attention at 8x8, 2 labels, dropout 0, "),
        (CLASSES, "images of 16 x 16 in patches of 4 x 4, 2 labels, dropout 0.1, "),
        (merge(GAN, {"data": {"use_labels": False}}), "attention at 8x8, no labels, dropout 0, "),
    ],
)
def test_the_lines_before_training_count_pictures_and_name_the_labels_once(
    settings: dict[str, Any], line: str, folder: Path, tmp_path: Path
) -> None:
    text = io.StringIO()
    settings = merge(settings, {"training": {"steps": 1, "validations": 1}})
    train([str(folder)], tmp_path / "out", settings=settings, console=Console(file=text, width=1000))
    corpus, model, batches = text.getvalue().splitlines()[:3]
    assert corpus == "111 pictures to train on, 9 to validate on"
    assert line in model
    assert model.count("labels") == 1
    assert f"batches of {settings['batching']['pictures']} pictures, for 1 updates" in batches


def test_the_progress_line_shows_pictures_per_second(folder: Path, tmp_path: Path) -> None:
    text = io.StringIO()
    settings = merge(CLASSES, {"training": {"steps": 20}})
    train(
        [str(folder)], tmp_path / "out", settings=settings, console=Console(file=text, width=200, force_terminal=True)
    )
    assert re.search(r"update \d+  loss [\d.]+  [\d,]+ pictures/s", text.getvalue())
    assert "tokens" not in text.getvalue()


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
        (["images", "evaluate", "GAN", "FOLDER", "--confusion", "x.png"], "--confusion: not available for a GAN"),
        (["images", "evaluate", "GAN", "FOLDER", "--neighbours", "x.png"], "--neighbours requires --training"),
        (
            ["images", "evaluate", "GAN", "FOLDER", "--training", "FOLDER", "--neighbours", "x.jpg"],
            "written as .png only",
        ),
        (["images", "evaluate", "GAN", "FOLDER", "--pictures", "3"], "at least 4 pictures must be generated"),
        (["images", "evaluate", "GAN", "FOLDER", "--judge", "GAN"], "not a classifier of images"),
        (
            ["images", "evaluate", "CLASSIFIER", "FOLDER", "--seed", "2", "--training", "FOLDER"],
            "--seed, --training: not available for a classifier of pictures",
        ),
        (["images", "evaluate", "CLASSIFIER", "FOLDER", "--confusion", "x.jpg"], "must end with .png or .svg"),
        (["images", "evaluate", "CLASSIFIER", "FOLDER/top"], "must be in subfolders named after their labels"),
        (["images", "train", "nowhere", "--out", "x"], "no such folder, and no corpus of pictures of this name"),
        (["images", "train", "home-assistant", "--out", "x"], "one of digits, mnist-5k, emoji"),
        (["images", "train", "digits", "--out", "x", "--set", "data.size=17"], "size must be one of 16"),
        (["translate", "GAN", "x"], "makes pictures"),
        (["embed", "GAN", "x", "--out", "x.npy"], "makes pictures"),
    ],
)
def test_mistakes_are_reported(
    arguments: list[str],
    message: str,
    gan: Path,
    classifier: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    names = {"GAN": str(gan), "CLASSIFIER": str(classifier), "FOLDER": str(folder), "FOLDER/top": str(folder / "top")}
    monkeypatch.chdir(tmp_path)
    assert command([names.get(argument, argument) for argument in arguments]) == 2
    assert message in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_gan_is_evaluated_by_the_features_of_its_judge(
    gan: Path, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    evaluate = ["images", "evaluate", str(gan), str(folder), "--pictures", "30"]
    assert command(evaluate) == 0
    table = capfd.readouterr().out
    for score in ("Fréchet distance", "kernel distance", "precision of the set", "recall of the set"):
        assert score in table
    assert f"features: the classifier {gan}/run/judge" in table
    assert "not with published Fréchet distances (FID)" in table
    assert "training pictures" not in table
    neighbours = tmp_path / "neighbours.png"
    few = tmp_path / "few"
    few.mkdir()
    for number in range(8):
        shutil.copy(folder / "top" / f"{number}.png", few)
    assert command(["images", "evaluate", str(gan), str(few), "--pictures", "4"]) == 0
    assert "8 real and 4 generated pictures" in capfd.readouterr().out
    (few / "0.png").unlink()
    assert command(["images", "evaluate", str(gan), str(few)]) == 2
    assert "at least 8 real pictures are needed, for two halves; there are 7" in capfd.readouterr().err
    copies = ["--training", str(folder), "--neighbours", str(neighbours)]
    # The test pictures are the training pictures here: the test of copies refuses them.
    assert command([*evaluate, *copies]) == 2
    assert "hold out other pictures" in capfd.readouterr().err
    copies[1] = str(made_folder(tmp_path / "training", seed=2))
    assert command([*evaluate, *copies, "--json"]) == 0
    scores = json.loads(capfd.readouterr().out)
    assert next(iter(scores)) == "ratio"
    assert scores["ratio"] == scores["frechet"]["generated_half"] / scores["frechet"]["real_half"]
    assert (scores["real_pictures"], scores["generated_pictures"]) == (120, 30)
    assert scores["copying"]["training"] == 120
    # Ten rows of a generated picture and five neighbours.
    width, height = size_of(neighbours)
    assert width > 6 * 32
    assert height > 10 * 32


def test_the_judge_is_another_classifier_of_such_pictures(
    gan: Path, classifier: Path, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "gan"
    shutil.copytree(gan, alone, ignore=shutil.ignore_patterns("run"))
    evaluate = ["images", "evaluate", str(alone), str(folder), "--pictures", "30"]
    assert command(evaluate) == 2
    message = capfd.readouterr().err
    assert "has no run/judge" in message
    assert "--judge MODEL" in message
    assert command([*evaluate, "--judge", str(classifier)]) == 0
    assert f"features: the classifier {classifier} (" in capfd.readouterr().out
    settings = merge(CLASSES, {"data": {"channels": 3}, "training": {"steps": 1}})
    train([str(folder)], tmp_path / "colour", settings=settings)
    assert command([*evaluate, "--judge", str(tmp_path / "colour")]) == 2
    message = capfd.readouterr().err
    assert "16x16 with 1 channels" in message
    assert "16x16 with 3 channels" in message


def test_a_classifier_is_evaluated(
    classifier: Path, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # One picture of each label has the other label.
    mixed = tmp_path / "mixed"
    shutil.copytree(folder, mixed)
    (mixed / "top" / "0.png").rename(mixed / "left" / "turned.png")
    (mixed / "left" / "0.png").rename(mixed / "top" / "turned.png")
    picture = tmp_path / "confusion.png"
    assert command(["images", "evaluate", str(classifier), str(mixed), "--confusion", str(picture)]) == 0
    table = capfd.readouterr().out
    assert re.search(r"accuracy +98\.3 %  \(95 % interval: 94\.1 to 99\.5\)", table)
    assert f"on 120 labels of 120 pictures of {mixed}" in table
    assert "1  left  top" in table
    assert min(size_of(picture)) > 100
    (mixed / "left" / "broken.png").write_bytes(b"not a picture")
    assert command(["images", "evaluate", str(classifier), str(mixed)]) == 2
    assert "broken.png" in capfd.readouterr().err
    assert command(["images", "evaluate", str(classifier), str(mixed), "--skip", "--json"]) == 0
    output, messages = capfd.readouterr()
    assert "1 skipped" in messages
    result = json.loads(output)
    assert result["accuracy"] == result["macro_f1"] == pytest.approx(118 / 120)
    assert result["accuracy_interval"] == pytest.approx([0.9412, 0.9954], abs=1e-4)
    assert (result["pictures"], result["labels"]["top"]["support"]) == (120, 60)


def test_models_of_texts_are_not_evaluated_on_pictures(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a b c\n" * 50)
    settings = {
        "task": "language",
        "preset": "nano",
        "tokenizer": {"kind": "byte"},
        "training": {"steps": 1, "validations": 1},
    }
    train([str(tmp_path / "x.txt")], tmp_path / "text", settings=settings)
    with pytest.raises(UserError, match="not a model of pictures: use dragoman evaluate"):
        EvaluateImages(model=tmp_path / "text", test=folder).run()


def test_a_corpus_is_fetched_by_its_name_and_the_same_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    requested = publish_digits(tmp_path / "digits-9.1.whl", 60, monkeypatch)
    arguments = ["images", "train", "digits", "--task", "classify", "--out", "model", "--size", "8", "--grey"]
    arguments += ["--preset", "tiny", "--set", "training.steps=1", "--set", "batching.pictures=8"]
    assert command(arguments) == 0
    messages = capfd.readouterr().err
    counts = {part: len(list(Path("corpora/digits", part).rglob("*.png"))) for part in ("train", "valid")}
    assert f"corpora/digits: train/ {counts['train']} pictures" in messages
    assert f"{counts['train']} pictures to train on, {counts['valid']} to validate on" in messages
    request = json.loads((tmp_path / "model/run/run.json").read_text())["request"]
    assert (request["corpora"], request["validation"]) == (["corpora/digits/train"], "corpora/digits/valid")
    assert command(arguments) == 0
    assert "resuming the run in model" in capfd.readouterr().err
    # Another validation set, and a folder of the name of a corpus.
    other = ["--validation", "corpora/digits/test"]
    assert command([*arguments[:5], "--out", "other", *arguments[7:], *other]) == 0
    request = json.loads((tmp_path / "other/run/run.json").read_text())["request"]
    assert request["validation"] == "corpora/digits/test"
    shutil.copytree("corpora/digits/train", "digits")
    assert command([*arguments[:5], "--out", "folder", *arguments[7:]]) == 0
    assert requested == ["scikit-learn"]
    assert json.loads((tmp_path / "folder/run/run.json").read_text())["request"]["corpora"] == ["digits"]


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
