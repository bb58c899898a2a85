"""Folders with a ViT in Hugging Face's layout that are damaged, hostile or not supported; what cannot be exported."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dragoman.errors import ModelError
from dragoman.interop.huggingface import export_model, import_model
from dragoman.models.config.vision import VisionConfig
from dragoman.models.description import ModelDescription, load_description
from dragoman.models.registry import build_any
from dragoman.models.storage import save_model, weights_of
from tests.support.command_line import dragoman

CONFIG = VisionConfig(image_size=8, labels=("cat", "crane", "dog"), layers=2, d_model=8, heads=2, d_ff=12)


def save(directory: Path, **settings: Any) -> Path:
    config = replace(CONFIG, **settings)
    directory.mkdir()
    description = ModelDescription(architecture="vision", model=config, trained_length=1)
    save_model(directory, description, weights_of(build_any(config)))
    return directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a small ViT in Hugging Face's layout."""
    export_model(save(tmp_path / "model"), tmp_path / "folder")
    return tmp_path / "folder"


def config_of(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_bytes())
    return config


def set_config(folder: Path, **settings: Any) -> None:
    (folder / "config.json").write_text(json.dumps(config_of(folder) | settings), encoding="utf-8")


def imported_labels(folder: Path, out: Path) -> tuple[str, ...]:
    import_model(folder, out)
    config = load_description(out).model
    assert isinstance(config, VisionConfig)
    return config.labels


@pytest.mark.parametrize("settings", [{}, {"labels": ()}, {"channels": 1, "activation": "gelu_tanh", "dropout": 0.0}])
def test_export_and_import_give_the_same_directory(tmp_path: Path, settings: dict[str, Any]) -> None:
    export_model(save(tmp_path / "model", **settings), tmp_path / "folder")
    import_model(tmp_path / "folder", tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "deit"}, "model_type 'deit' is not supported"),
        ({"qkv_bias": False}, "qkv_bias is False; only True is supported"),
        ({"hidden_act": "quick_gelu"}, "hidden_act"),
        ({"hidden_act": "silu"}, "hidden_act"),
        ({"image_size": 10}, "image_size must be a multiple of patch, but 10 is not a multiple of 4"),
        ({"image_size": [8, 12]}, "image_size"),
        ({"image_size": 16}, r"position_embeddings has shape \[1, 5, 8\], but config\.json requires \[1, 17, 8\]"),
        ({"patch_size": 2}, "has shape"),
        ({"patch_size": 0}, "patch must be at least 1"),
        ({"image_size": 4096, "patch_size": 1}, "at most 65,536 patches"),
        ({"num_channels": 10**9}, "channels must be at most"),
        ({"num_channels": 1}, "projection.weight has shape"),
        ({"num_hidden_layers": 10**9}, "layers must be at most"),
        ({"num_hidden_layers": 3}, r"lacks vit\.encoder\.layer\.2"),
        ({"num_hidden_layers": 1}, r"unknown weights; the first is 'vit\.encoder\.layer\.1"),
        ({"num_attention_heads": 3}, "heads must divide"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps"),
        ({"problem_type": "multi_label_classification"}, "problem_type is 'multi_label_classification'"),
        ({"problem_type": "regression"}, "problem_type is 'regression'"),
        ({"id2label": ["cat", "dog", "bird"]}, "id2label must be a table with the keys"),
        ({"id2label": {"0": "cat", "1": "dog", "3": "bird"}}, "id2label must be a table with the keys"),
        ({"id2label": {"0": "cat", "1": "dog", "٢": "bird"}}, "id2label must be a table with the keys"),
        ({"id2label": {"0": "cat", "1": "dog", "2": 3}}, "id2label has the label 3, which is not text"),
        ({"id2label": {"0": "cat", "1": "dog", "2": ["x"]}}, "which is not text"),
        ({"id2label": {"0": "cat", "1": "dog", "2": "b\u001b[31m"}}, "a label has no control characters"),
        ({"id2label": {"0": "cat", "1": "dog", "2": "b\nc"}}, r"no line breaks, but 'b\\nc' has"),
        ({"id2label": {"0": "cat", "1": "dog", "2": ""}}, "a label has from 1 to 1,000 characters"),
        ({"id2label": {"0": "cat", "1": "dog", "2": "x" * 10_000}}, "but 'xxx.* has 10,000"),
        ({"id2label": {"0": "cat", "1": "cat", "2": "cat (1)"}}, r"labels must be different, but 'cat \(1\)'"),
        ({"id2label": {"0": "cat", "1": "dog"}}, r"classifier\.weight has shape \[3, 8\]"),
        ({"id2label": {}}, "unknown weights; the first is 'classifier"),
        ({"id2label": None}, r"classifier\.weight has shape \[3, 8\], but config\.json requires \[2, 8\]"),
        ({"id2label": None, "num_labels": 10**9}, "num_labels must be from 1 to 65,536"),
        ({"id2label": None, "num_labels": "3"}, "num_labels must be from 1 to 65,536, not '3'"),
    ],
    ids=str,
)
def test_settings_that_are_refused(tmp_path: Path, folder: Path, settings: dict[str, Any], message: str) -> None:
    set_config(folder, **settings)
    with pytest.raises(ModelError, match=message) as caught:
        import_model(folder, tmp_path / "out")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600
    assert not (tmp_path / "out").exists()


def test_labels_with_the_same_name_get_the_number_of_their_class(tmp_path: Path, folder: Path) -> None:
    set_config(folder, id2label={"0": "crane", "2": "crane", "1": "dog"})
    assert imported_labels(folder, tmp_path / "out") == ("crane (0)", "dog", "crane (2)")


def test_labels_without_names(tmp_path: Path, folder: Path) -> None:
    set_config(folder, id2label=None, num_labels=3)
    assert imported_labels(folder, tmp_path / "out") == ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_mean": [0.485, 0.456, 0.406]}, r"image_mean is \[0.485, 0.456, 0.406\], only 0.5 is supported"),
        ({"image_std": 0.2}, "image_std is 0.2, only 0.5"),
        ({"do_normalize": False}, "do_normalize is False; only True"),
        ({"do_rescale": False}, "do_rescale is False; only True"),
        ({"rescale_factor": 0.0078}, "rescale_factor is 0.0078, only 1/255"),
        ([], "is damaged: it is not a JSON object"),
    ],
)
def test_images_that_are_prepared_in_another_way_are_refused(
    tmp_path: Path, folder: Path, settings: Any, message: str
) -> None:
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        import_model(folder, tmp_path / "out")
    usual = {"do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5] * 3, "rescale_factor": 1 / 255}
    path.write_text(json.dumps(usual), encoding="utf-8")
    import_model(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("vit.embeddings.cls_token", np.zeros((1, 8), np.float32), r"cls_token has shape \[1, 8\]"),
        ("vit.embeddings.cls_token", np.zeros((8, 1, 1), np.float32), r"cls_token has shape \[8, 1, 1\]"),
        (
            "vit.embeddings.patch_embeddings.projection.weight",
            np.zeros((8, 48), np.float32),
            r"has shape \[8, 48\], but config\.json requires \[8, 3, 4, 4\]",
        ),
        ("embeddings.cls_token", np.zeros((1, 1, 8), np.float32), "twice"),
        ("vit.embeddings.distillation_token", np.zeros((1, 1, 8), np.float32), "distillation_token'"),
        ("decoder.0.weight", np.zeros((3, 8, 1, 1), np.float32), r"unknown weights; the first is 'decoder\.0\.weight'"),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, folder: Path, name: str, value: Any, message: str) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: value}, path)
    with pytest.raises(ModelError, match=message):
        import_model(folder, tmp_path / "out")


def test_the_pooler_and_the_mask_token_are_left_out(tmp_path: Path, folder: Path) -> None:
    path = folder / "model.safetensors"
    more = {"vit.pooler.dense.weight": (8, 8), "vit.pooler.dense.bias": (8,), "vit.embeddings.mask_token": (1, 1, 8)}
    save_file(load_file(path) | {name: np.zeros(shape, np.float32) for name, shape in more.items()}, path)
    conversion = import_model(folder, tmp_path / "out")
    assert conversion.left_out == tuple(sorted(more))
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| left out | vit.pooler.dense.bias |" in card
    assert "numbers from -1 to 1" in card


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "rotary"}, "positions = 'rotary', only 'learned'"),
        ({"norm": "rms"}, "norm = 'rms', only 'layer'"),
        ({"norm_placement": "post"}, "norm_placement = 'post'"),
        ({"activation": "swiglu"}, "activation = 'swiglu', only 'gelu' or 'gelu_tanh' or 'relu'"),
        ({"attention_bias": False}, "attention_bias = False"),
        ({"attention_scale": "none"}, "attention_scale = 'none'"),
        ({"d_k": 2}, "d_k = 2"),
        ({"d_v": 2}, "d_v = 2"),
    ],
)
def test_settings_that_cannot_be_exported(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"ViT cannot represent {message}"):
        export_model(save(tmp_path / "model", **settings), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_line(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dragoman(monkeypatch, "import", folder, "--out", tmp_path / "out") == 0
    output = capsys.readouterr().out
    assert "vit, 2 layers, d_model 8" in output
    assert "The model takes images as numbers from -1 to 1 (Python)." in output
    assert "token" not in output
    assert dragoman(monkeypatch, "export", tmp_path / "out", "--out", tmp_path / "exported") == 0
    assert "image_mean and image_std are 0.5" in capsys.readouterr().out
    assert (folder / "model.safetensors").read_bytes() == (tmp_path / "exported" / "model.safetensors").read_bytes()
    (tmp_path / "test.tsv").write_text("one\ttwo\n", encoding="utf-8")
    page = ["text", "--out", str(tmp_path / "page.html")]
    for verb, arguments in {
        **{"translate": [], "embed": ["text"], "generate": ["text"], "attention": page},
        "evaluate": [str(tmp_path / "test.tsv")],
    }.items():
        assert dragoman(monkeypatch, verb, tmp_path / "out", *arguments) == 2
        assert "is a classifier of images: use dragoman images classify" in capsys.readouterr().err
