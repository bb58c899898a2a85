"""Saving and loading of model directories, and messages about damaged ones."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.errors import UserError
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import CONFIG_FILE, ModelDescription, load_description
from dragoman.models.storage import load_model, save_model, set_weights, weights_of
from dragoman.models.transformer import Transformer, build_transformer
from dragoman.models.weights import WEIGHTS_FILE

CONFIG = TransformerConfig(
    source_vocabulary=12,
    target_vocabulary=12,
    encoder_layers=1,
    decoder_layers=1,
    d_model=8,
    heads=2,
    d_ff=16,
)


def described(config: TransformerConfig = CONFIG) -> ModelDescription:
    return ModelDescription(
        architecture="transformer",
        model=config,
        trained_length=40,
        source_language="en",
        target_language="de",
    )


def build(config: TransformerConfig = CONFIG) -> Transformer:
    torch.manual_seed(0)
    return build_transformer(config)


def write(directory: Path, config: TransformerConfig = CONFIG) -> Transformer:
    model = build(config)
    save_model(directory, described(config), weights_of(model))
    return model.eval()


def logits(model: Any) -> Tensor:
    source = torch.arange(10).view(2, 5)
    output: Tensor = model.decode(source, model.encode(source, torch.ones_like(source, dtype=torch.bool)))
    return output


VARIANTS: list[dict[str, Any]] = [
    {},
    {"tied_embeddings": "two-way", "source_vocabulary": 13},
    {"tied_embeddings": "none", "target_vocabulary": 13},
    {"norm": "batch", "attention_bias": True},
    {"norm": "rms", "positions": "rotary", "norm_placement": "pre", "activation": "swiglu"},
    {"positions": "learned", "max_positions": 50},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_round_trip(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = replace(CONFIG, **changes)
    model = build(config)
    logits(model)  # in training: a batch norm's statistics move
    save_model(tmp_path, described(config), weights_of(model))
    assert load_description(tmp_path) == described(config)
    loaded = load_model(tmp_path)
    assert not loaded.training
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert logits(loaded).equal(logits(model.eval()))
    # Tied weights stay tied, and the training of a loaded model can continue.
    assert weights_of(loaded).keys() == weights_of(model).keys()
    assert all(parameter.requires_grad for parameter in loaded.parameters())


def test_contents_of_the_directory(tmp_path: Path) -> None:
    """The format is public: two files, a tied matrix once, no sinusoidal positions."""
    write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CONFIG_FILE, WEIGHTS_FILE]
    config = json.loads((tmp_path / CONFIG_FILE).read_text(encoding="utf-8"))
    assert config == {
        "architecture": "transformer",
        "model": asdict(CONFIG),
        "trained_length": 40,
        "source_language": "en",
        "target_language": "de",
        "vocabulary_hash": None,
        "right_to_left": False,
        "digests": {},
        "format": 2,
    }
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    assert "source_embedding.tokens.weight" in tensors
    assert "output.weight" not in tensors
    assert not any("table" in name for name in tensors)
    assert sum(tensor.numel() for tensor in tensors.values()) == sum(p.numel() for p in build().parameters())


def test_saving_replaces_an_earlier_model(tmp_path: Path) -> None:
    write(tmp_path)
    changed = build()
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.add_(1)
    save_model(tmp_path, described(), weights_of(changed))
    torch.testing.assert_close(load_model(tmp_path).state_dict(), changed.state_dict(), rtol=0, atol=0)


def test_a_model_in_half_precision_is_read_as_float32(tmp_path: Path) -> None:
    model = build()
    save_model(tmp_path, described(), weights_of(model))
    # Another program may have written half-precision weights.
    save_file({name: tensor.bfloat16() for name, tensor in weights_of(model).items()}, tmp_path / WEIGHTS_FILE)
    loaded = load_model(tmp_path)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0.01, atol=0.01)


def test_tensors_that_are_not_contiguous_can_be_saved(tmp_path: Path) -> None:
    """Averaged weights may be transposed, or views of one buffer."""
    weights = {
        name: tensor.t().contiguous().t() if tensor.dim() == 2 else tensor
        for name, tensor in weights_of(build()).items()
    }
    save_model(tmp_path, described(), weights)
    torch.testing.assert_close(load_model(tmp_path).state_dict(), build().state_dict(), rtol=0, atol=0)


# Damage


def test_an_empty_directory_is_not_a_model_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a model directory: it has no config\.json"):
        load_model(tmp_path)
    with pytest.raises(UserError, match="is not a model directory"):
        load_model(tmp_path / "missing")


def test_missing_weights(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / WEIGHTS_FILE).unlink()
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        load_model(tmp_path)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, 0.5, -1])
def test_truncated_weights(tmp_path: Path, keep: float) -> None:
    write(tmp_path)
    path = tmp_path / WEIGHTS_FILE
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 64, b"\x80\x04\x95pickle" * 9, (2**40).to_bytes(8, "little") + b"{}", b"\x02" + bytes(7) + b"{}\0"],
    ids=["noise", "pickle", "header too long", "something after the end"],
)
def test_weights_that_are_not_a_safetensors_file(tmp_path: Path, data: bytes) -> None:
    write(tmp_path)
    (tmp_path / WEIGHTS_FILE).write_bytes(data)
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        load_model(tmp_path)


def test_weights_that_are_a_directory(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / WEIGHTS_FILE).unlink()
    (tmp_path / WEIGHTS_FILE).mkdir()
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is damaged"),
        (b"{", "is damaged"),
        (b"\xff\xfe{}", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b"NaN", "it is not a JSON object"),
        (b"[]", "it is not a JSON object"),
        (b"null", "it is not a JSON object"),
        (b"{}", "architecture is missing"),
    ],
    ids=["empty", "cut", "not UTF-8", "deep", "a number", "a list", "null", "no keys"],
)
def test_damaged_config(tmp_path: Path, data: bytes, message: str) -> None:
    write(tmp_path)
    (tmp_path / CONFIG_FILE).write_bytes(data)
    with pytest.raises(UserError, match=message) as caught:
        load_model(tmp_path)
    assert str(tmp_path / CONFIG_FILE) in str(caught.value)


def edit(directory: Path, changes: dict[str, Any], model: dict[str, Any]) -> None:
    path = directory / CONFIG_FILE
    config = json.loads(path.read_text(encoding="utf-8"))
    config.update(changes)
    config["model"].update(model)
    path.write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "model", "message"),
    [
        ({"format": 3}, {}, "format 3 is not supported"),
        ({"architecture": "oracle"}, {}, "unknown architecture 'oracle'"),
        ({"trained_length": 0}, {}, "trained_length must be at least 1"),
        ({"trained_length": "40"}, {}, "trained_length.*whole number"),
        ({"trained_lenght": 40}, {}, r"unknown key trained_lenght.*did you mean trained_length\?"),
        ({}, {"d_modell": 8}, r"unknown key model\.d_modell.*did you mean model\.d_model\?"),
        ({}, {"heads": 3}, "3 does not divide 8"),
        ({}, {"norm": "group"}, r"model\.norm.*expected one of 'layer', 'rms', 'batch'"),
        ({}, {"dropout": True}, r"model\.dropout.*number"),
        ({}, {"source_vocabulary": 13}, "needs one joint vocabulary"),
    ],
)
def test_invalid_config(tmp_path: Path, changes: dict[str, Any], model: dict[str, Any], message: str) -> None:
    write(tmp_path)
    edit(tmp_path, changes, model)
    with pytest.raises(UserError, match=message) as caught:
        load_model(tmp_path)
    assert str(tmp_path / CONFIG_FILE) in str(caught.value)


def test_a_missing_key(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / CONFIG_FILE
    config = json.loads(path.read_text(encoding="utf-8"))
    del config["model"]["source_vocabulary"]
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UserError, match=r"model\.source_vocabulary is missing"):
        load_description(tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"encoder_layers": 2}, r"lacks encoder\.layers\.1\.self_attention\.query\.weight, which config.json requires"),
        ({"encoder_layers": 250, "decoder_layers": 250}, r"lacks encoder\.layers\.1\."),
        ({"tied_embeddings": "none"}, r"lacks target_embedding\.tokens\.weight"),
        ({"activation": "geglu"}, r"lacks .*gate\.weight"),
        ({"norm": "rms"}, "has 5 unknown weights; the first is .*norm.bias'"),
        ({"d_ff": 17}, r"has shape \[16, 8\], but config.json requires \[17, 8\]"),
        ({"source_vocabulary": 13, "target_vocabulary": 13}, r"has shape \[12, 8\], .* requires \[13, 8\]"),
    ],
)
def test_weights_and_config_of_different_models(tmp_path: Path, model: dict[str, Any], message: str) -> None:
    write(tmp_path)
    edit(tmp_path, {}, model)
    with pytest.raises(UserError, match=message) as caught:
        load_model(tmp_path)
    assert str(tmp_path / WEIGHTS_FILE) in str(caught.value)


def test_an_unknown_weight(tmp_path: Path) -> None:
    write(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    save_file({**tensors, "stowaway": torch.zeros(1)}, tmp_path / WEIGHTS_FILE)
    with pytest.raises(UserError, match="has 1 unknown weights; the first is 'stowaway'"):
        load_model(tmp_path)


def test_a_model_is_unchanged_after_an_error_in_set_weights() -> None:
    model = build()
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    wrong = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    last = max(wrong)
    wrong[last] = torch.zeros(3, 3, 3)
    with pytest.raises(UserError, match=f"here: {last} has shape"):
        set_weights(model, wrong, "here")
    torch.testing.assert_close(weights_of(model), before, rtol=0, atol=0)
