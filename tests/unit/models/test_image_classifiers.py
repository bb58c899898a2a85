"""Classifiers of images: the Transformer that reads patches, and the convolutional baseline."""

import json
import math
import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.errors import CorpusError, ModelError, SettingsError, UserError
from dragoman.models.config import ImageClassifierConfig
from dragoman.models.config.image_convolution import ImageConvolutionConfig
from dragoman.models.config.vision import VisionConfig
from dragoman.models.description import ModelDescription, load_description, text_model_config
from dragoman.models.image_classifier import ImageClassifier
from dragoman.models.quantization import quantize_model
from dragoman.models.registry import (
    architecture_of,
    architectures,
    build_image_classifier,
    image_preset,
    kind_of,
    read_model_config,
    text_preset,
)
from dragoman.models.storage import (
    load_encoder,
    load_image_classifier,
    load_labelled_model,
    load_language_model,
    load_model,
    save_model,
    weights_of,
)
from dragoman.models.vision import VisionTransformer
from dragoman.settings import to_mapping
from tests.support.hostile.config_damage import CONFIG_DAMAGES
from tests.support.hostile.folder import read_folder, write_folder
from tests.support.hostile.weights_damage import BODY_DAMAGES, HEADER_DAMAGES, TENSOR_DAMAGES
from tests.support.variants import IMAGE_VARIANTS

EACH_VARIANT = pytest.mark.parametrize("variant", IMAGE_VARIANTS)
EACH_VISION_VARIANT = pytest.mark.parametrize("variant", [name for name in IMAGE_VARIANTS if name.startswith("vision")])
EACH_ARCHITECTURE = pytest.mark.parametrize("architecture", architectures("image-classifier"))


def randomised(config: ImageClassifierConfig) -> ImageClassifier:
    """Return a model in float64, in evaluation mode, with noise added to all weights, so that no bias is zero."""
    torch.manual_seed(0)
    model = build_image_classifier(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def pictures(config: ImageClassifierConfig, number: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    size = (number, config.channels, config.image_size, config.image_size)
    return 2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1


def save(directory: Path, config: ImageClassifierConfig, model: nn.Module) -> Path:
    directory.mkdir(exist_ok=True)
    description = ModelDescription(architecture=architecture_of(config), model=config, trained_length=1)
    save_model(directory, description, weights_of(model))
    return directory


@EACH_VARIANT
def test_the_settings_list_every_tensor_of_the_model(variant: str) -> None:
    listed = list(IMAGE_VARIANTS[variant].tensors())
    assert len({tensor.name for tensor in listed}) == len(listed)
    assert {tensor.name: (tensor.shape, tensor.integer) for tensor in listed} == {
        name: (tuple(tensor.shape), not tensor.is_floating_point())
        for name, tensor in weights_of(randomised(IMAGE_VARIANTS[variant])).items()
    }


@torch.no_grad()
@EACH_VARIANT
def test_logits_are_a_linear_map_of_the_features_of_each_image(variant: str) -> None:
    config = IMAGE_VARIANTS[variant]
    model, images = randomised(config), pictures(config)
    features = model.features(images)
    assert features.shape == (3, model.width) == (3, config.d_model)
    alone = torch.cat([model.features(image[None]) for image in images])
    torch.testing.assert_close(alone, features, rtol=1e-9, atol=1e-9)
    if model.output is None:
        with pytest.raises(ModelError, match="the model has no labels"):
            model(images)
        return
    assert model(images).shape == (3, len(config.labels))
    assert model(images).equal(model.output(features))


@EACH_VARIANT
def test_every_weight_has_a_gradient(variant: str) -> None:
    config = IMAGE_VARIANTS[variant]
    model, images = randomised(config).train(), pictures(config, number=8)
    model.dropout.p = 0.0
    features = model.features(images)
    total = features.square().sum() if model.output is None else model(images).sin().sum() + features.cos().sum()
    total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # The softmax does not depend on the bias of the keys.
        assert parameter.grad.abs().max() > 1e-9 or name.endswith("key.bias"), name


@EACH_VARIANT
def test_a_saved_model_can_be_loaded(variant: str, tmp_path: Path) -> None:
    config = IMAGE_VARIANTS[variant]
    model = build_image_classifier(config).eval()
    loaded = load_image_classifier(save(tmp_path, config, model))
    assert type(loaded) is type(model)
    assert not loaded.training
    assert load_description(tmp_path).model == config
    images = pictures(config).float()
    assert loaded.features(images).equal(model.features(images))
    quantize_model(tmp_path, tmp_path / "int8")
    rounded = load_image_classifier(tmp_path / "int8").features(images)
    torch.testing.assert_close(rounded, model.features(images), rtol=0.1, atol=0.1)


def test_loaders_refuse_models_of_another_kind(tmp_path: Path) -> None:
    config = IMAGE_VARIANTS["vision, paper"]
    assert kind_of(config) == "image-classifier"
    save(tmp_path, config, build_image_classifier(config))
    for load in (load_model, load_language_model, load_encoder, load_labelled_model):
        with pytest.raises(ModelError, match=r"is a classifier of images: use dragoman images classify"):
            load(tmp_path)
    with pytest.raises(ModelError, match="is a classifier of images"):
        text_model_config(load_description(tmp_path), tmp_path)
    text = ModelDescription(
        architecture="masked", model=text_preset("tiny", 9, architecture="masked"), trained_length=9
    )
    (tmp_path / "text").mkdir()
    save_model(tmp_path / "text", text, {})
    with pytest.raises(ModelError, match="is not a classifier of images: its architecture is masked"):
        load_image_classifier(tmp_path / "text")


@EACH_VARIANT
def test_images_of_another_size_are_refused(variant: str) -> None:
    config = IMAGE_VARIANTS[variant]
    model, size, channels = randomised(config), config.image_size, config.channels
    for shape in ((2, channels, size, 2 * size), (2, channels, 2 * size, size), (2, channels + 1, size, size)):
        with pytest.raises(CorpusError, match=rf"expected images of {size} x {size} with {channels} channels, found"):
            model.features(torch.zeros(shape, dtype=torch.float64))


@EACH_ARCHITECTURE
@pytest.mark.parametrize("size", [8, 28, 32, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_sizes_of_small_images(architecture: str, size: int, channels: int) -> None:
    config = image_preset("tiny", ("a", "b"), image_size=size, channels=channels, architecture=architecture)
    model = build_image_classifier(config)
    assert model(torch.rand(2, channels, size, size)).shape == (2, 2)
    assert model(torch.rand(0, channels, size, size)).shape == (0, 2)


# The Transformer


@torch.no_grad()
@EACH_VISION_VARIANT
def test_layers_end_with_the_encoded_image_and_begin_with_the_embeddings(variant: str) -> None:
    config = IMAGE_VARIANTS[variant]
    assert isinstance(config, VisionConfig)
    model, images = randomised(config), pictures(config)
    assert isinstance(model, VisionTransformer)
    layers = model.layers(images)
    assert len(layers) == 3
    assert all(states.shape == (3, 1 + config.patches, 12) for states in layers)
    assert layers[0].equal(model.embedding(images))
    assert layers[-1].equal(model.encode(images))
    assert model.features(images).equal(model.encode(images)[:, 0])
    assert model.grid**2 == config.patches
    assert len(model.attentions().encoder_self) == len(list(model.layers_to_compile())) == 2


@torch.no_grad()
def test_positions_of_patches_are_used() -> None:
    """Without positions, the order of the patches does not change the logits; with positions of any kind it does."""
    for variant in ("paper", "rms, swiglu, rotary", "relative"):
        for positions in ("none", None):
            config = IMAGE_VARIANTS[f"vision, {variant}"]
            changes: dict[str, Any] = {} if positions is None else {"positions": positions}
            model, images = randomised(replace(config, **changes)), pictures(config)
            # The upper and the lower half of the image, which consist of whole patches, change places.
            same = torch.allclose(model(images), model(images.roll(config.image_size // 2, dims=2)), atol=1e-9)
            assert same == (positions == "none"), variant


def test_initial_embeddings_are_as_large_as_pixels_and_positions_half_as_large() -> None:
    config = image_preset("base", ("a",), image_size=64)
    model = build_image_classifier(config)
    assert isinstance(model, VisionTransformer)
    images = torch.randn(2, 3, 64, 64)
    assert float(model.embedding.patches(images).detach().std()) == pytest.approx(1, rel=0.1)
    assert not model.embedding.class_token.any()
    assert model.embedding.positions is not None
    assert float(model.embedding.positions.embedding.weight.detach().std()) == pytest.approx(0.5, rel=0.1)
    weights = dict(model.named_parameters())
    inner = weights["encoder.layers.0.feed_forward.inner.weight"].detach()
    assert float(inner.std()) == pytest.approx(math.sqrt(2 / (768 + 3072)), rel=0.02)
    assert not weights["encoder.layers.0.feed_forward.inner.bias"].any()


def test_autocast_sets_the_type_of_the_states() -> None:
    config = IMAGE_VARIANTS["vision, paper"]
    model = build_image_classifier(config)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(pictures(config).float()).dtype == torch.bfloat16


def test_presets_and_their_sizes() -> None:
    assert list(architectures("image-classifier")) == ["vision", "image-convolution"]
    base = image_preset("base", [str(label) for label in range(1000)], image_size=224)
    # ViT-B/16 for ImageNet (Dosovitskiy et al. 2020, table 1: 86 M without the linear map to labels).
    assert sum(math.prod(tensor.shape) for tensor in base.tensors()) == 86_567_656


# Settings


@EACH_ARCHITECTURE
def test_settings_are_read_as_they_were_written(architecture: str) -> None:
    for preset in architectures("image-classifier")[architecture].presets:
        config = image_preset(preset, ("a", "b"), image_size=32, channels=1, architecture=architecture)
        assert isinstance(config, ImageClassifierConfig)
        assert architecture_of(config) == architecture
        stored = json.loads(json.dumps(to_mapping(config)))
        assert read_model_config(architecture, stored, "config.json") == config
        # The number of positions follows from the sizes, and is not a setting.
        with pytest.raises(SettingsError, match=r"unknown key model\.max_positions"):
            read_model_config(architecture, stored | {"max_positions": 65}, "config.json")


@EACH_ARCHITECTURE
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": 0}, "image_size must be at least 1, not 0"),
        ({"channels": -1}, "channels must be at least 1, not -1"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), not 1.0"),
        ({"labels": ("a", "b", "a")}, "labels must be different, but 'a' occurs 2 times"),
        ({"labels": ("a", "")}, "from 1 to 1,000 characters, but '' has 0"),
        ({"labels": ("x" * 1001,)}, "from 1 to 1,000 characters, but 'xxx.* has 1,001"),
        ({"labels": ("a\nb",)}, r"no control characters and no line breaks, but 'a\\nb' has"),
        ({"labels": ("a\x1b[31m",)}, "no control characters"),
        ({"labels": ("a\u2028b",)}, "no control characters"),
        ({"labels": ("\ud800",)}, "no control characters"),
        ({"labels": tuple(map(str, range(65_537)))}, "to 65,536 labels, not 65,537"),
    ],
)
def test_invalid_settings(architecture: str, changes: dict[str, Any], message: str) -> None:
    config = image_preset("tiny", ("a", "b"), image_size=32, architecture=architecture)
    with pytest.raises(SettingsError, match=message):
        replace(config, **changes)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (VisionConfig, {"patch": 5}, "image_size must be a multiple of patch, but 32 is not a multiple of 5"),
        (VisionConfig, {"patch": 64}, "image_size must be a multiple of patch"),
        (VisionConfig, {"image_size": 1024, "patch": 1}, "at most 65,536 patches, not 1,048,576: use a larger patch"),
        (VisionConfig, {"heads": 5}, "heads must divide d_model"),
        (ImageConvolutionConfig, {"labels": ()}, "from 1 to 65,536 labels, not 0"),
        (ImageConvolutionConfig, {"width": 12}, "width must be a multiple of 8, not 12"),
        (ImageConvolutionConfig, {"blocks": 6}, "image_size must be at least 64 for 6 blocks"),
    ],
)
def test_invalid_settings_of_one_architecture(config: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        config(**{"image_size": 32, "labels": ("a", "b"), **changes})


def test_labels_of_several_scripts_and_emoji_are_supported(tmp_path: Path) -> None:
    # Joined by U+200D, and a flag of tag characters.
    labels = ("Ω", "漢字", "a, b; c", "\U0001f469\u200d\U0001f52c", "\U0001f3f4\U000e0067\U000e007f", " ", "3")
    config = replace(IMAGE_VARIANTS["vision, paper"], labels=labels)
    save(tmp_path, config, build_image_classifier(config))
    loaded = load_description(tmp_path).model
    assert isinstance(loaded, VisionConfig)
    assert loaded.labels == labels


@EACH_ARCHITECTURE
@pytest.mark.parametrize("value", [2**31, 2**64, 10**100], ids=["31 bits", "64 bits", "a googol"])
def test_all_sizes_are_bounded(architecture: str, value: int) -> None:
    config = image_preset("tiny", ("a", "b"), image_size=32, architecture=architecture)
    sizes = [field.name for field in fields(config) if "int" in str(field.type) and field.init]
    assert {"image_size", "channels"} <= set(sizes)
    for name in sizes:
        changes: dict[str, Any] = {name: value}
        with pytest.raises(SettingsError, match=rf"^{name} must be at most [\d,]+, not ") as caught:
            replace(config, **changes)
        assert len(str(caught.value)) < 200


# Model directories from somebody else


@pytest.mark.parametrize("variant", ["vision, paper", "image-convolution, small"])
@pytest.mark.parametrize(
    "damages",
    [CONFIG_DAMAGES, HEADER_DAMAGES, TENSOR_DAMAGES, BODY_DAMAGES],
    ids=["config", "header", "tensors", "body"],
)
def test_damaged_directories_are_refused_in_one_line_or_give_finite_numbers(
    variant: str, damages: Any, tmp_path: Path
) -> None:
    config = IMAGE_VARIANTS[variant]
    intact = read_folder(save(tmp_path / "intact", config, build_image_classifier(config)))
    messages = []
    for case in range(60):
        draw = random.Random(f"{variant} {case}")
        files = dict(intact)
        recipe = draw.choice(damages)(draw, files)
        folder = tmp_path / f"case {case}"
        write_folder(folder, files)
        try:
            model = load_image_classifier(folder)
            size = (2, model.channels, model.image_size, model.image_size)
            assert model.features(torch.zeros(size)).shape == (2, model.width), recipe
        except (UserError, FloatingPointError) as error:
            messages.append(str(error))
    assert len(messages) > 20
    assert max(len(message.splitlines()) for message in messages) == 1
    assert max(map(len, messages)) < 1000
