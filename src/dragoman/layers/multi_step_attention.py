"""The attention of each decoder block of ConvS2S (Gehring et al. 2017, section 3.3)."""

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import AttentionCore, AttentionMask


class MultiStepAttention(nn.Module):
    """c_i = Σ_j a_ij (z_j + e_j), a_ij = softmax_j(d_i · z_j), d_i = W h_i + b + g_i (equations 1 and 2).

    h is the state of the decoder block, g the embedding of the previous target token, z the output of the encoder and e
    the embedded source. "Multi-step": the attention of each block depends on what the blocks below it attended to.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model)
        # The paper does not scale the product.
        self.core = AttentionCore(scale=1.0)

    def forward(
        self,
        h: Float[Tensor, "*BT D"],
        g: Float[Tensor, "*BT D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        mask: AttentionMask,
    ) -> Float[Tensor, "*BT D"]:
        """Return the conditional input c of every position.

        Args:
            h: states of the decoder block, [B, T, D] or rows in the layout `mask.queries`.
            g: embedded previous target tokens, in the same layout.
            key: z, as a padded batch or in attention's grid.
            value: z + e, in the same shape as `key`.
            mask: the source positions that may be attended to.
        """
        d = self.query(h) + g
        if mask.queries is not None:
            # [*BT, D] -> [B, T, D]
            d = mask.queries.to_grid(d)
        # 3 x [B, ., D] -> [B, 1, ., D] -> [B, 1, T, D] -> [B, T, D]: one head
        heads = self.core(d.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), mask)
        c = heads.squeeze(1)
        # [B, T, D] -> [*BT, D]
        return c if mask.queries is None else mask.queries.from_grid(c)
