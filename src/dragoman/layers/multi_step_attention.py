"""The attention of each decoder block of ConvS2S (Gehring et al. 2017, section 3.3)."""

import math

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import AttentionCore, AttentionMask


class MultiStepAttention(nn.Module):
    """c_i = Σ_j a_ij (z_j + e_j), a_ij = softmax_j(d_i · z_j), d_i = W h_i + b + g_i (equations 1 and 2).

    h is the decoder block's state, g the embedding of the token before the predicted one, z the encoder's output and e
    the embedded source. "Multi-step": each block looks where the blocks below it have looked already.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model)
        self.core = AttentionCore()

    def forward(
        self,
        h: Float[Tensor, "*BT D"],
        g: Float[Tensor, "*BT D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        mask: AttentionMask,
    ) -> Float[Tensor, "*BT D"]:
        """The conditional input c of every position; `key` is z and `value` is z + e.

        `h` and `g` are [B, T, D], or rows in the layout of `mask.queries`; the source is in a grid already.
        """
        d = self.query(h) + g
        if mask.queries is not None:
            # [*BT, D] -> [B, T, D]
            d = mask.queries.to_grid(d)
        # The paper's product is not scaled: this undoes the 1/√d_k of the one attention core.
        d = d * math.sqrt(d.shape[-1])
        # 3 x [B, ., D] -> [B, 1, ., D] -> [B, 1, T, D] -> [B, T, D]: one head
        heads = self.core(d.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), mask)
        c = heads.squeeze(1)
        # [B, T, D] -> [*BT, D]
        return c if mask.queries is None else mask.queries.from_grid(c)
