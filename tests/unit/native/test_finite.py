"""Values that are not finite raise the same error in every build and precision."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman import native
from dragoman.errors import ModelError
from dragoman.models.storage import load_model
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.native.backend import NativeBackend
from dragoman.search.config import SearchConfig
from dragoman.search.results import EMPTY_HYPOTHESES
from dragoman.search.torch_backend import TorchBackend
from tests.support.native_models import (
    BUILDS,
    NOT_INSTALLED,
    SOURCES,
    native_backend,
    search_inputs,
    torch_backend,
    write_model,
)

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

SHORT = SearchConfig(max_length_offset=5)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "rms", "norm_placement": "pre", "activation": "swiglu", "positions": "rotary", "tied_embeddings": "none"},
]
ALL_BUILDS = [(build, precision) for build in BUILDS for precision in native.PRECISIONS]
LAYER = "decoder.layers.0."


def scale_weight(directory: Path, name: str, factor: float) -> None:
    """Multiply a weight by a factor."""
    tensors = load_file(directory / WEIGHTS_FILE)
    save_file(tensors | {name: tensors[name] * factor}, directory / WEIGHTS_FILE)


@pytest.mark.parametrize("value", [3e38, -3e38])
@pytest.mark.parametrize("changes", VARIANTS, ids=["post", "pre"])
def test_one_huge_weight_is_an_error(tmp_path: Path, changes: dict[str, Any], value: float) -> None:
    """Including weights that the sentence does not use."""
    config = write_model(tmp_path, changes)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    for name in tensors:
        if not name.startswith(("encoder.layers.1", "decoder.layers.1")):
            huge = tensors[name].clone()
            huge.view(-1)[-1] = value
            save_file(tensors | {name: huge}, tmp_path / WEIGHTS_FILE)
            for build, precision in ALL_BUILDS:
                with pytest.raises(FloatingPointError, match=name):
                    NativeBackend(tmp_path, config, build, precision)


# Values to fill weights with. Each is within the limit of weights; their products overflow in one step of the model.
OVERFLOWS = {
    "before the activation": {
        f"{LAYER}feed_forward_residual.norm.weight": 0.0,
        f"{LAYER}feed_forward_residual.norm.bias": 5e18,
        f"{LAYER}feed_forward.inner.weight": -5e18,
    },
    "after the activation": {
        f"{LAYER}feed_forward_residual.norm.weight": 0.0,
        f"{LAYER}feed_forward_residual.norm.bias": 5e18,
        f"{LAYER}feed_forward.inner.weight": 5e18,
    },
    "attention scores in the decoder": {
        f"{LAYER}self_attention.query.bias": 5e18,
        f"{LAYER}self_attention.key.weight": 0.0,
        f"{LAYER}self_attention.key.bias": 0.0,
        f"{LAYER}self_residual.norm.weight": 5e18,
        f"{LAYER}self_attention.query.weight": 5e18,
    },
    "negative attention scores": {
        f"{LAYER}memory_residual.norm.weight": 0.0,
        f"{LAYER}memory_residual.norm.bias": 5e18,
        f"{LAYER}memory_attention.query.weight": 1e17,
        f"{LAYER}memory_attention.key.weight": 0.0,
        f"{LAYER}memory_attention.key.bias": -5e18,
    },
    "the squares in a norm": {
        "encoder.layers.0.feed_forward_residual.norm.bias": 5e18,
        "encoder.layers.0.feed_forward.inner.weight": 1e10,
    },
}


@pytest.mark.parametrize("step", OVERFLOWS)
def test_an_overflow_in_any_step_is_an_error(tmp_path: Path, step: str) -> None:
    config = write_model(tmp_path, {"norm_placement": "pre", "attention_bias": True})
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    filled = {name: torch.full_like(tensors[name], value) for name, value in OVERFLOWS[step].items()}
    save_file(tensors | filled, tmp_path / WEIGHTS_FILE)
    for build, precision in ALL_BUILDS:
        backend = NativeBackend(tmp_path, config, build, precision)
        with pytest.raises(FloatingPointError, match="not finite"):
            backend.search(search_inputs(SOURCES), SHORT)
        with pytest.raises(FloatingPointError, match="not finite"):
            backend.logits(SOURCES[0], [5])


def test_rows_of_very_small_values_become_zeros(tmp_path: Path) -> None:
    """Quantised to 127 units, their unit would be zero, and its inverse infinite."""
    config = write_model(tmp_path, {"tied_embeddings": "none"})
    scale_weight(tmp_path, f"{LAYER}feed_forward.inner.weight", 1e-38)
    scale_weight(tmp_path, f"{LAYER}self_attention.value.weight", 1e-42)
    for build, precision in ALL_BUILDS:
        assert np.isfinite(NativeBackend(tmp_path, config, build, precision).logits(SOURCES[0], [5])).all()


def test_torch_raises_for_probabilities_that_are_not_finite_at_the_first_step(tmp_path: Path) -> None:
    write_model(tmp_path)
    model = load_model(tmp_path)
    model.get_parameter("source_embedding.tokens.weight").data.fill_(torch.inf)
    backend = TorchBackend.from_models([model], batch_tokens=4096)
    for beam in (1, 3):
        with pytest.raises(FloatingPointError, match="diverged"):
            backend.search(search_inputs(SOURCES), SearchConfig(beam=beam))
    with pytest.raises(FloatingPointError, match="diverged"):
        backend.score([[5, 6]], [[7]], 1.0)


def test_a_vocabulary_without_allowed_tokens_is_an_error(tmp_path: Path) -> None:
    """The vocabulary has four special tokens only, but an output has at least one token."""
    config = write_model(tmp_path, {"source_vocabulary": 4, "target_vocabulary": 4})
    for backend in (native_backend(tmp_path, config), torch_backend(tmp_path)):
        for beam in (1, 2):
            with pytest.raises(ModelError, match=re.escape(EMPTY_HYPOTHESES)):
                backend.search(search_inputs([[1, 1]]), SearchConfig(beam=beam))
