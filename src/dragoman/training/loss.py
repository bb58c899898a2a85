"""Label-smoothed cross-entropy, summed over the target tokens."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.packing import Layout

# Rows of logits that are in memory at the same time on a CPU, in the type of the states.
CPU_BLOCK = 1024
# Logits that are converted to float32 at the same time on a CPU, and the smallest number of rows of them.
CPU_FLOAT32_LOGITS, CPU_FLOAT32_ROWS = 2**18, 64
# Rows of logits that are in memory at the same time on a GPU, where few large kernels are faster.
GPU_BLOCK = 4096


def naive_loss(
    logits: Float[Tensor, "B T V"],
    target: Int[Tensor, "B T"],
    real: Bool[Tensor, "B T"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], int]:
    """Return the label-smoothed cross-entropy -Σ_v q(v) log p(v), summed over the real tokens.

    The distribution q gives 1 - ε to the reference token and distributes ε evenly over the vocabulary (Szegedy et al.
    2016, section 7; ε_ls = 0.1 in Vaswani et al. 2017, section 5.4). This function follows the equation;
    `label_smoothed_loss` computes the same with less memory.

    Args:
        logits: output of the model.
        target: reference tokens.
        real: True at tokens, False at padding.
        smoothing: ε.

    Returns:
        The sum in nats, and the number of real tokens.
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
    """Return `naive_loss` of the logits rows·weightᵀ without holding all logits in memory.

    The projection, its loss and its gradients are computed for a block of rows at a time, in the type of autocast if it
    is enabled and else in the type of `rows`; sums are in float32. On a GPU, `rows` include padding, since counting it
    would make the host wait for the device. Padding adds nothing to the loss or to the gradients.

    Args:
        rows: decoder states, in the layout `layout` (`models.seq2seq.Decoded`).
        layout: layout of the rows.
        weight: weight of the vocabulary projection.
        target: reference tokens.
        smoothing: ε.

    Returns:
        The sum in nats, and the number of real tokens.
    """
    # [B, T] -> [tokens], or [B*T]
    reference, real = layout.values(target), layout.real.flatten()
    # [*BT, D] -> [N, D]
    loss = summed_loss(rows.flatten(0, -2), weight, reference, None if layout.packed else real, smoothing)
    return loss, layout.real.sum()


def summed_loss(
    rows: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    reference: Int[Tensor, " M"],
    counted: Bool[Tensor, " N"] | None,
    smoothing: float,
) -> Float[Tensor, ""]:
    """Return the label-smoothed cross-entropy of the logits rows·weightᵀ, summed over rows; see `label_smoothed_loss`.

    Args:
        rows: states.
        weight: weight of the vocabulary projection.
        reference: reference tokens of all rows; if `counted` is None, of the first M rows, and the others do not count.
        counted: True for the rows that count; None for the first M.
        smoothing: ε.
    """
    if torch.is_autocast_enabled(rows.device.type):
        rows = rows.to(torch.get_autocast_dtype(rows.device.type))
    if rows.device.type == "cpu":
        if counted is not None:
            # On a CPU, computing with rows that do not count takes longer than leaving them out.
            rows, reference = rows[counted], reference[counted]
        blocks = partial(projected_on_cpu, target=reference)
    else:
        if counted is None:
            rows = rows[: len(reference)]
            counted = torch.ones_like(reference, dtype=torch.bool)
        blocks = partial(projected_on_gpu, target=reference, real=counted)
    loss: Tensor = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        rows, weight, partial(blocks, smoothing=smoothing, training=torch.is_grad_enabled())
    )
    return loss


# (rows [N, D], weight [V, D]) -> (summed loss [], gradient of rows [N, D], gradient of weight [V, D])
Projected = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Loss of the vocabulary projection whose gradients are computed in the forward pass, with the logits in memory."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, projected: Projected) -> Tensor:
        total, *gradients = projected(rows, weight)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        rows_gradient, weight_gradient = ctx.saved_tensors
        # In place: these tensors are used nowhere else, and only once.
        return rows_gradient.mul_(gradient), weight_gradient.mul_(gradient), None


def projected_on_cpu(
    rows: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    *,
    target: Int[Tensor, " tokens"],
    smoothing: float,
    training: bool,
) -> tuple[Float[Tensor, ""], Float[Tensor, "N D"], Float[Tensor, "V D"]]:
    """Return the summed loss of packed rows and its gradients with respect to `rows` and `weight`.

    Allocating memory is slow on a CPU (every new page causes a page fault). Therefore, the logits of all blocks share
    one buffer, in which their gradient p - q replaces them. Computation in float32 is done for a few rows at a time, in
    a second buffer that fits into the cache.

    Args:
        rows: decoder states; rows after the last target are padding.
        weight: weight of the vocabulary projection.
        target: reference token of each row.
        smoothing: ε.
        training: False: the gradients are not computed, and their contents are undefined.

    Returns:
        The summed loss in nats, and its gradients with respect to `rows` and `weight`.
    """
    vocabulary = weight.shape[0]
    projection = weight.to(rows.dtype)
    total = torch.zeros((), dtype=torch.float32, device=rows.device)
    buffer = rows.new_empty(min(CPU_BLOCK, len(rows)), vocabulary)
    float32_rows = max(CPU_FLOAT32_ROWS, CPU_FLOAT32_LOGITS // vocabulary)
    float32_buffer = rows.new_empty(min(float32_rows, len(rows)), vocabulary, dtype=torch.float32)
    rows_gradient = torch.empty_like(rows)
    weight_gradient = torch.zeros_like(weight)
    for start in range(0, len(rows), CPU_BLOCK):
        block = rows[start : start + CPU_BLOCK]
        # [P, D] x [D, V] -> [P, V]
        logits = torch.mm(block, projection.t(), out=buffer[: len(block)])
        references = target[start : start + CPU_BLOCK].unsqueeze(1)
        for part, reference in zip(
            logits[: len(references)].split(float32_rows), references.split(float32_rows), strict=True
        ):
            total += _loss_and_difference(float32_buffer[: len(part)].copy_(part), reference, smoothing)
            if training:
                part.copy_(float32_buffer[: len(part)])
        logits[len(references) :] = 0.0
        if training:
            # [P, V] x [V, D] -> [P, D]
            torch.mm(logits, projection, out=rows_gradient[start : start + CPU_BLOCK])
            # [V, P] x [P, D] -> [V, D]
            weight_gradient += logits.t() @ block
    return total, rows_gradient, weight_gradient


def _loss_and_difference(logits: Float[Tensor, "C V"], reference: Int[Tensor, "C 1"], smoothing: float) -> Tensor:
    """Return the summed loss, and replace the logits by their gradient p - q in place."""
    expected = (1 - smoothing) * logits.gather(1, reference)
    if smoothing > 0:
        expected += smoothing * logits.mean(dim=-1, keepdim=True)
    # log Σ exp(logits), with the maximum subtracted from the logits against overflow
    largest = logits.amax(dim=-1, keepdim=True)
    normaliser = logits.sub_(largest).exp_().sum(dim=-1, keepdim=True)
    p = logits.div_(normaliser)
    p.sub_(smoothing / logits.shape[-1]).scatter_add_(1, reference, torch.full_like(expected, smoothing - 1))
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
    """Return what `projected_on_cpu` returns, computed in few large kernels.

    The elementwise operations are compiled to two passes over the logits.

    Args:
        rows: decoder states, padding included.
        weight: weight of the vocabulary projection.
        target: reference token of each row.
        real: False at rows of padding.
        smoothing: ε.
        training: False: the gradients are not computed, and their contents are undefined.

    Returns:
        The summed loss in nats, and its gradients with respect to `rows` and `weight`.
    """
    projection = weight.to(rows.dtype)
    total = torch.zeros((), dtype=torch.float32, device=rows.device)
    rows_gradient = torch.empty_like(rows)
    weight_gradient = torch.zeros_like(weight)
    difference = _compiled_difference() if rows.device.type == "cuda" else smoothed_difference
    for start in range(0, len(rows), GPU_BLOCK):
        block = slice(start, start + GPU_BLOCK)
        # [P, D] x [D, V] -> [P, V]
        loss, logits_gradient = difference(rows[block] @ projection.t(), target[block], real[block], smoothing)
        total += loss
        if training:
            # [P, V] x [V, D] -> [P, D]
            torch.mm(logits_gradient, projection, out=rows_gradient[block])
            # [V, P] x [P, D] -> [V, D]
            weight_gradient += logits_gradient.t() @ rows[block]
    return total, rows_gradient, weight_gradient


def smoothed_difference(
    logits: Float[Tensor, "P V"], reference: Int[Tensor, " P"], real: Bool[Tensor, " P"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "P V"]]:
    """Return the summed loss of the real rows, and its gradient with respect to the logits, p - q, in their type."""
    vocabulary = logits.shape[1]
    log_p = logits.float().log_softmax(dim=-1)
    # [V] == [P, 1] -> [P, V]
    is_reference = torch.arange(vocabulary, device=logits.device) == reference.unsqueeze(1)
    q = torch.where(is_reference, 1 - smoothing + smoothing / vocabulary, smoothing / vocabulary)
    loss = -(q * log_p).sum(dim=-1)
    difference = torch.where(real.unsqueeze(1), log_p.exp() - q, 0.0)
    return torch.where(real, loss, 0.0).sum(), difference.to(logits.dtype)


@cache
def _compiled_difference() -> Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]:
    """Return `smoothed_difference` compiled to two passes over the logits.

    Cached and called on first use, since importing the compiler is slow.
    """
    return torch.compile(smoothed_difference, dynamic=True)
