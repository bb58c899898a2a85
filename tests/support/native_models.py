"""Small random models, run by the native engine and by torch."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman import native
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import ModelDescription
from dragoman.models.storage import load_model, save_model, weights_of
from dragoman.models.transformer import build_transformer
from dragoman.native.backend import NativeBackend
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.search.torch_backend import TorchBackend
from tests.support.small_translator import model_config, random_models, tokenizer

BUILDS = native.builds()
NOT_INSTALLED = "the native engine is not installed: no C++ compiler was found"

CONFIG = TransformerConfig(
    source_vocabulary=70,
    target_vocabulary=70,
    encoder_layers=2,
    decoder_layers=2,
    d_model=32,
    heads=4,
    d_ff=48,
)
SOURCES = [[5, 9, 33], [4], [*range(10, 45)], [60, 61, 60, 61, 60]]


def write_model(directory: Path, changes: dict[str, Any] | None = None, seed: int = 0) -> TransformerConfig:
    """Write a model directory with random weights, scaled so that the output distributions are not uniform."""
    config = replace(CONFIG, **(changes or {}))
    directory.mkdir(exist_ok=True)
    torch.manual_seed(seed)
    model = build_transformer(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(1.3)
            if name.endswith("bias") or "norm" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    save_model(
        directory, ModelDescription(architecture="transformer", model=config, trained_length=40), weights_of(model)
    )
    return config


def native_backend(
    directory: Path, config: TransformerConfig, precision: native.Precision = "fp32", **settings: Any
) -> NativeBackend:
    return NativeBackend(directory, config, BUILDS[0], precision, **settings)


def torch_backend(directory: Path) -> TorchBackend:
    return TorchBackend.from_models([load_model(directory)], batch_tokens=4096)


def search_inputs(
    sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]] | None = None
) -> list[SearchInput]:
    return [
        SearchInput(list(source), list(prefix))
        for source, prefix in zip(sources, prefixes or [[]] * len(sources), strict=True)
    ]


def assert_same(hypotheses: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """Check that both engines return the same hypotheses in the same order, with scores equal up to rounding."""
    assert [[each.tokens for each in row] for row in hypotheses] == [[each.tokens for each in row] for row in expected]
    assert [[each.finished for each in row] for row in hypotheses] == [
        [each.finished for each in row] for row in expected
    ]
    for row, expected_row in zip(hypotheses, expected, strict=True):
        for each, expected_each in zip(row, expected_row, strict=True):
            np.testing.assert_allclose(each.totals, expected_each.totals, rtol=1e-4, atol=1e-4)
    for field in ("log_probability", "score"):
        one, other = ([getattr(each, field) for row in rows for each in row] for rows in (hypotheses, expected))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def translator_directory(directory: Path) -> Path:
    """Write a model directory with a tokenizer, which `Translator.load` can load."""
    description = ModelDescription(architecture="transformer", model=model_config(), trained_length=12)
    tokenizer().save(directory)
    save_model(directory, description, weights_of(random_models(1)[0]))
    return directory
