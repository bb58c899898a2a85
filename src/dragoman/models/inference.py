"""Models in use, not in training."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from dragoman.models.seq2seq import Seq2Seq


@contextmanager
def inference(models: Sequence[Seq2Seq]) -> Iterator[None]:
    """No gradients and no dropout inside; the models' own modes are restored afterwards.

    Validation in the middle of training decodes with the very model that is being trained.
    """
    modes = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        # Not inference_mode: a table that positions fill in here must serve training as well.
        with torch.no_grad():
            yield
    finally:
        for model, mode in zip(models, modes, strict=True):
            model.train(mode)
