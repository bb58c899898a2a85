"""Muon for the matrices of the layers, and Adam for all other parameters."""

from collections import defaultdict
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.device import Precision
from dragoman.training.optimizers.adam import adam_without
from dragoman.training.optimizers.parts import Optimizers, OptimizerSettings, Part, hidden_matrices

# Coefficients of the polynomial a·x + b·x³ + c·x⁵ (Jordan et al., 2024). STEPS iterations of it move singular values
# close to 1.
A, B, C = 3.4445, -4.7750, 2.0315
STEPS = 5
# Root mean square of a typical update of Adam, to which Muon's updates are scaled.
ADAM_UPDATE = 0.2


def orthogonalise(x: Float[Tensor, "B M N"], steps: int = STEPS) -> Float[Tensor, "B M N"]:
    """Return approximately UVᵀ for each matrix UΣVᵀ, by Newton-Schulz iteration, in the type of `x`.

    The resulting singular values are between 0.7 and 1.2, which is precise enough for an optimizer. Those below a
    thousandth of the matrix norm remain smaller. A matrix of zeros remains zero.

    Args:
        x: the matrices.
        steps: number of iterations.
    """
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    # No singular value is larger than the Frobenius norm.
    x = x / x.flatten(1).norm(dim=1).clamp_min(1e-7)[:, None, None]
    for _ in range(steps):
        # [B, M, N] x [B, N, M] -> [B, M, M]
        gram = x @ x.mT
        # X ← aX + (b·XXᵀ + c·(XXᵀ)²)X
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon: momentum with orthogonalised updates, which have the same size in all directions of a matrix.

    Sources: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024); the scale of updates is
    from Liu et al., "Muon is Scalable for LLM Training" (2025), section 2.2, and makes learning rates and weight decays
    of Adam suitable for Muon.

    The updates equal those of torch.optim.Muon, which a test verifies, with two differences. Matrices of one shape are
    orthogonalised in one batched product, which is a quarter faster on a CPU. The computation may be in float32, for
    machines without bf16 in hardware, where torch's takes seconds.

    Args:
        matrices: parameters [M, N].
        lr: learning rate.
        momentum: factor of the moving average of gradients (Nesterov momentum).
        weight_decay: decoupled weight decay, as in AdamW.
        dtype: type in which updates are orthogonalised.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        lr: float,
        *,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        assert all(matrix.ndim == 2 for matrix in matrices)
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append(matrix)
            for shape, matrices in by_shape.items():
                # n x [M, N] -> [n, M, N]
                momenta = torch.stack([self._with_momentum(matrix, group["momentum"]) for matrix in matrices])
                updates = orthogonalise(momenta).to(matrices[0].dtype)
                rate = group["lr"] * ADAM_UPDATE * max(shape) ** 0.5
                for matrix, update in zip(matrices, updates, strict=True):
                    if group["weight_decay"]:
                        matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    matrix.add_(update, alpha=-rate)

    def _with_momentum(self, matrix: Tensor, momentum: float) -> Float[Tensor, "M N"]:
        """Return the gradient of a matrix with Nesterov momentum, and update the moving average of its gradients."""
        gradient = cast(Tensor, matrix.grad)
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        average = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(average, momentum).to(self.dtype)


def build(model: nn.Module, settings: OptimizerSettings, precision: Precision) -> Optimizers:
    """Return Muon for the matrices of the layers, and Adam for all other parameters."""
    matrices = hidden_matrices(model)
    adam = adam_without(model, matrices, settings)
    if not matrices:
        return Optimizers((adam,))
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    muon = Muon(matrices, lr=0.0, weight_decay=settings.weight_decay, dtype=dtype)
    return Optimizers((adam, Part("muon", muon, rate=settings.matrix_rate)))
