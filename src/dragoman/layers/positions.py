"""Where a token stands: sinusoidal, learned, one-hot, rotary and relative positions."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import CorpusError


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


def random_start(positions: int) -> int:
    """Where a batch begins in training: one of so many positions, drawn by torch; 0 without a draw if there are none.

    So positions beyond the corpus' longest sentence are known too (Dehghani et al., 2018, for algorithmic tasks).
    """
    return int(torch.randint(positions, ())) if positions else 0


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
            CorpusError: when the sequence is longer than the positions that were learned.
        """
        end = offset + x.shape[1]
        if end > self.embedding.num_embeddings:
            raise CorpusError(
                f"a sequence of {end} positions, but only {self.embedding.num_embeddings} were "
                "learned: split it, or train with sinusoidal positions or a larger max_positions"
            )
        return x + self.embedding.weight[offset:end]


class OneHotPositions(nn.Module):
    """Appends a one-hot position e_t to the embedding x_t and multiplies by a matrix W.

    With W = [W_I | W_P], cut where the embedding ends, that is adding a learned vector after all:
    W[x_t; e_t] = W_I x_t + W_P e_t, where W_P e_t is column t of W_P. It is computed so; the two parts of W are kept
    apart. No position beyond `maximum`.
    """

    def __init__(self, maximum: int, d_model: int) -> None:
        super().__init__()
        self.words = nn.Linear(d_model, d_model, bias=False)
        self.columns = LearnedPositions(maximum, d_model)

    @property
    def matrix(self) -> Float[Tensor, "D DP"]:
        """W = [W_I | W_P]."""
        # [D, D] and [P, D] -> [D, D + P]
        return torch.cat((self.words.weight, self.columns.embedding.weight.t()), dim=1)

    def forward(self, x: Float[Tensor, "B T D"], offset: int = 0) -> Float[Tensor, "B T D"]:
        """Give the embeddings `x` the positions offset, offset + 1, ...

        Raises:
            CorpusError: when the sequence is longer than the positions that were learned.
        """
        return self.columns(self.words(x), offset)


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


class RelativePositions(nn.Module):
    """A learned vector for each distance s - t from query t to key s, added to the key.

    Source: Shaw, Uszkoreit and Vaswani, "Self-Attention with Relative Position Representations" (2018), equation 4:
    e_ts = q_t·(k_s + a_{clip(s - t, -k, k)}) / √d_k. As in equation 5, this is the second of its two terms, which
    needs no vector for each pair of positions. Heads share the vectors, and so do distances beyond k = `max_distance`.
    The representations for values (equation 3) are left out: the paper's table 3 finds no need of them beside those
    for keys. For any length.

    Args:
        max_distance: k.
        d_k: width of a head's queries and keys.
        future: whether queries see keys after them, as in an encoder; else those have no vectors.
    """

    def __init__(self, max_distance: int, d_k: int, *, future: bool) -> None:
        super().__init__()
        self.before = max_distance
        self.after = max_distance if future else 0
        self.embedding = nn.Embedding(self.before + 1 + self.after, d_k)

    def forward(self, query: Float[Tensor, "B H T K"], keys: int, offset: int) -> Float[Tensor, "B H T S"]:
        """What to add to the scaled scores of queries from position `offset` on, for keys from position 0 on."""
        B, H, T, d_k = query.shape
        # [B, H, T, K] x [K, R] -> [B, H, T, R]: by each of the R distances
        products = (query * d_k**-0.5) @ self.embedding.weight.t()
        position = torch.arange(keys, device=query.device)
        # [S] - [T, 1] -> [T, S]
        distance = position - torch.arange(offset, offset + T, device=query.device).unsqueeze(1)
        row = distance.clamp(-self.before, self.after) + self.before
        # [B, H, T, R] -> [B, H, T, S]: for each key the product of its distance
        return products.gather(-1, row.expand(B, H, T, keys))
