"""Embeddings and the output projection, and which of them share a matrix."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.layers.positions import LearnedPositions, OneHotPositions, SinusoidalPositions


class Embedding(nn.Module):
    """Scaled token embeddings plus position encodings, then dropout (Vaswani et al. 2017, sections 3.4 and 5.4).

    Args:
        tokens: embedding matrix, one row for each token.
        positions: module that adds position encodings; None if positions are represented in the attention, or not at
            all.
        dropout: probability of dropping a feature in training.
        scaled: True to multiply the token embeddings by √d_model.
        segments: embedding of segments, which is added; None if the model has none.
        norm: norm of the sum; None for no norm.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: SinusoidalPositions | LearnedPositions | OneHotPositions | None,
        dropout: float,
        *,
        scaled: bool = True,
        segments: nn.Embedding | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scaled else None

    def forward(
        self,
        token: Int[Tensor, "B T"],
        offset: int | Int[Tensor, "_ T"] = 0,
        segment: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Embed tokens at the positions offset, offset + 1, ..., or at those in the tensor `offset`.

        Args:
            token: token ids.
            offset: position of the first token, or the positions of all tokens.
            segment: segment of each token; None for the first segment everywhere. Embeddings without segments ignore
                it.

        Raises:
            CorpusError: the sequence has more positions than were learned.
        """
        # [B, T] -> [B, T, D]
        x = self.tokens(token)
        if self.scale is not None:
            x = x * self.scale
        if self.positions is not None:
            x = self.positions(x, offset)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segment is None else self.segments(segment))
        if self.norm is not None:
            x = self.norm(x)
        if torch.is_autocast_enabled(x.device.type):
            # The residual stream has autocast's type from here on: half the memory traffic, no casts between layers.
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)


def vocabulary_matrices(
    source_vocabulary: int,
    target_vocabulary: int,
    d_model: int,
    tied: Literal["three-way", "two-way", "none"],
) -> tuple[nn.Embedding, nn.Embedding, nn.Linear]:
    """Return the source embedding, the target embedding, and the output projection without bias.

    Args:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        d_model: width of the embeddings.
        tied: "three-way": one matrix for all three, with a joint vocabulary (Vaswani et al. 2017, section 3.4; Press
            and Wolf, 2017). "two-way": one matrix for target and output. "none": three matrices.
    """
    source = nn.Embedding(source_vocabulary, d_model)
    target = source if tied == "three-way" else nn.Embedding(target_vocabulary, d_model)
    output = nn.Linear(d_model, target_vocabulary, bias=False)
    if tied != "none":
        output.weight = target.weight
    return source, target, output
