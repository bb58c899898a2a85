"""Attention of every model of pictures: both networks of a GAN, all layers of a vision Transformer, pages, figures."""

import base64
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from torch import Tensor

from dragoman.cli import run as command
from dragoman.data.picture_reading import read_pictures
from dragoman.errors import CorpusError, SettingsError
from dragoman.images.picture_classifier import PictureClassifier
from dragoman.images.picture_generator import PictureGenerator
from dragoman.models.sagan import Discriminator
from dragoman.models.vision import VisionTransformer
from dragoman.picture_page import page
from tests.support.elements import Elements
from tests.support.picture_models import (
    CONVOLUTION,
    GAMMAS,
    GAN,
    LABELS,
    VISION,
    save_picture_folder,
    save_picture_model,
)
from tests.support.small_translator import write_model

GENERATOR, DISCRIMINATOR = "generator (γ = 0.500)", "discriminator (γ = -0.250)"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return paths by what stands for them in the arguments of a command."""
    root = tmp_path_factory.mktemp("attention")
    write_model(root / "text", 0, right_to_left=False)
    paths = {
        "GAN": save_picture_model(root / "gan", GAN),
        "PLAIN": save_picture_model(root / "plain", replace(GAN, attention=None)),
        "VISION": save_picture_model(root / "vision", VISION),
        "CONVOLUTION": save_picture_model(root / "convolution", CONVOLUTION),
        "TEXT": root / "text",
        "FOLDER": save_picture_folder(root / "pictures"),
    }
    return {name: str(path) for name, path in paths.items()}


def attend(names: dict[str, str], out: Path, *arguments: str) -> int:
    return command(["images", "attention", *(names.get(each, each) for each in arguments), "--out", str(out)])


def pictures_of(path: Path) -> list[dict[str, Any]]:
    """Return the pictures of a page."""
    payload: dict[str, Any] = json.loads(Elements(path.read_text()).text("script", id="payload"))
    pictures: list[dict[str, Any]] = payload["pictures"]
    return pictures


def weights_in(layer: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Return the weights of a layer of a page, [H, Q, S]; the class token, if there is one, is the last query."""
    heads, keys = layer["heads"], layer["keyGrid"][0] * layer["keyGrid"][1]
    queries = layer["grid"][0] * layer["grid"][1] + layer["classToken"]
    data = zlib.decompress(base64.b64decode(layer["weights"]))
    largest = np.frombuffer(data, dtype="<f4", count=heads * queries).reshape(heads, queries, 1)
    shares = np.frombuffer(data, dtype=np.uint8, offset=4 * heads * queries).reshape(heads, queries, keys)
    return (largest * shares / 255).astype(np.float64)


def map_weights(discriminator: Discriminator, images: Tensor) -> Tensor:
    """Return softmax(fᵀg) of the discriminator, computed from the feature map that its attention reads."""
    attention = discriminator.attention
    assert attention is not None
    maps: list[Tensor] = []
    handle = attention.register_forward_pre_hook(lambda _, inputs: maps.append(inputs[0]))
    with torch.no_grad():
        discriminator.eval()(images, torch.zeros(len(images), dtype=torch.int64))
        handle.remove()
        # [N, C, H, W] -> [N, H*W, C]
        rows = maps[0].flatten(2).transpose(1, 2)
        return (attention.query(rows) @ attention.key(rows).transpose(1, 2)).softmax(dim=-1)


def test_the_discriminator_attends_to_given_pictures(names: dict[str, str]) -> None:
    gan = PictureGenerator.load(names["GAN"], device="cpu")
    pictures = np.random.default_rng(2).integers(0, 256, (70, 16, 16, 1), dtype=np.uint8)
    attending = gan.attend_to(pictures)
    assert np.array_equal(attending.pictures, pictures)
    assert attending.gamma == GAMMAS[1]
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2) / 127.5 - 1
    expected = map_weights(gan.model.discriminator, images).reshape(70, 8, 8, 8, 8)
    np.testing.assert_allclose(attending.weights, expected, atol=1e-5)
    assert np.ptp(attending.weights, axis=(3, 4)).max() > 1e-3
    with pytest.raises(CorpusError, match="expected images of 16 x 16 with 1 channels, found 8 x 8 with 3"):
        gan.attend_to(np.zeros((1, 8, 8, 3), dtype=np.uint8))


def test_a_vision_transformer_attends_in_every_layer_and_head(names: dict[str, str]) -> None:
    classifier = PictureClassifier.load(names["VISION"], device="cpu")
    pictures = np.random.default_rng(2).integers(0, 256, (70, 16, 16, 1), dtype=np.uint8)
    weights = classifier.attend(pictures)
    assert weights.shape == (70, 2, 2, 17, 17)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    # The first layer, from its queries and keys.
    assert isinstance(classifier.model, VisionTransformer)
    inputs: list[tuple[Tensor, ...]] = []
    core = classifier.model.encoder.layers[0].self_attention.core
    handle = core.register_forward_pre_hook(lambda _, given: inputs.append(given))
    classifier.classify(pictures[:3])
    handle.remove()
    query, key, *_ = inputs[0]
    expected = (query @ key.transpose(2, 3) / 4**0.5).softmax(dim=-1)
    np.testing.assert_allclose(weights[:3, 0], expected, atol=1e-5)


def test_models_without_attention_cannot_attend(names: dict[str, str]) -> None:
    pictures = np.zeros((1, 16, 16, 1), dtype=np.uint8)
    plain = PictureGenerator.load(names["PLAIN"], device="cpu")
    with pytest.raises(SettingsError, match=r"model\.attention = none"):
        plain.attend_to(pictures)
    with pytest.raises(SettingsError, match=r"model\.attention = none"):
        plain.attend(1, seed=1)
    with pytest.raises(SettingsError, match="no attention: it is a convolutional network"):
        PictureClassifier.load(names["CONVOLUTION"], device="cpu").attend(pictures)


def test_the_page_of_a_gan_has_a_layer_for_each_network(
    names: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert attend(names, tmp_path / "page.html", "GAN", "--count", "3", "--seed", "4", "--label", "top") == 0
    assert "γ = 0.500 (generator), γ = -0.250 (discriminator)" in capfd.readouterr().out
    gan = PictureGenerator.load(names["GAN"], device="cpu")
    made = gan.attend(3, seed=4, labels=["top"] * 3)
    read = gan.attend_to(made.pictures)
    pictures = pictures_of(tmp_path / "page.html")
    assert [picture["label"] for picture in pictures] == ["top"] * 3
    for i, picture in enumerate(pictures):
        assert [layer["name"] for layer in picture["layers"]] == [GENERATOR, DISCRIMINATOR]
        for layer, attending in zip(picture["layers"], (made, read), strict=True):
            expected = attending.weights[i].reshape(1, 64, 64)
            np.testing.assert_allclose(weights_in(layer), expected, atol=expected.max() / 500)


def test_the_page_of_given_pictures_has_the_discriminator_only(
    names: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert attend(names, tmp_path / "page.html", "GAN", "--pictures", "FOLDER", "--count", "2") == 0
    output = capfd.readouterr().out
    assert "γ = -0.250 (discriminator)" in output
    assert "generator)" not in output
    pictures = pictures_of(tmp_path / "page.html")
    # The first and the last picture of the folder.
    assert [picture["label"] for picture in pictures] == ["left/0.png", "top/3.png"]
    assert [[layer["name"] for layer in picture["layers"]] for picture in pictures] == [[DISCRIMINATOR]] * 2


def test_the_page_of_a_vision_transformer_has_all_layers_heads_and_the_class_token(
    names: dict[str, str], tmp_path: Path
) -> None:
    assert attend(names, tmp_path / "page.html", "VISION", "--pictures", "FOLDER", "--count", "20") == 0
    classifier = PictureClassifier.load(names["VISION"], device="cpu")
    read = read_pictures(Path(names["FOLDER"]), 16, channels=1, broken="refuse", animated="refuse")
    weights = classifier.attend(read.images)
    pictures = pictures_of(tmp_path / "page.html")
    labelled = classifier.classify(read.images)
    assert [picture["label"] for picture in pictures] == [
        f"{label} ({probability:.0%}), {name}" for (label, probability), name in zip(labelled, read.names, strict=True)
    ]
    for picture, layers in zip(pictures, weights, strict=True):
        assert [layer["name"] for layer in picture["layers"]] == ["1", "2"]
        for layer, expected in zip(picture["layers"], layers, strict=True):
            assert (layer["heads"], layer["grid"], layer["classToken"]) == (2, [4, 4], True)
            shown = weights_in(layer)
            np.testing.assert_allclose(shown[:, :16], expected[:, 1:, 1:], atol=1 / 500)
            np.testing.assert_allclose(shown[:, 16], expected[:, 0, 1:], atol=1 / 500)


def largest_in(svg: Path) -> list[str]:
    """Return the weights that are written below the maps of a figure."""
    return re.findall(r"largest ([\d.]+%)", svg.read_text())


@pytest.mark.parametrize(
    ("arguments", "network"),
    [([], "generator"), (["--network", "generator"], "generator"), (["--network", "discriminator"], "discriminator")],
)
def test_the_figure_of_a_gan_shows_the_chosen_network(
    arguments: list[str], network: str, names: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figure.svg"
    assert attend(names, out, "GAN", "--count", "2", "--point", "1,2", "--point", "7,0", *arguments) == 0
    output = capfd.readouterr().out
    gan = PictureGenerator.load(names["GAN"], device="cpu")
    attending = gan.attend(2, seed=1)
    if network == "discriminator":
        attending = gan.attend_to(attending.pictures)
    assert f"γ = {attending.gamma:.3f} ({network})" in output
    assert output.count("γ") == 1
    expected = [f"{attending.weights[i, row, column].max():.1%}" for i in range(2) for row, column in ((1, 2), (7, 0))]
    assert largest_in(out) == expected


def test_the_figure_of_given_pictures_shows_the_discriminator(names: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "figure.svg"
    assert attend(names, out, "GAN", "--pictures", "FOLDER", "--count", "1", "--point", "3,3") == 0
    read = read_pictures(Path(names["FOLDER"]), 16, channels=1, broken="refuse", animated="refuse").images[:1]
    attending = PictureGenerator.load(names["GAN"], device="cpu").attend_to(read)
    assert largest_in(out) == [f"{attending.weights[0, 3, 3].max():.1%}"]


@pytest.mark.parametrize(
    ("arguments", "layer", "heads"),
    [([], 1, slice(None)), (["--layer", "1", "--head", "2"], 0, slice(1, 2)), (["--head", "1"], 1, slice(0, 1))],
)
def test_the_figure_of_a_vision_transformer_shows_the_chosen_layer_and_head(
    arguments: list[str],
    layer: int,
    heads: slice,
    names: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = ["VISION", "--pictures", "FOLDER", "--count", "2", *arguments]
    read = read_pictures(Path(names["FOLDER"]), 16, channels=1, broken="refuse", animated="refuse").images[[0, 7]]
    classifier = PictureClassifier.load(names["VISION"], device="cpu")
    # [N, L, H, T, T] -> [N, T, T]
    expected = classifier.attend(read)[:, layer, heads].mean(axis=1)
    out = tmp_path / "points.svg"
    assert attend(names, out, *chosen, "--point", "0,1", "--point", "3,2") == 0
    assert largest_in(out) == [f"{expected[i, 1 + at, 1:].max():.1%}" for i in range(2) for at in (1, 14)]
    # Without points, the class token.
    maps: list[npt.NDArray[np.float64]] = []
    figure = "dragoman.picture_page.attention_figure.draw_heat_maps"

    def drawn(pictures: object, values: npt.NDArray[np.float64], labels: list[str], *_: object) -> bytes:
        maps.append(values)
        assert list(labels) == [label for label, _ in classifier.classify(read)]
        return b"figure"

    with monkeypatch.context() as patch:
        patch.setattr(figure, drawn)
        assert attend(names, tmp_path / "token.png", *chosen) == 0
    np.testing.assert_allclose(maps[0], expected[:, 0, 1:].reshape(2, 4, 4), atol=1e-6)
    assert attend(names, tmp_path / "token.png", *chosen) == 0
    with Image.open(tmp_path / "token.png") as picture:
        assert min(picture.size) > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["VISION", "x.html"], "add --pictures FOLDER"),
        (["VISION", "x.png", "--pictures", "FOLDER", "--layer", "3"], "--layer must be at least 1 and at most 2"),
        (["VISION", "x.png", "--pictures", "FOLDER", "--head", "0"], "--head must be at least 1 and at most 2"),
        (["VISION", "x.png", "--pictures", "FOLDER", "--point", "4,0"], "outside the grid of 4"),
        (["VISION", "x.png", "--pictures", "FOLDER", "--network", "discriminator"], "--network is for a GAN"),
        (["VISION", "x.html", "--seed", "2"], "--seed is for a GAN"),
        (["GAN", "x.png", "--pictures", "FOLDER", "--network", "generator"], "the generator reads no pictures"),
        (["GAN", "x.html", "--pictures", "FOLDER", "--label", "top"], "--label is for pictures that a GAN makes"),
        (["GAN", "x.png", "--layer", "1"], "--layer is for a vision Transformer"),
        (["GAN", "x.png", "--head", "1"], "--head is for a vision Transformer"),
        (["GAN", "x.html", "--network", "generator"], "--network chooses what a figure"),
        (["GAN", "x.html", "--point", "1,1"], "--point chooses what a figure"),
        (["GAN", "x.html", "--count", "0"], "--count must be at least 1"),
        (["GAN", "x.html", "--count", "201"], "a page shows 1 to 200"),
        (["GAN", "x.png", "--count", "65"], "at most 64 pictures"),
        (["GAN", "x.html", "--pictures", "MISSING"], "MISSING"),
        (["PLAIN", "x.html"], "model.attention = none"),
        (["PLAIN", "x.png", "--pictures", "FOLDER"], "model.attention = none"),
        (["CONVOLUTION", "x.html", "--pictures", "FOLDER"], "no attention: it is a convolutional network"),
        (["CONVOLUTION", "x.html"], "no attention: it is a convolutional network"),
        (["TEXT", "x.html"], "is a model of text, not of pictures: use dragoman attention"),
    ],
)
def test_mistakes_are_reported_and_nothing_is_written(
    arguments: list[str], message: str, names: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, name, *rest = arguments
    assert attend(names, tmp_path / name, model, *rest) == 2
    assert message in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_too_many_weights_is_refused_before_they_are_computed(
    names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Of each picture: 2 networks of 64 x 64 weights; 2 layers of 2 heads of 16 x 16 weights.
    monkeypatch.setattr(page, "MOST_WEIGHTS", 2 * 2 * 64 * 64)
    assert attend(names, tmp_path / "page.html", "GAN", "--count", "2") == 0
    monkeypatch.setattr(PictureGenerator, "from_latents", None)
    assert attend(names, tmp_path / "other.html", "GAN", "--count", "3") == 2
    assert "24,576 attention weights" in capfd.readouterr().err
    monkeypatch.setattr(page, "MOST_WEIGHTS", 2 * 2 * 2 * 16 * 16)
    assert attend(names, tmp_path / "page.html", "VISION", "--pictures", "FOLDER", "--count", "2") == 0
    monkeypatch.setattr(PictureClassifier, "classify", None)
    assert attend(names, tmp_path / "other.html", "VISION", "--pictures", "FOLDER", "--count", "3") == 2


def test_labels_take_turns(names: dict[str, str], tmp_path: Path) -> None:
    for arguments, expected in ((["--label", "top"], ["top"] * 3), ([], [*LABELS, LABELS[0]])):
        assert attend(names, tmp_path / "page.html", "GAN", "--count", "3", *arguments) == 0
        assert [picture["label"] for picture in pictures_of(tmp_path / "page.html")] == expected
