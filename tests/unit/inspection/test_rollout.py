"""Attention of the Transformer that reads images, and attention rollout."""

import numpy as np
import pytest
import torch
from jaxtyping import Float

from dragoman.errors import CorpusError
from dragoman.inspection.capture import capture_images
from dragoman.inspection.rollout import attention_rollout, image_rollout
from dragoman.models.registry import build_image_classifier
from dragoman.models.vision import VisionTransformer
from tests.support.variants import IMAGE_VARIANTS


def model(variant: str = "paper") -> VisionTransformer:
    torch.manual_seed(0)
    built = build_image_classifier(IMAGE_VARIANTS[f"vision, {variant}"])
    assert isinstance(built, VisionTransformer)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return built


def naive_rollout(weights: Float[np.ndarray, "N H T S"]) -> Float[np.ndarray, "T S"]:
    """Sum over all paths through the layers: a path stays at a position, or follows a weight, each with factor 0.5."""
    layers, heads, length, _ = weights.shape
    result = np.zeros((length, length))
    for start in range(length):
        arriving = {start: 1.0}
        for layer in reversed(range(layers)):
            after: dict[int, float] = {}
            for position, share in arriving.items():
                for key in range(length):
                    weight = sum(float(weights[layer, head, position, key]) for head in range(heads)) / heads
                    after[key] = after.get(key, 0.0) + share * 0.5 * (weight + (key == position))
            arriving = after
        for key, share in arriving.items():
            result[start, key] = share
    return result


def random_weights(layers: int, heads: int, length: int) -> Float[np.ndarray, "N H T T"]:
    weights = np.random.default_rng(0).exponential(size=(layers, heads, length, length))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("layers", "heads", "length"), [(1, 1, 2), (2, 3, 5), (5, 2, 7)])
def test_rollout_equals_the_sum_over_all_paths(layers: int, heads: int, length: int) -> None:
    weights = random_weights(layers, heads, length)
    rollout = attention_rollout(weights)
    np.testing.assert_allclose(rollout, naive_rollout(weights), rtol=1e-6)
    np.testing.assert_allclose(rollout.sum(axis=1), 1, rtol=1e-6)


def test_rollout_multiplies_the_last_layer_on_the_left() -> None:
    first, second = random_weights(2, 1, 4).astype(np.float64)
    both = attention_rollout(np.stack((first, second)))
    np.testing.assert_allclose(both, (0.5 * second[0] + 0.5 * np.eye(4)) @ (0.5 * first[0] + 0.5 * np.eye(4)))
    assert not np.allclose(both, attention_rollout(np.stack((second, first))))


@pytest.mark.parametrize("variant", ["paper", "grey, one label", "relative", "rms, swiglu, rotary"])
def test_rollout_of_images_is_that_of_their_captured_attention(variant: str) -> None:
    built = model(variant).train()
    size = (3, built.channels, built.image_size, built.image_size)
    images = 2 * torch.rand(size, generator=torch.Generator().manual_seed(1)) - 1
    grids = image_rollout(built, images)
    assert built.training
    assert grids.shape == (3, built.grid, built.grid)
    for grid, captured in zip(grids, capture_images(built, images), strict=True):
        assert captured.encoder_self is not None
        weights = captured.encoder_self.weights
        assert weights.shape == (2, 2, built.grid**2 + 1, built.grid**2 + 1)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
        expected = naive_rollout(weights)[0]
        # Patch i is in row i // w and column i % w.
        for patch, weight in enumerate(expected[1:]):
            assert grid[patch // built.grid, patch % built.grid] == pytest.approx(weight, rel=1e-5)
        assert 0 < grid.sum() < 1
    with pytest.raises(CorpusError, match="expected images"):
        image_rollout(built, images[..., 1:])


def test_details_of_the_heads_and_models_without_attention() -> None:
    built = model()
    images = torch.zeros(1, 3, 8, 8)
    [captured] = capture_images(built, images, details=True)
    assert captured.encoder_self is not None
    details = captured.encoder_self.details
    assert details is not None
    assert details.query.shape == (2, 2, 5, 6)
    np.testing.assert_allclose(details.output, captured.encoder_self.weights @ details.value, rtol=1e-4, atol=1e-5)
    convolution = build_image_classifier(IMAGE_VARIANTS["image-convolution, small"])
    [captured] = capture_images(convolution, images)
    assert captured.encoder_self is None
