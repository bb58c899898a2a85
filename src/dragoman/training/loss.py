"""Label-smoothed cross-entropy, as a sum and a count."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

# Rows of the vocabulary projection that are in memory at once.
CHUNK = 256


def naive_loss(
    logits: Float[Tensor, "B T V"],
    target: Int[Tensor, "B T"],
    real: Bool[Tensor, "B T"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], int]:
    """Label-smoothed cross-entropy as written: -Σ_v q(v) log p(v), summed over the real tokens.

    q gives 1 - ε to the reference token and spreads ε evenly over the vocabulary (Szegedy et al. 2016,
    section 7; ε_ls = 0.1 in Vaswani et al. 2017, section 5.4).

    Returns:
        the sum in nats, and the number of real tokens by which to divide it, once.
    """
    log_p = logits.float().log_softmax(dim=-1)
    # [B, T] -> [B, T, V]
    one_hot = F.one_hot(target, logits.shape[-1])
    q = (1 - smoothing) * one_hot + smoothing / logits.shape[-1]
    # [B, T, V] -> [B, T]
    losses = -(q * log_p).sum(dim=-1)
    return losses[real].sum(), int(real.sum())


def label_smoothed_loss(
    states: Float[Tensor, "B T D"],
    weight: Float[Tensor, "V D"],
    target: Int[Tensor, "B T"],
    real: Bool[Tensor, "B T"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], int]:
    """`naive_loss` of the logits states·weightᵀ, without ever holding all the logits.

    The projection, its loss and its gradients are computed a few rows at a time, in autocast's type or
    else that of `states` (sums in float32). Padding is not projected.
    """
    # [B, T, D] -> [N, D]: the real tokens
    rows = states[real]
    if torch.is_autocast_enabled(rows.device.type):
        rows = rows.to(torch.get_autocast_dtype(rows.device.type))
    loss: Tensor = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        rows, weight, target[real], smoothing, torch.is_grad_enabled()
    )
    return loss, len(rows)


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Gradients are computed in the forward pass, while the logits of a chunk are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        training: bool,
    ) -> Tensor:
        vocabulary = weight.shape[0]
        projection = weight.to(rows.dtype)
        total = torch.zeros((), dtype=torch.float32, device=rows.device)
        rows_gradient = torch.empty_like(rows)
        weight_gradient = torch.zeros_like(weight)
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            # [C] -> [C, 1]
            gold = target[start : start + CHUNK].unsqueeze(1)
            # [C, D] x [D, V] -> [C, V]
            logits = (chunk @ projection.t()).float()
            # [C, V] -> [C, 1]
            log_normaliser = logits.logsumexp(dim=-1, keepdim=True)
            expected = (1 - smoothing) * logits.gather(1, gold)
            if smoothing > 0:
                expected += smoothing * logits.mean(dim=-1, keepdim=True)
            total += (log_normaliser - expected).sum()
            if not training:
                continue
            # The gradient by the logits is p - q.
            p = logits.sub_(log_normaliser).exp_().sub_(smoothing / vocabulary)
            p.scatter_add_(1, gold, torch.full_like(expected, smoothing - 1))
            difference = p.to(rows.dtype)
            # [C, V] x [V, D] -> [C, D]
            torch.mm(difference, projection, out=rows_gradient[start : start + CHUNK])
            # [V, C] x [C, D] -> [V, D]
            weight_gradient += difference.t() @ chunk
        ctx.save_for_backward(rows_gradient, weight_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        rows_gradient, weight_gradient = ctx.saved_tensors
        return rows_gradient * gradient, weight_gradient * gradient, None, None, None
