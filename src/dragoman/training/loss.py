"""Label-smoothed cross-entropy, as a sum and a count."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.packing import Layout

# On a CPU: rows of the vocabulary projection that are in memory at once, and those of them that are so in float32.
PROJECTED, CHUNK = 1024, 64
# On a GPU, which wants few and large kernels: rows that are in memory at once.
PROJECTED_ON_GPU = 4096


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
    rows: Float[Tensor, "*BT D"],
    layout: Layout,
    weight: Float[Tensor, "V D"],
    target: Int[Tensor, "B T"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """`naive_loss` of the logits rows·weightᵀ, without ever holding all the logits.

    The projection, its loss and its gradients are computed some rows at a time, in autocast's type or
    else that of `rows` (sums in float32). Padding is projected only where `rows` hold it, as on a GPU, where to find
    out how much there is would make the host wait; it costs nothing and has no gradient.

    Args:
        rows: what a model decoded, and
        layout: the layout that they are in (`models.seq2seq.Decoded`).
    """
    if torch.is_autocast_enabled(rows.device.type):
        rows = rows.to(torch.get_autocast_dtype(rows.device.type))
    # [B, T] -> [tokens], or [B*T]
    gold = layout.values(target)
    blocks = (
        partial(projected_on_cpu, target=gold)
        if layout.packed
        else partial(projected_on_gpu, target=gold, real=layout.real.flatten())
    )
    loss: Tensor = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        # [*BT, D] -> [N, D]
        rows.flatten(0, -2),
        weight,
        partial(blocks, smoothing=smoothing, training=torch.is_grad_enabled()),
    )
    return loss, layout.real.sum()


# (rows [N, D], weight [V, D]) -> the summed loss, and its gradients by both
Projected = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Gradients are computed in the forward pass, while the logits are at hand."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, projected: Projected) -> Tensor:
        total, *gradients = projected(rows, weight)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        rows_gradient, weight_gradient = ctx.saved_tensors
        # In place: nobody else has them, and they are not needed a second time.
        return rows_gradient.mul_(gradient), weight_gradient.mul_(gradient), None


def projected_on_cpu(
    rows: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    *,
    target: Int[Tensor, " tokens"],
    smoothing: float,
    training: bool,
) -> tuple[Float[Tensor, ""], Float[Tensor, "N D"], Float[Tensor, "V D"]]:
    """The summed loss of the first rows, one for each target, and its gradients by rows and weight.

    Fresh memory is dear on a CPU (every page of it faults), so the logits live in one buffer, in which p - q takes
    their place, and what needs float32 is done a few rows at a time in a buffer that the cache holds.
    """
    vocabulary = weight.shape[0]
    projection = weight.to(rows.dtype)
    total = torch.zeros((), dtype=torch.float32, device=rows.device)
    buffer = rows.new_empty(min(PROJECTED, len(rows)), vocabulary)
    wide = rows.new_empty(min(CHUNK, len(rows)), vocabulary, dtype=torch.float32)
    rows_gradient = torch.empty_like(rows)
    weight_gradient = torch.zeros_like(weight)
    for start in range(0, len(rows), PROJECTED):
        projected = rows[start : start + PROJECTED]
        # [P, D] x [D, V] -> [P, V]
        logits = torch.mm(projected, projection.t(), out=buffer[: len(projected)])
        golds = target[start : start + PROJECTED].unsqueeze(1)
        for few, gold in zip(logits[: len(golds)].split(CHUNK), golds.split(CHUNK), strict=True):
            total += _loss_and_difference(wide[: len(few)].copy_(few), gold, smoothing)
            if training:
                few.copy_(wide[: len(few)])
        logits[len(golds) :] = 0.0
        if training:
            # [P, V] x [V, D] -> [P, D]
            torch.mm(logits, projection, out=rows_gradient[start : start + PROJECTED])
            # [V, P] x [P, D] -> [V, D]
            weight_gradient += logits.t() @ projected
    return total, rows_gradient, weight_gradient


def _loss_and_difference(logits: Float[Tensor, "C V"], gold: Int[Tensor, "C 1"], smoothing: float) -> Tensor:
    """The summed loss of some rows; `logits` is overwritten by its gradient by the logits, p - q."""
    expected = (1 - smoothing) * logits.gather(1, gold)
    if smoothing > 0:
        expected += smoothing * logits.mean(dim=-1, keepdim=True)
    # log Σ exp(logits), with the largest taken out
    largest = logits.amax(dim=-1, keepdim=True)
    normaliser = logits.sub_(largest).exp_().sum(dim=-1, keepdim=True)
    p = logits.div_(normaliser)
    p.sub_(smoothing / logits.shape[-1]).scatter_add_(1, gold, torch.full_like(expected, smoothing - 1))
    return (largest + normaliser.log() - expected).sum()


def projected_on_gpu(
    rows: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    *,
    target: Int[Tensor, " N"],
    real: Bool[Tensor, " N"],
    smoothing: float,
    training: bool,
) -> tuple[Float[Tensor, ""], Float[Tensor, "N D"], Float[Tensor, "V D"]]:
    """The same in few and large kernels, the elementwise ones compiled to two passes over the logits."""
    projection = weight.to(rows.dtype)
    total = torch.zeros((), dtype=torch.float32, device=rows.device)
    rows_gradient = torch.empty_like(rows)
    weight_gradient = torch.zeros_like(weight)
    difference = _compiled_difference() if rows.device.type == "cuda" else smoothed_difference
    for start in range(0, len(rows), PROJECTED_ON_GPU):
        some = slice(start, start + PROJECTED_ON_GPU)
        # [P, D] x [D, V] -> [P, V]
        loss, logits_gradient = difference(rows[some] @ projection.t(), target[some], real[some], smoothing)
        total += loss
        if training:
            # [P, V] x [V, D] -> [P, D]
            torch.mm(logits_gradient, projection, out=rows_gradient[some])
            # [V, P] x [P, D] -> [V, D]
            weight_gradient += logits_gradient.t() @ rows[some]
    return total, rows_gradient, weight_gradient


def smoothed_difference(
    logits: Float[Tensor, "P V"], gold: Int[Tensor, " P"], real: Bool[Tensor, " P"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "P V"]]:
    """The summed loss of the real rows and its gradient by the logits, p - q, in their type."""
    vocabulary = logits.shape[1]
    log_p = logits.float().log_softmax(dim=-1)
    # [V] == [P, 1] -> [P, V]
    is_gold = torch.arange(vocabulary, device=logits.device) == gold.unsqueeze(1)
    q = torch.where(is_gold, 1 - smoothing + smoothing / vocabulary, smoothing / vocabulary)
    loss = -(q * log_p).sum(dim=-1)
    difference = torch.where(real.unsqueeze(1), log_p.exp() - q, 0.0)
    return torch.where(real, loss, 0.0).sum(), difference.to(logits.dtype)


@cache
def _compiled_difference() -> Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]:
    """`smoothed_difference` in two passes over the logits; the compiler is slow to import, so only where it is used."""
    return torch.compile(smoothed_difference, dynamic=True)
