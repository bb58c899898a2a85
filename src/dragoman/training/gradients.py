"""The gradient of one update, accumulated over several batches."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.device import Precision
from dragoman.training.objective import B, Losses, M


def accumulate_gradients(
    model: M, batches: Sequence[B], losses: Losses[M, B], precision: Precision, device: torch.device
) -> tuple[Tensor, int]:
    """Add the gradient of the mean loss per token over all batches to the gradients of the parameters.

    The summed loss is divided by the number of tokens in all batches, so that a batch split into two or four gives the
    same gradient.

    Args:
        model: the model, on `device`.
        batches: the batches of one update, on any device.
        losses: compute the loss of a batch.
        precision: precision of the forward pass.
        device: device to compute on.

    Returns:
        The summed loss in nats (a detached scalar) and the number of tokens.
    """
    tokens = sum(map(losses.tokens, batches))
    total = torch.zeros((), device=device)
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            result = losses.loss(model, batch)
        ((result.loss + result.cost) / tokens).backward()
        total += result.loss.detach()
    return total, tokens
