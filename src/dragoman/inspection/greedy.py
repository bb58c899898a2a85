"""The most probable next token, again and again, for rows that stay where they are.

The searches of `decoding` drop rows that are finished; here row b must stay row b, as some of its heads may be off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dragoman.data.batching import collate
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.subwords import BOS, EOS, PAD, UNK

# Output is at most so much longer than the source.
LONGER = 50


@dataclass(frozen=True)
class Output:
    """tokens without special symbols; log_probability with EOS's, in nats."""

    tokens: list[int]
    log_probability: float


def greedy(model: Seq2Seq, sources: Sequence[Sequence[int]]) -> list[Output]:
    """The output for each source; the caller has put the model into evaluation mode."""
    device = next(model.parameters()).device
    batch = collate(sources, [[]] * len(sources)).to(device)
    state = model.start(model.encode(batch.source, batch.source_mask))
    token = torch.full((len(sources),), BOS, device=device)
    running = torch.ones_like(token, dtype=torch.bool)
    total = torch.zeros(len(sources), device=device)
    tokens: list[torch.Tensor] = []
    limits = torch.tensor([len(source) + LONGER for source in sources], device=device)
    while running.any():
        logits, state = model.step(token, state)
        # [B, V] -> [B, V] -> [B]
        log_probabilities = logits.float().log_softmax(-1)
        # As in `SearchConfig`: an output has at least one token, and at most so many.
        log_probabilities[:, [PAD, UNK, BOS] if tokens else [PAD, UNK, BOS, EOS]] = -torch.inf
        at_limit = len(tokens) >= limits
        best = log_probabilities.argmax(-1).masked_fill(at_limit, EOS)
        total += log_probabilities.gather(-1, best.unsqueeze(-1)).squeeze(-1).masked_fill(~running, 0.0)
        running = running & (best != EOS)
        token = best.masked_fill(~running, PAD)
        tokens.append(token)
    # L x [B] -> [B, L]
    rows = torch.stack(tokens, dim=1).tolist()
    return [
        Output([token for token in row if token != PAD], log_probability)
        for row, log_probability in zip(rows, total.tolist(), strict=True)
    ]
