"""A small GPT written plainly in torch, with a training loop and sampling as users write them without a library.

The shape, loop and sampling are those of nanoGPT's setting for a CPU: fp32, AdamW, learned positions, no cache of keys
and values. It is the peer of `benchmarks/language.py`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """Sizes of a GPT."""

    vocabulary: int
    layers: int
    heads: int
    width: int
    context: int


class Block(nn.Module):
    """Causal self-attention and feed-forward network, both with a norm before them and a residual connection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(shape.width, bias=False)
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.projection = nn.Linear(shape.width, shape.width, bias=False)
        self.mlp_norm = nn.LayerNorm(shape.width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width, bias=False),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        # [B, T, 3D] -> 3 x [B, H, T, K]
        parts = self.query_key_value(self.attention_norm(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        # [B, H, T, K] -> [B, T, D]
        x = x + self.projection(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


class PlainGPT(nn.Module):
    """Token and position embeddings, blocks, and a projection tied to the token embeddings."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.context = shape.context
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.apply(_initialise)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits [B, T, V] of each next token."""
        positions = torch.arange(tokens.shape[1])
        x = self.blocks(self.tokens(tokens) + self.positions(positions))
        return F.linear(self.norm(x), self.tokens.weight)

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, temperature: float, top_k: int) -> Tensor:
        """Continue texts [B, T] by `count` tokens; every step computes the whole context."""
        for _ in range(count):
            logits = self(tokens[:, -self.context :])[:, -1] / temperature
            kth = logits.topk(top_k).values[:, -1:]
            probabilities = logits.masked_fill(logits < kth, -torch.inf).softmax(-1)
            tokens = torch.cat((tokens, torch.multinomial(probabilities, 1)), dim=1)
        return tokens


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)


class PlainTrainer:
    """The training loop: random windows, AdamW, clipping, and a cosine schedule."""

    def __init__(self, data: Tensor, shape: Shape, batch: int, steps: int, peak_rate: float = 1e-3) -> None:
        self.data, self.shape, self.batch, self.steps, self.peak_rate = data, shape, batch, steps, peak_rate
        self.model = PlainGPT(shape)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=peak_rate, betas=(0.9, 0.99), weight_decay=0.1)
        self.step = 0

    def run(self, updates: int) -> float:
        """Make updates; return the loss of the last."""
        T, loss = self.shape.context, torch.zeros(())
        for _ in range(updates):
            self.step += 1
            rate = self.peak_rate * min(self.step / 100, 1.0)
            if self.step > 100:
                done = (self.step - 100) / max(1, self.steps - 100)
                rate *= 0.1 + 0.45 * (1 + float(torch.cos(torch.tensor(torch.pi * min(done, 1.0)))))
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            starts = torch.randint(len(self.data) - T, (self.batch,)).tolist()
            x = torch.stack([self.data[start : start + T] for start in starts])
            y = torch.stack([self.data[start + 1 : start + T + 1] for start in starts])
            logits = self.model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def validation_loss(self, data: Tensor) -> float:
        """Return the mean loss over all windows of `data` that do not overlap, in nats per token."""
        T = self.shape.context
        windows = (len(data) - 1) // T
        x, y = data[: windows * T].view(windows, T), data[1 : windows * T + 1].view(windows, T)
        total = 0.0
        for start in range(0, windows, 128):
            logits = self.model(x[start : start + 128])
            total += float(F.cross_entropy(logits.flatten(0, 1), y[start : start + 128].flatten(), reduction="sum"))
        return total / (windows * T)
