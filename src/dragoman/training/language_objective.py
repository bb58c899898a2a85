"""The training objective of language models: cross-entropy of the next token, in windows of text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from dragoman.data.token_stream import WindowBatch
from dragoman.device import Precision
from dragoman.models.language_model import LanguageModel
from dragoman.training.loss import summed_loss
from dragoman.training.objective import Batches, BatchLoss
from dragoman.training.validation import Validation


@dataclass(frozen=True)
class LanguageLosses:
    """Loss of batches of windows of text.

    Attributes:
        smoothing: ε of label smoothing.
    """

    smoothing: float

    def loss(self, model: LanguageModel, batch: WindowBatch) -> BatchLoss:
        """Return the label-smoothed loss and the additional cost of the model."""
        decoded = model(batch.tokens_in, batch.documents)
        # [B, T] -> [B*T]
        counted = None if batch.target_mask is None else batch.target_mask.flatten()
        loss = summed_loss(decoded.rows, model.output.weight, batch.tokens_out.flatten(), counted, self.smoothing)
        return BatchLoss(loss, decoded.cost)

    def tokens(self, batch: WindowBatch) -> int:
        """Return the number of tokens to be predicted."""
        return batch.tokens

    def size(self, batch: WindowBatch) -> int:
        """Return the number of tokens."""
        return batch.tokens_in.numel()

    def split(self, batch: WindowBatch, limit: float) -> Iterator[WindowBatch]:
        """Yield parts of the batch, each of at most `limit` tokens or of a single window."""
        windows = len(batch.tokens_in)
        rows = max(1, int(min(windows, limit * windows / self.size(batch))))
        if rows == windows:
            yield batch
            return
        for start in range(0, windows, rows):
            yield batch.rows(start, min(start + rows, windows))

    def describe(self, batch: WindowBatch) -> str:
        """Describe a batch of a single window by its length."""
        return f"a single window of {batch.tokens_in.shape[1]:,} tokens"


@dataclass(frozen=True)
class LanguageObjective(LanguageLosses):
    """Training objective of language models.

    Attributes:
        batches: the training batches.
        validator: validates a model.
        metrics: names of the metrics that the validator measures in addition to the loss.
        validation_tokens: tokens that a validation generates.
    """

    batches: Batches[WindowBatch]
    validator: Callable[[LanguageModel], Validation]
    metrics: Sequence[str]
    validation_tokens: int = 0

    def validate(self, model: LanguageModel) -> Validation:
        """Validate a model, which is in evaluation mode."""
        return self.validator(model)


@torch.inference_mode()
def summed_language_loss(
    model: LanguageModel, batches: Iterable[WindowBatch], precision: Precision
) -> tuple[float, int]:
    """Return the cross-entropy in nats, summed over all tokens to be predicted, and their number; without dropout."""
    device = model.output.weight.device
    was_training = model.training
    model.eval()
    losses = LanguageLosses(smoothing=0.0)
    total, count = torch.zeros((), dtype=torch.float64, device=device), 0
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            total += losses.loss(model, batch).loss
        count += batch.tokens
    model.train(was_training)
    return float(total), count
