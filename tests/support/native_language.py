"""Small random language models, run by the native engine and by torch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman import native
from dragoman.models.config.language import LanguageConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import build_language_model
from dragoman.models.storage import load_language_model, save_model, weights_of
from dragoman.native.language_backend import NativeLanguageModel
from tests.support.native_models import BUILDS

CONFIG = LanguageConfig(vocabulary=70, layers=2, d_model=32, heads=4, d_ff=48, context=16)


def write_language_model(directory: Path, changes: dict[str, Any] | None = None) -> LanguageConfig:
    """Write a model directory with random weights, scaled so that the output distributions are not uniform."""
    config = replace(CONFIG, **(changes or {}))
    directory.mkdir(exist_ok=True)
    torch.manual_seed(0)
    model = build_language_model(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(8 if parameter.ndim > 1 else 1.3)
            if name.endswith("bias") or "norm" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    save_model(directory, ModelDescription(architecture="language", model=config, trained_length=16), weights_of(model))
    return config


def native_model(
    directory: Path, config: LanguageConfig, precision: native.Precision = "fp32", **settings: Any
) -> NativeLanguageModel:
    return NativeLanguageModel(directory, config, BUILDS[0], precision, **settings)


def torch_logits(directory: Path, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the logits [B, T, V] after each token [B, T]."""
    model = load_language_model(directory)
    with torch.no_grad():
        states, _ = model.read(torch.from_numpy(tokens), model.start(len(tokens)))
        logits: NDArray[np.float32] = model.project(states).numpy()
    return logits


def random_tokens(rows: int, length: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(4, 70, (rows, length))
