"""The loss of batches, and its gradient: what one update is made of."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.device import Precision
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.loss import label_smoothed_loss


def accumulate_gradients(
    model: Seq2Seq, batches: Sequence[Batch], smoothing: float, precision: Precision, device: torch.device
) -> tuple[Tensor, int]:
    """Add the gradient of the mean loss per token over all `batches` to the parameters'.

    The sum is divided once, by the number of target tokens in all batches, so that one batch cut into
    two or four gives the same gradient.

    Returns:
        the summed loss in nats (a detached scalar) and the number of target tokens
    """
    tokens = sum(batch.target_tokens for batch in batches)
    total = torch.zeros((), device=device)
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            states, cost = model(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
            loss, _ = label_smoothed_loss(states, model.output.weight, batch.target_out, batch.target_mask, smoothing)
        ((loss + cost) / tokens).backward()
        total += loss.detach()
    return total, tokens


@torch.inference_mode()
def mean_loss(model: Seq2Seq, batches: Iterable[Batch], precision: Precision, device: torch.device) -> float:
    """Cross-entropy in nats per target token, without smoothing and without dropout."""
    was_training = model.training
    model.eval()
    total, count = torch.zeros((), dtype=torch.float64, device=device), 0
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            memory = model.encode(batch.source, batch.source_mask)
            states = model.decode_states(batch.target_in, memory, batch.target_mask)
            loss, _ = label_smoothed_loss(
                states, model.output.weight, batch.target_out, batch.target_mask, smoothing=0.0
            )
        total += loss
        count += batch.target_tokens
    model.train(was_training)
    return float(total) / count
