"""The two networks of the self-attention GAN."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.errors import SettingsError, UserError
from dragoman.layers.map_attention import MapAttention
from dragoman.layers.spectral_norm import SpectralNorm
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.description import ModelDescription
from dragoman.models.sagan import Sagan, build_sagan
from dragoman.models.storage import load_sagan, save_model, set_weights, weights_of
from tests.support.hostile.config_damage import CONFIG_DAMAGES
from tests.support.hostile.folder import read_folder, write_folder
from tests.support.hostile.weights_damage import BODY_DAMAGES, HEADER_DAMAGES, TENSOR_DAMAGES
from tests.support.variants import GAN_VARIANTS

TINY = GAN_VARIANTS["sagan, small"]
EACH_VARIANT = pytest.mark.parametrize("config", GAN_VARIANTS.values(), ids=GAN_VARIANTS)


def build(config: SaganConfig) -> Sagan:
    torch.manual_seed(1)
    return build_sagan(config)


@EACH_VARIANT
def test_pictures_have_the_size_and_the_range_of_the_settings(config: SaganConfig) -> None:
    model = build(config)
    label = torch.arange(5) % config.label_rows
    images = model.generator(torch.randn(5, config.latent), label)
    assert images.shape == (5, config.channels, config.size, config.size)
    assert images.abs().max() <= 1
    assert images.std() > 0.01
    assert model.discriminator(images, label).shape == (5,)


@EACH_VARIANT
def test_the_settings_list_every_tensor(config: SaganConfig) -> None:
    listed = {tensor.name: (tensor.shape, tensor.integer) for tensor in config.tensors()}
    actual = {
        name: (tuple(tensor.shape), not tensor.is_floating_point())
        for name, tensor in weights_of(build(config)).items()
    }
    assert listed == actual


@EACH_VARIANT
def test_every_weight_but_those_behind_gamma_has_a_gradient(config: SaganConfig) -> None:
    model = build(config)
    label = torch.arange(6) % config.label_rows
    model.discriminator(model.generator(torch.randn(6, config.latent), label), label).sin().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        behind_gamma = "attention" in name and not name.endswith("gamma")
        assert bool(parameter.grad.abs().max() > 0) != behind_gamma, name


def test_gamma_0_gives_the_network_without_attention_exactly() -> None:
    model, without = build(TINY), build(replace(TINY, attention=None))
    weights = {name: tensor for name, tensor in weights_of(model).items() if ".attention." not in name}
    set_weights(without, weights, "the same weights")
    latent, label = torch.randn(4, TINY.latent), torch.tensor([0, 1, 2, 0])
    images = model.eval().generator(latent, label)
    assert torch.equal(without.eval().generator(latent, label), images)
    assert torch.equal(without.discriminator(images, label), model.discriminator(images, label))


def test_attention_changes_pictures_and_scores_when_gamma_is_not_0() -> None:
    model = build(TINY).eval()
    latent, label = torch.randn(4, TINY.latent), torch.tensor([0, 1, 2, 0])
    images = model.generator(latent, label)
    scores = model.discriminator(images, label)
    for network in (model.generator, model.discriminator):
        assert isinstance(network.attention, MapAttention)
        torch.nn.init.constant_(network.attention.gamma, 0.5)
    assert not torch.allclose(model.generator(latent, label), images)
    assert not torch.allclose(model.discriminator(images, label), scores)


def test_labels_matter_to_both_networks() -> None:
    model = build(TINY).eval()
    torch.nn.init.normal_(model.generator.norm.gain)
    latent = torch.randn(1, TINY.latent).expand(3, -1)
    images = model.generator(latent, torch.arange(3))
    assert not torch.allclose(images[0], images[1])
    scores = model.discriminator(images[:1].expand(3, -1, -1, -1), torch.arange(3))
    assert len(set(scores.tolist())) == 3


def test_every_weight_of_a_map_is_normalised() -> None:
    model = build(TINY)
    maps = {name.rpartition(".")[0] for name, parameter in model.named_parameters() if parameter.ndim > 1}
    maps -= {name for name in maps if name.endswith("norm")}
    normalised = {
        name.removesuffix(".norm") for name, module in model.named_modules() if isinstance(module, SpectralNorm)
    }
    assert maps == normalised


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 48}, "size must be one of"),
        ({"size": 1 << 20}, "size must be one of"),
        ({"channels": 2}, "channels must be 1 or 3"),
        ({"width": 12}, "multiple of 8"),
        ({"width": 1 << 40}, "width"),
        ({"attention": 16}, "attention must be the size of a feature map"),
        ({"attention": 4}, "attention must be the size of a feature map"),
        ({"labels": ("a", "a")}, "labels must be different"),
        ({"labels": ("a\nb",)}, "no line breaks"),
    ],
)
def test_settings_that_contradict_each_other(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(TINY, **changes)  # type: ignore[arg-type]


def save(directory: Path, config: SaganConfig, model: Sagan) -> Path:
    directory.mkdir()
    save_model(directory, ModelDescription(architecture="sagan", model=config, trained_length=1), weights_of(model))
    return directory


@EACH_VARIANT
def test_a_saved_model_makes_the_same_pictures(config: SaganConfig, tmp_path: Path) -> None:
    model = build(config).eval()
    latent, label = torch.randn(3, config.latent), torch.arange(3) % config.label_rows
    loaded = load_sagan(save(tmp_path / "model", config, model))
    assert torch.equal(loaded.generator(latent, label), model.generator(latent, label))


@pytest.mark.parametrize(
    "damages",
    [CONFIG_DAMAGES, HEADER_DAMAGES, TENSOR_DAMAGES, BODY_DAMAGES],
    ids=["config", "header", "tensors", "body"],
)
def test_damaged_directories_are_refused_in_one_line_or_make_pictures(damages: Any, tmp_path: Path) -> None:
    intact = read_folder(save(tmp_path / "intact", TINY, build(TINY)))
    messages = []
    for case in range(60):
        draw = random.Random(f"sagan {case}")
        files = dict(intact)
        recipe = draw.choice(damages)(draw, files)
        folder = tmp_path / f"case {case}"
        write_folder(folder, files)
        try:
            model = load_sagan(folder)
            images = model.generator(
                torch.zeros(2, model.generator.start.in_features), torch.zeros(2, dtype=torch.int64)
            )
            assert images.shape[0] == 2, recipe
        except (UserError, FloatingPointError) as error:
            messages.append(str(error))
    assert len(messages) > 20
    assert max(len(message.splitlines()) for message in messages) == 1
    assert max(map(len, messages)) < 1000
