"""Where a token stands: sinusoidal, learned and rotary positions."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import UserError


def sinusoidal_table(length: int, d_model: int, device: torch.device | None = None) -> Float[Tensor, "T D"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same).

    Source: Vaswani et al. (2017), section 3.5. Computed in float64, returned in float32: at distant
    positions a float32 angle would already be wrong.
    """
    position = torch.arange(length, dtype=torch.float64, device=device)
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64, device=device) / d_model
    # [T, 1] / [D/2] -> [T, D/2]
    angle = position.unsqueeze(1) / 10_000**exponent
    # [T, D/2, 2] -> [T, D]: sine and cosine alternate
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def _grown(table: Float[Tensor, "T D"], end: int) -> Float[Tensor, "T2 D"]:
    """The table with at least `end` positions: a power of two, so that it seldom grows."""
    # Never an inference tensor, even in a validation: the training step after it uses it too.
    with torch.inference_mode(False):
        return sinusoidal_table(1 << (end - 1).bit_length(), table.shape[1], table.device).to(table.dtype)


class SinusoidalPositions(nn.Module):
    """Adds the paper's fixed position signal, for any length."""

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal_table(256, d_model), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], offset: int = 0) -> Float[Tensor, "B T D"]:
        """Add the positions offset, offset + 1, ... to the embeddings `x`."""
        end = offset + x.shape[1]
        if end > len(self.table):
            self.table = _grown(self.table, end)
        return x + self.table[offset:end]


class LearnedPositions(nn.Module):
    """Adds a learned vector per position (Gehring et al., 2017); no position beyond `maximum`."""

    def __init__(self, maximum: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(maximum, d_model)

    def forward(self, x: Float[Tensor, "B T D"], offset: int = 0) -> Float[Tensor, "B T D"]:
        """Add the positions offset, offset + 1, ... to the embeddings `x`.

        Raises:
            UserError: when the sequence is longer than the positions that were learned.
        """
        end = offset + x.shape[1]
        if end > self.embedding.num_embeddings:
            raise UserError(
                f"a sequence of {end} positions, but only {self.embedding.num_embeddings} were "
                "learned: split it, or train with sinusoidal positions or a larger max_positions"
            )
        return x + self.embedding.weight[offset:end]


class RotaryPositions(nn.Module):
    """Turns each pair of features by an angle that grows with the position.

    Source: Su et al., "RoFormer" (2021), equation 34. A query at m and a key at n meet at the angle
    (m - n)θ_i, so that their product depends on the distance alone. For any length.
    """

    table: Tensor

    def __init__(self, d_head: int) -> None:
        super().__init__()
        assert d_head % 2 == 0, "rotary positions turn pairs of features"
        self.register_buffer("table", sinusoidal_table(256, d_head), persistent=False)

    def forward(self, x: Float[Tensor, "B H T K"], offset: int) -> Float[Tensor, "B H T K"]:
        """Turn `x`, whose first row stands at position `offset`."""
        end = offset + x.shape[2]
        if end > len(self.table):
            self.table = _grown(self.table, end)
        # [T, K] -> [T, K/2, 2]: the same angles as the sinusoidal table's
        sine, cosine = self.table[offset:end].to(x.dtype).unflatten(1, (-1, 2)).unbind(-1)
        # [B, H, T, K] -> 2 x [B, H, T, K/2]
        even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
        turned = (even * cosine - odd * sine, even * sine + odd * cosine)
        # 2 x [B, H, T, K/2] -> [B, H, T, K]
        return torch.stack(turned, dim=-1).flatten(-2)
