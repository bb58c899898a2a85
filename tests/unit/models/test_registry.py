"""The table of architectures, which does not import torch before a model is built."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import pytest

from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig
from dragoman.models.registry import architecture_of, architectures, build_model, preset, read_model_config
from dragoman.models.seq2seq import Seq2Seq
from dragoman.settings import to_mapping
from tests.support.variants import VARIANTS

EACH_ARCHITECTURE = pytest.mark.parametrize("architecture", architectures("seq2seq"))
EACH_PRESET = pytest.mark.parametrize(
    ("architecture", "name"),
    [(architecture, name) for architecture, entry in architectures("seq2seq").items() for name in entry.presets],
)


@EACH_ARCHITECTURE
def test_every_entry_builds_its_model(architecture: str) -> None:
    config = preset("tiny", 30, 30, joint=True, architecture=architecture)
    assert architecture_of(config) == architecture
    assert isinstance(build_model(config), Seq2Seq)


@EACH_ARCHITECTURE
def test_every_architecture_has_variants_for_the_contract_tests(architecture: str) -> None:
    assert any(name.startswith(f"{architecture}, ") for name in VARIANTS)
    assert all(architecture_of(config) == name.partition(", ")[0] for name, config in VARIANTS.items()), (
        "variants are named by their architecture"
    )


@EACH_PRESET
def test_vocabularies_determine_the_tied_embeddings(architecture: str, name: str) -> None:
    if architecture == "decoder-only":
        with pytest.raises(SettingsError, match="needs one joint vocabulary"):
            preset(name, 30, 40, joint=False, architecture=architecture)
        return
    config = preset(name, 30, 40, joint=False, architecture=architecture)
    assert (config.source_vocabulary, config.target_vocabulary) == (30, 40)
    assert config.tied_embeddings == "two-way"
    joint = preset(name, 40, 40, joint=True, architecture=architecture)
    assert joint.tied_embeddings == "three-way"
    assert joint == replace(config, source_vocabulary=40, tied_embeddings="three-way")


@EACH_PRESET
def test_settings_are_read_as_they_were_written(architecture: str, name: str) -> None:
    config = preset(name, 30, 30, joint=True, architecture=architecture)
    assert isinstance(config, ModelConfig)
    assert read_model_config(architecture, to_mapping(config), "config.json") == config
    with pytest.raises(FrozenInstanceError):
        config.d_model = 2  # type: ignore[misc]


def test_messages_about_unknown_names_list_the_known_names() -> None:
    with pytest.raises(SettingsError, match="'huge': choose one of tiny, small, base, big, modern, fast"):
        preset("huge", 8, 8, joint=True)
    with pytest.raises(SettingsError, match="recurrent has no preset 'modern': choose one of tiny, small, base"):
        preset("modern", 8, 8, joint=True, architecture="recurrent")
    known = "transformer, recurrent, convolutional, universal, .*language"
    with pytest.raises(SettingsError, match=f"unknown architecture 'oracle': choose one of {known}"):
        preset("tiny", 8, 8, joint=True, architecture="oracle")
    for wrong in ("oracle", None, ["transformer"]):
        with pytest.raises(SettingsError, match=rf"run\.toml: unknown architecture .*: choose one of {known}"):
            read_model_config(wrong, {}, "run.toml")
    with pytest.raises(SettingsError, match=r"run\.toml: model must be a table of settings, not 3"):
        read_model_config("transformer", 3, "run.toml")


def test_the_table_does_not_import_torch() -> None:
    """Importing torch takes seconds, and is not needed for --help or for the description of a model directory."""
    code = "import sys, dragoman.models.registry, dragoman.models.description; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
