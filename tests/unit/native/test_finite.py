"""Numbers that are not finite are the same error in every build and precision, never a translation."""

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
from dragoman.search.torch_backend import TorchBackend
from tests.support.native_models import BUILDS, NOT_INSTALLED, SOURCES, in_torch, pieces, searcher, write

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

SHORT = SearchConfig(max_length_offset=5)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "rms", "norm_placement": "pre", "activation": "swiglu", "positions": "rotary", "tied_embeddings": "none"},
]
EVERYWHERE = [(build, precision) for build in BUILDS for precision in native.PRECISIONS]
LAYER = "decoder.layers.0."


def scaled(directory: Path, name: str, factor: float) -> None:
    """Multiply the weights of this name."""
    tensors = load_file(directory / WEIGHTS_FILE)
    save_file(tensors | {name: tensors[name] * factor}, directory / WEIGHTS_FILE)


@pytest.mark.parametrize("value", [3e38, -3e38])
@pytest.mark.parametrize("changes", VARIANTS, ids=["post", "pre"])
def test_one_huge_weight_is_an_error(tmp_path: Path, changes: dict[str, Any], value: float) -> None:
    """Whichever weight it is: one that no sentence uses, too."""
    config = write(tmp_path, changes)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    for name in tensors:
        if not name.startswith(("encoder.layers.1", "decoder.layers.1")):
            huge = tensors[name].clone()
            huge.view(-1)[-1] = value
            save_file(tensors | {name: huge}, tmp_path / WEIGHTS_FILE)
            for build, precision in EVERYWHERE:
                with pytest.raises(FloatingPointError, match=name):
                    NativeBackend(tmp_path, config, build, precision)


# Each weight is within its bounds; together they overflow at one place. The number is what every value becomes.
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
    "scores of the output": {
        f"{LAYER}self_attention.query.bias": 5e18,
        f"{LAYER}self_attention.key.weight": 0.0,
        f"{LAYER}self_attention.key.bias": 0.0,
        f"{LAYER}self_residual.norm.weight": 5e18,
        f"{LAYER}self_attention.query.weight": 5e18,
    },
    "scores that are small": {
        f"{LAYER}memory_residual.norm.weight": 0.0,
        f"{LAYER}memory_residual.norm.bias": 5e18,
        f"{LAYER}memory_attention.query.weight": 1e17,
        f"{LAYER}memory_attention.key.weight": 0.0,
        f"{LAYER}memory_attention.key.bias": -5e18,
    },
    "the square of a norm": {
        "encoder.layers.0.feed_forward_residual.norm.bias": 5e18,
        "encoder.layers.0.feed_forward.inner.weight": 1e10,
    },
}


@pytest.mark.parametrize("place", OVERFLOWS)
def test_an_overflow_anywhere_is_an_error(tmp_path: Path, place: str) -> None:
    config = write(tmp_path, {"norm_placement": "pre", "attention_bias": True})
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    filled = {name: torch.full_like(tensors[name], value) for name, value in OVERFLOWS[place].items()}
    save_file(tensors | filled, tmp_path / WEIGHTS_FILE)
    for build, precision in EVERYWHERE:
        engine = NativeBackend(tmp_path, config, build, precision)
        with pytest.raises(FloatingPointError, match="not finite"):
            engine.search(pieces(SOURCES), SHORT)
        with pytest.raises(FloatingPointError, match="not finite"):
            engine.logits(SOURCES[0], [5])


def test_rows_of_the_smallest_numbers_become_zeros(tmp_path: Path) -> None:
    """Divided into 127 units, their unit would be zero and its inverse infinite."""
    config = write(tmp_path, {"tied_embeddings": "none"})
    scaled(tmp_path, f"{LAYER}feed_forward.inner.weight", 1e-38)
    scaled(tmp_path, f"{LAYER}self_attention.value.weight", 1e-42)
    for build, precision in EVERYWHERE:
        assert np.isfinite(NativeBackend(tmp_path, config, build, precision).logits(SOURCES[0], [5])).all()


def test_torch_refuses_probabilities_that_are_not_finite_at_once(tmp_path: Path) -> None:
    write(tmp_path)
    model = load_model(tmp_path)
    model.get_parameter("source_embedding.tokens.weight").data.fill_(torch.inf)
    backend = TorchBackend.from_models([model], batch_tokens=4096)
    for beam in (1, 3):
        with pytest.raises(FloatingPointError, match="diverged"):
            backend.search(pieces(SOURCES), SearchConfig(beam=beam))
    with pytest.raises(FloatingPointError, match="diverged"):
        backend.score([[5, 6]], [[7]], 1.0)


def test_a_model_with_nothing_to_say_is_an_error(tmp_path: Path) -> None:
    """Four special tokens, and an output that has at least one token."""
    config = write(tmp_path, {"source_vocabulary": 4, "target_vocabulary": 4})
    for backend in (searcher(tmp_path, config), in_torch(tmp_path)):
        for beam in (1, 2):
            with pytest.raises(ModelError, match="no token to say"):
                backend.search(pieces([[1, 1]]), SearchConfig(beam=beam))
