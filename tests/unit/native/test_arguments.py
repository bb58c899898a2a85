"""Checks of arguments in the extension module: no argument from Python corrupts memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from dragoman import native
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.text.subwords import BOS, EOS, NEVER_GENERATED
from tests.support.native_models import BUILDS, CONFIG, NOT_INSTALLED, write_model

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

Weights = dict[str, NDArray[Any]]
GATED = {"activation": "swiglu", "attention_bias": True}
NORM, INNER, GATE = (
    f"decoder.layers.0.{name}" for name in ("self_residual.norm.bias", "feed_forward.inner", "feed_forward.gate")
)


def load_model(weights: Weights, changes: dict[str, Any], precision: native.Precision = "fp32") -> Any:
    return BUILDS[0].module.Model(
        settings=native.engine_settings(CONFIG) | changes,
        special_tokens={"bos": BOS, "eos": EOS, "never_generated": NEVER_GENERATED},
        weights=weights.get,
        precision=precision,
    )


def weights_of(directory: Path, changes: dict[str, Any] | None = None) -> Weights:
    write_model(directory, changes)
    return load_file(directory / WEIGHTS_FILE)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (NORM, ()),
        (NORM, (0,)),
        (NORM, (1, 32)),
        (NORM, (1, 1, 32)),
        (f"{INNER}.weight", ()),
        (f"{INNER}.weight", (48 * 32,)),
        (f"{INNER}.weight", (1, 48, 32)),
        (f"{INNER}.weight", (0, 7, 32)),
        (f"{INNER}.weight", (0, 32)),
        (f"{GATE}.weight", (0, 32)),
        (f"{INNER}.weight", (96, 32)),
    ],
)
def test_a_weight_of_another_shape_is_refused(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    weights = weights_of(tmp_path, GATED)
    with pytest.raises(ValueError, match=r"has shape \[.*\], but config.json requires \["):
        load_model(weights | {name: np.zeros(shape, np.float32)}, GATED)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.int32, np.bool_, ">f4"])
def test_a_weight_of_another_type_is_refused(tmp_path: Path, dtype: Any) -> None:
    weights = weights_of(tmp_path)
    with pytest.raises(ValueError, match=f"^{NORM} is not an array of float32$"):
        load_model(weights | {NORM: weights[NORM].astype(dtype)}, {})


def test_a_weight_in_column_major_order_is_converted(tmp_path: Path) -> None:
    weights = weights_of(tmp_path)
    column_major = {name: np.asfortranarray(values) for name, values in weights.items()}
    expected = load_model(weights, {}).logits([5, EOS], [])
    assert np.array_equal(load_model(column_major, {}).logits([5, EOS], []), expected)


@pytest.mark.parametrize("module", ["query", "key", "value"])
def test_modules_of_one_product_must_all_have_a_bias_or_none(tmp_path: Path, module: str) -> None:
    weights = weights_of(tmp_path, GATED)
    del weights[f"encoder.layers.0.self_attention.{module}.bias"]
    with pytest.raises(ValueError, match="a bias is missing"):
        load_model(weights, GATED)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_vocabulary": 71}, "three-way tied embeddings need source and target vocabularies of the same size"),
        ({"d_ff": 65_537}, "at most 65536"),
        ({"d_model": 131_072}, "at most 65536"),
        ({"target_vocabulary": 2**31 - 1}, "at most 16777216"),
        ({"max_positions": 2**31 - 1}, "at most 16777216"),
        ({"decoder_layers": 2**31 - 1}, "layers must be at most"),
        ({"d_ff": 2**31}, "d_ff is out of range or of another type"),
        ({"d_ff": "wide"}, "d_ff is out of range or of another type"),
        ({"norm": 3}, "norm is out of range or of another type"),
        ({"norm_epsilon": float("inf")}, "norm_epsilon"),
    ],
)
def test_settings_out_of_range_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(weights_of(tmp_path), changes)


REQUEST: dict[str, Any] = {
    "sources": [[5, 9, EOS]],
    "prefixes": [[]],
    "minimum": [0],
    "maximum": [4],
    "beam": 2,
    "n_best": 1,
    "length_penalty": 1.0,
    "batch_sentences": 1,
    "batch_tokens": 100,
    "threads": 1,
    "team": 1,
    "shortlist": None,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"beam": 0},
        {"beam": -1},
        {"beam": 65_536},
        {"n_best": 0},
        {"n_best": 3},
        {"length_penalty": float("nan")},
        {"length_penalty": float("inf")},
        {"length_penalty": 1e300},
        {"length_penalty": -1.0},
        {"batch_sentences": 0},
        {"batch_tokens": 0},
        {"batch_tokens": 2**62},
        {"threads": 0},
        {"threads": 1_000_000},
        {"team": 0},
        {"team": 1_000_000},
        {"minimum": [-1]},
        {"maximum": [-1]},
        {"maximum": [2**31 - 1]},
        {"minimum": [2**31 - 1]},
        {"prefixes": [[5, 6]], "maximum": [1]},
        {"sources": [[]]},
        {"sources": [[-1, EOS]]},
        {"sources": [[70, EOS]]},
        {"prefixes": [[-1]]},
        {"prefixes": [[70]]},
        {"minimum": []},
        {"maximum": [4, 4]},
        {"prefixes": []},
    ],
    ids=str,
)
def test_search_arguments_out_of_range_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    model = load_model(weights_of(tmp_path), {})
    assert model.search(**REQUEST)
    with pytest.raises(ValueError, match=r"must lie between|must be a number|vocabulary|numbers of .* differ"):
        model.search(**REQUEST | changes)


def test_logits_arguments_out_of_range_are_refused(tmp_path: Path) -> None:
    model = load_model(weights_of(tmp_path), {})
    for source, target in (([], [5]), ([70], [5]), ([-1], [5]), ([5], [70]), ([5], [-1])):
        with pytest.raises(ValueError, match=r"must lie between|vocabulary"):
            model.logits(source, target)
