"""Position encodings: sinusoidal, learned, one-hot, rotary and relative positions."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.errors import CorpusError


def sinusoidal_table(
    length: int, d_model: int, device: torch.device | None = None, *, base: float = 10_000.0
) -> Float[Tensor, "T D"]:
    """Return PE(pos, 2i) = sin(pos / n^(2i/d_model)), PE(pos, 2i+1) = cos(pos / n^(2i/d_model)).

    Source: Vaswani et al. (2017), section 3.5, where n = 10,000. Computed in float64 and returned in float32, because
    float32 angles are inaccurate at distant positions.

    Args:
        length: T, the number of positions.
        d_model: D, an even number of features.
        device: device of the returned table.
        base: n; the wavelengths are 2π for the first pair of features and approach 2πn for the last.

    Example:
        >>> sinusoidal_table(100, 512).shape
        torch.Size([100, 512])
    """
    position = torch.arange(length, dtype=torch.float64, device=device)
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64, device=device) / d_model
    # [T, 1] / [D/2] -> [T, D/2]
    angle = position.unsqueeze(1) / base**exponent
    # [T, D/2, 2] -> [T, D]: sine and cosine alternate
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def random_start(positions: int) -> int:
    """Return a random position at which a batch starts in training, from 0 to `positions` - 1.

    Training with random starts covers positions beyond the longest sentence of the corpus (Dehghani et al., 2018,
    section 3.2, for algorithmic tasks). Returns 0, without drawing a random number, if `positions` is 0.
    """
    return int(torch.randint(positions, ())) if positions else 0


def _extended_table(table: Float[Tensor, "T D"], end: int, base: float) -> Float[Tensor, "T2 D"]:
    """Return the table of this base with at least `end` positions; a power of two, so that it is rarely extended."""
    # An inference tensor could not be used in a later training step, and this may run during validation.
    with torch.inference_mode(False):
        length = 1 << (end - 1).bit_length()
        return sinusoidal_table(length, table.shape[1], table.device, base=base).to(table.dtype)


def positions_end(offset: int | Int[Tensor, "_ T"], length: int) -> int:
    """Return the first position after offset, offset + 1, ..., or after all those in the tensor `offset`."""
    if isinstance(offset, int):
        return offset + length
    return int(offset.max()) + 1 if offset.numel() else 0


def rows_at(
    table: Float[Tensor, "P D"], offset: int | Int[Tensor, "_ T"], length: int
) -> Float[Tensor, "T D"] | Float[Tensor, "_ T D"]:
    """Return the rows of a table of positions: offset, offset + 1, ..., or those in the tensor `offset`."""
    return table[offset : offset + length] if isinstance(offset, int) else table[offset]


class SinusoidalPositions(nn.Module):
    """Add fixed sinusoidal position encodings, for any length (Vaswani et al. 2017, section 3.5).

    Args:
        d_model: width of the embeddings.
        base: see `sinusoidal_table`.
    """

    table: Tensor

    def __init__(self, d_model: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("table", sinusoidal_table(256, d_model, base=base), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], offset: int | Int[Tensor, "_ T"] = 0) -> Float[Tensor, "B T D"]:
        """Add positions to the embeddings `x`: offset, offset + 1, ..., or those in the tensor `offset`."""
        end = positions_end(offset, x.shape[1])
        if end > len(self.table):
            self.table = _extended_table(self.table, end, self.base)
        return x + rows_at(self.table, offset, x.shape[1])


class SinusoidalDistances(nn.Module):
    """The fixed sinusoidal encodings R_d of distances (Dai et al. 2019, section 3.3), for any length.

    R_d is row d of the table of sinusoidal positions.

    Args:
        d_model: width of the encodings.
        base: see `sinusoidal_table`.
    """

    table: Tensor

    def __init__(self, d_model: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("table", sinusoidal_table(256, d_model, base=base), persistent=False)

    def forward(self, length: int) -> Float[Tensor, "R D"]:
        """Return R_d for the distances d = length - 1, ..., 0: the order of the keys of the last query."""
        if length > len(self.table):
            self.table = _extended_table(self.table, length, self.base)
        return self.table[:length].flip(0)


class LearnedPositions(nn.Module):
    """Add a learned vector for each position (Gehring et al., 2017, section 3.1), for at most `maximum` positions."""

    def __init__(self, maximum: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(maximum, d_model)

    def forward(self, x: Float[Tensor, "B T D"], offset: int | Int[Tensor, "_ T"] = 0) -> Float[Tensor, "B T D"]:
        """Add positions to the embeddings `x`: offset, offset + 1, ..., or those in the tensor `offset`.

        Raises:
            CorpusError: the sequence has more positions than were learned.
        """
        end, maximum = positions_end(offset, x.shape[1]), self.embedding.num_embeddings
        if end > maximum:
            raise CorpusError(
                f"a sequence of {end} is longer than the {maximum} learned positions of the model: "
                "split the text, or train with sinusoidal positions or a larger max_positions"
            )
        return x + rows_at(self.embedding.weight, offset, x.shape[1])


class OneHotPositions(nn.Module):
    """Append a one-hot position e_t to the embedding x_t and multiply by a matrix W.

    With W = [W_I | W_P], split after the columns of the embedding, this adds a learned vector:
    W[x_t; e_t] = W_I x_t + W_P e_t, where W_P e_t is column t of W_P. The code computes the right-hand side and stores
    W_I and W_P separately. There are at most `maximum` positions.
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

    def forward(self, x: Float[Tensor, "B T D"], offset: int | Int[Tensor, "_ T"] = 0) -> Float[Tensor, "B T D"]:
        """Combine the embeddings `x` with positions: offset, offset + 1, ..., or those in the tensor `offset`.

        Raises:
            CorpusError: the sequence has more positions than were learned.
        """
        return self.columns(self.words(x), offset)


class RotaryPositions(nn.Module):
    """Rotate each pair of features by an angle proportional to the position, for any length.

    Source: Su et al., "RoFormer" (2021), equation 34. The product of a query at position m and a key at position n
    contains only the angles (m - n)θ_i, so it depends on positions only through their distance.

    Args:
        d_head: d, width of a head's queries and keys.
        base: n in θ_i = n^(-2i/d).
    """

    table: Tensor

    def __init__(self, d_head: int, base: float = 10_000.0) -> None:
        super().__init__()
        assert d_head % 2 == 0, "rotary positions rotate pairs of features"
        self.base = base
        self.register_buffer("table", sinusoidal_table(256, d_head, base=base), persistent=False)

    def forward(self, x: Float[Tensor, "B H T K"], offset: int | Int[Tensor, "_ T"]) -> Float[Tensor, "B H T K"]:
        """Rotate `x`, whose rows are at the positions offset, offset + 1, ..., or at those in the tensor `offset`."""
        end = positions_end(offset, x.shape[2])
        if end > len(self.table):
            self.table = _extended_table(self.table, end, self.base)
        # [T, K], or [B or 1, T, K] -> [B or 1, 1, T, K]: the same angles for every head
        angles = rows_at(self.table, offset, x.shape[2])
        if angles.dim() == 3:
            angles = angles.unsqueeze(1)
        # [..., T, K] -> 2 x [..., T, K/2]: the angles are those of the sinusoidal table
        sine, cosine = angles.unflatten(-1, (-1, 2)).unbind(-1)
        return rotated_pairs(x, sine, cosine) if x.device.type != "cpu" else _rotated_as_complex(x, sine, cosine)


def rotated_pairs(
    x: Float[Tensor, "B H T K"], sine: Float[Tensor, "*_ T K2"], cosine: Float[Tensor, "*_ T K2"]
) -> Float[Tensor, "B H T K"]:
    """Rotate each pair of features of `x` by the angle with this sine and cosine."""
    # [B, H, T, K] -> 2 x [B, H, T, K/2]
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    sine, cosine = sine.to(x.dtype), cosine.to(x.dtype)
    rotated = (even * cosine - odd * sine, even * sine + odd * cosine)
    # 2 x [B, H, T, K/2] -> [B, H, T, K]
    return torch.stack(rotated, dim=-1).flatten(-2)


def _rotated_as_complex(
    x: Float[Tensor, "B H T K"], sine: Float[Tensor, "*_ T K2"], cosine: Float[Tensor, "*_ T K2"]
) -> Float[Tensor, "B H T K"]:
    """Return `rotated_pairs`, as (x_2i + i x_2i+1) e^(i m θ_i): on a CPU, one pass instead of several strided ones."""
    full = x if x.dtype == torch.float64 else x.float()
    # [B, H, T, K] -> [B, H, T, K/2], complex
    pairs = torch.view_as_complex(full.unflatten(-1, (-1, 2)).contiguous())
    rotated = pairs * torch.complex(cosine.to(full.dtype), sine.to(full.dtype))
    # [B, H, T, K/2] -> [B, H, T, K]
    return torch.view_as_real(rotated).flatten(-2).to(x.dtype)


class RelativePositions(nn.Module):
    """A learned vector for each distance s - t from query t to key s, added to the key.

    Source: Shaw, Uszkoreit and Vaswani, "Self-Attention with Relative Position Representations" (2018), equation 4:
    e_ts = q_t·(k_s + a_{clip(s - t, -k, k)}) / √d_k. This module computes the second of the two terms into which
    equation 5 splits it, q_t·a / √d_k, so that no vector is stored for each pair of positions. All heads share the
    vectors, and all distances beyond k = `max_distance` share one. The representations for values (equation 3) are
    omitted: in table 3 of the paper they do not improve on those for keys alone. For any length.

    Args:
        max_distance: k.
        d_k: width of a head's queries and keys.
        future: True if queries attend to keys after them, as in an encoder. Otherwise those distances have no vectors.
        scale: factor of the attention scores; None for 1/√d_k.
    """

    def __init__(self, max_distance: int, d_k: int, *, future: bool, scale: float | None = None) -> None:
        super().__init__()
        self.scale = d_k**-0.5 if scale is None else scale
        self.before = max_distance
        self.after = max_distance if future else 0
        self.embedding = nn.Embedding(self.before + 1 + self.after, d_k)

    def forward(
        self,
        query: Float[Tensor, "B H T K"],
        keys: int | Int[Tensor, "_ S"],
        offset: int | Int[Tensor, "_ T"],
    ) -> Float[Tensor, "B H T S"]:
        """Return the term that is added to the scaled attention scores.

        Args:
            query: queries.
            keys: S, the number of keys, which are at positions 0..S-1; or the position of each key.
            offset: position of the first query; or the position of each query.
        """
        B, H, T, _ = query.shape
        # [B, H, T, K] x [K, R] -> [B, H, T, R]: one product for each of the R distances
        products = (query * self.scale) @ self.embedding.weight.t()
        key_position = torch.arange(keys, device=query.device).unsqueeze(0) if isinstance(keys, int) else keys
        if isinstance(offset, int):
            offset = torch.arange(offset, offset + T, device=query.device).unsqueeze(0)
        # [B or 1, 1, 1, S] - [B or 1, 1, T, 1] -> [B or 1, 1, T, S]
        distance = key_position[:, None, None, :] - offset[:, None, :, None]
        row = distance.clamp(-self.before, self.after) + self.before
        # [B, H, T, R] -> [B, H, T, S]: for each key, the product for its distance
        return products.gather(-1, row.expand(B, H, T, -1))
