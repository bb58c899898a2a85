"""Folders in Hugging Face's layout that are damaged, hostile or not supported; settings that cannot be exported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dragoman.errors import ModelError, StorageError, UserError
from dragoman.interop.huggingface import export_model, import_model
from dragoman.models.config.language import LanguageConfig
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import build_any
from dragoman.models.storage import save_model, weights_of
from tests.support.command_line import dragoman

EXPORTABLE: dict[str, Any] = {
    **{"vocabulary": 11, "layers": 2, "d_model": 8, "heads": 2, "d_ff": 12, "context": 10, "max_positions": 10},
    **{"positions": "learned", "attention_bias": True},
}


def save_language_model(directory: Path, **settings: Any) -> Path:
    config = LanguageConfig(**{**EXPORTABLE, **settings})
    directory.mkdir()
    description = ModelDescription(architecture="language", model=config, trained_length=10)
    save_model(directory, description, weights_of(build_any(config)))
    return directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a small GPT-2 in Hugging Face's layout."""
    export_model(save_language_model(tmp_path / "model"), tmp_path / "folder")
    return tmp_path / "folder"


def set_config(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | settings), encoding="utf-8")


def test_export_and_import_give_the_same_directory(tmp_path: Path, folder: Path) -> None:
    import_model(folder, tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "llama"}, "model_type 'llama' is not supported"),
        ({"model_type": ["gpt2"]}, "is not supported"),
        ({"scale_attn_weights": False}, "scale_attn_weights is False; only True"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"activation_function": "swish"}, "activation_function"),
        ({"n_layer": "2"}, "n_layer"),
        ({"n_layer": True}, "n_layer"),
        ({"n_layer": 10**9}, "layers must be at most"),
        ({"n_layer": 3}, "lacks transformer.h.2.attn.c_attn.weight"),
        ({"n_layer": 1}, "unknown weights; the first is 'transformer.h.1."),
        ({"vocab_size": 10**7}, "has shape"),
        ({"n_embd": 10**4}, "has shape"),
        ({"n_head": 3}, "heads must divide"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon"),
        ({"resid_pdrop": 1.0}, "dropout"),
        ({"tie_word_embeddings": False}, "lacks lm_head.weight"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, folder: Path, settings: dict[str, Any], message: str) -> None:
    set_config(folder, **settings)
    with pytest.raises(ModelError, match=message):
        import_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("transformer.wte.weight", np.zeros((11, 4), np.float32), "has shape"),
        ("transformer.wte.weight", np.zeros((11, 8), np.float64), "unsupported type"),
        ("wte.weight", np.zeros((11, 8), np.float32), "twice"),
        ("transformer.other", np.zeros(3, np.float32), "unknown weights; the first is 'transformer.other'"),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, folder: Path, name: str, value: Any, message: str) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: value}, path)
    with pytest.raises(ModelError, match=message):
        import_model(folder, tmp_path / "out")


def test_weights_that_are_not_finite_are_refused(tmp_path: Path, folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["transformer.ln_f.weight"][3] = np.nan
    save_file(tensors, path)
    with pytest.raises(FloatingPointError, match=r"transformer\.ln_f\.weight"):
        import_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_masks_of_older_files_and_a_copy_of_the_embeddings_are_left_out(tmp_path: Path, folder: Path) -> None:
    path = folder / "model.safetensors"
    # Without a prefix, in half precision.
    tensors: dict[str, Any] = {
        name.removeprefix("transformer."): values.astype(np.float16) for name, values in load_file(path).items()
    }
    tensors["h.0.attn.bias"] = np.ones((1, 1, 10, 10), np.uint8)
    tensors["lm_head.weight"] = tensors["wte.weight"]
    save_file(tensors, path)
    conversion = import_model(folder, tmp_path / "out")
    assert conversion.left_out == ("h.0.attn.bias", "lm_head.weight")
    half = load_file(tmp_path / "out" / "model.safetensors")["embedding.tokens.weight"]
    assert np.array_equal(half, tensors["wte.weight"].astype(np.float32))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("pytorch_model.bin", "pytorch_model.bin, which is not read"),
        ("model.safetensors.index.json", "in several files"),
        ("unrelated", "has no model.safetensors$"),
    ],
)
def test_a_folder_without_safetensors(tmp_path: Path, folder: Path, other: str, message: str) -> None:
    (folder / "model.safetensors").rename(folder / other)
    with pytest.raises(ModelError, match=message):
        import_model(folder, tmp_path / "out")


@pytest.mark.parametrize("size", [0, 7, 100, -1])
def test_truncated_weights(tmp_path: Path, folder: Path, size: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match="is damaged"):
        import_model(folder, tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": 1, "a": 2}', b"\xff", b"[" * 100_000])
def test_a_damaged_config(tmp_path: Path, folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match="is damaged"):
        import_model(folder, tmp_path / "out")


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json"):
        import_model(tmp_path / "missing", tmp_path / "out")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "rotary"}, "positions = 'rotary', only 'learned'"),
        ({"norm": "rms"}, "norm = 'rms', only 'layer'"),
        ({"norm_placement": "post"}, "norm_placement = 'post'"),
        ({"activation": "swiglu"}, "activation = 'swiglu', only 'gelu' or 'gelu_tanh' or 'relu'"),
        ({"attention_bias": False}, "attention_bias = False"),
        ({"d_k": 2}, "d_k = 2"),
    ],
)
def test_settings_that_cannot_be_exported(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    model = save_language_model(tmp_path / "model", **settings)
    with pytest.raises(ModelError, match=f"GPT-2 cannot represent {message}"):
        export_model(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_verbs_that_need_text_refuse_a_model_without_tokenizer(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_model(folder, tmp_path / "out")
    assert dragoman(monkeypatch, "embed", tmp_path / "out", "text") == 2
    assert "has no tokenizer, as after `dragoman import`: the model takes token ids" in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path: Path, folder: Path) -> None:
    for convert, source in ((import_model, folder), (export_model, tmp_path / "model")):
        with pytest.raises(StorageError, match="exists already"):
            convert(source, folder)


def test_the_command_line(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dragoman(monkeypatch, "import", folder, "--out", tmp_path / "out") == 0
    assert "2 layers, d_model 8" in capsys.readouterr().out
    assert dragoman(monkeypatch, "export", tmp_path / "out", "--out", tmp_path / "exported") == 0
    assert (folder / "model.safetensors").read_bytes() == (tmp_path / "exported" / "model.safetensors").read_bytes()
    assert dragoman(monkeypatch, "import", tmp_path / "out", "--out", tmp_path / "again") == 2
    assert "model_type None is not supported" in capsys.readouterr().err
    with pytest.raises(UserError):
        export_model(tmp_path / "exported", tmp_path / "never")


# BERT

BERT: dict[str, Any] = {
    **{"vocabulary": 11, "layers": 2, "d_model": 8, "heads": 2, "d_ff": 12, "context": 10, "max_positions": 10},
    **{"positions": "learned", "attention_bias": True, "norm_placement": "post", "embedding_norm": True},
    **{"segments": 2, "pooler": True, "next_sentence": True},
}


def save_encoder(directory: Path, **settings: Any) -> Path:
    config = MaskedConfig(**{**BERT, **settings})
    directory.mkdir()
    description = ModelDescription(architecture="masked", model=config, trained_length=10)
    save_model(directory, description, weights_of(build_any(config)))
    return directory


@pytest.mark.parametrize(
    "settings", [{}, {"next_sentence": False}, {"next_sentence": False, "pooler": False}, {"prediction_head": False}]
)
def test_an_encoder_is_the_same_after_export_and_import(tmp_path: Path, settings: dict[str, Any]) -> None:
    export_model(save_encoder(tmp_path / "model", **settings), tmp_path / "folder")
    import_model(tmp_path / "folder", tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def test_older_names_and_copies_in_files_of_encoders(tmp_path: Path) -> None:
    export_model(save_encoder(tmp_path / "model"), tmp_path / "folder")
    path = tmp_path / "folder" / "model.safetensors"
    older: dict[str, Any] = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): values
        for name, values in load_file(path).items()
    }
    older["bert.embeddings.position_ids"] = np.arange(10)[None]
    older["cls.predictions.decoder.weight"] = older["bert.embeddings.word_embeddings.weight"]
    save_file(older, path)
    conversion = import_model(tmp_path / "folder", tmp_path / "again")
    assert conversion.left_out == ("bert.embeddings.position_ids", "cls.predictions.decoder.weight")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "again"))
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "rotary"}, "positions = 'rotary'"),
        ({"norm_placement": "pre"}, "norm_placement = 'pre', only 'post'"),
        ({"embedding_norm": False}, "embedding_norm = False"),
        ({"segments": 0, "next_sentence": False}, "segments = 0"),
    ],
)
def test_encoders_that_cannot_be_exported(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    model = save_encoder(tmp_path / "model", **settings)
    with pytest.raises(ModelError, match=f"BERT cannot represent {message}"):
        export_model(model, tmp_path / "out")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"position_embedding_type": "relative_key"}, "only 'absolute' is supported"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"type_vocab_size": 0}, r"lacks bert\.|unknown weights|segments"),
    ],
)
def test_settings_of_encoders_that_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    export_model(save_encoder(tmp_path / "model"), tmp_path / "folder")
    set_config(tmp_path / "folder", **settings)
    with pytest.raises(ModelError, match=message):
        import_model(tmp_path / "folder", tmp_path / "out")
