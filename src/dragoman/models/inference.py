"""Context manager for inference with models."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def inference(models: Sequence[nn.Module]) -> Iterator[None]:
    """Disable gradients and dropout; on exit, restore the training mode of each model.

    Validation during training decodes with the model that is being trained.

    Example:
        >>> from dragoman.models.registry import build_model, preset
        >>> model = build_model(preset("tiny", 100, 100, joint=True))
        >>> with inference([model]):
        ...     model.training
        False
        >>> model.training
        True
    """
    modes = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        # Not torch.inference_mode: a position table that is extended here is used in training as well.
        with torch.no_grad():
            yield
    finally:
        for model, mode in zip(models, modes, strict=True):
            model.train(mode)
