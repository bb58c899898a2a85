"""The gradient of the loss of several batches: what one update is made of."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.device import Precision
from dragoman.training.objective import B, Losses, M


def accumulate_gradients(
    model: M, batches: Sequence[B], losses: Losses[M, B], precision: Precision, device: torch.device
) -> tuple[Tensor, int]:
    """Add the gradient of the mean loss per token over all `batches` to the parameters'.

    The sum is divided once, by the number of tokens in all batches, so that one batch cut into
    two or four gives the same gradient.

    Returns:
        the summed loss in nats (a detached scalar) and the number of tokens
    """
    tokens = sum(map(losses.tokens, batches))
    total = torch.zeros((), device=device)
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            found = losses.loss(model, batch)
        ((found.loss + found.cost) / tokens).backward()
        total += found.loss.detach()
    return total, tokens
