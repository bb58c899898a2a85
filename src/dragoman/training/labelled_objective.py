"""The training objective of classifiers and taggers: cross-entropy of the labels."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.data.labelled import NOTHING, LabelledBatch
from dragoman.device import Precision
from dragoman.models.labelled_model import LabelledModel
from dragoman.training.objective import Batches, BatchLoss
from dragoman.training.validation import Validation


@dataclass(frozen=True)
class LabelledLosses:
    """Loss of batches of rows with labels.

    Attributes:
        smoothing: ε of label smoothing.
    """

    smoothing: float

    def loss(self, model: LabelledModel, batch: LabelledBatch) -> BatchLoss:
        """Return the cross-entropy of the labels, summed."""
        loss = _summed_loss(model, batch, self.smoothing)
        return BatchLoss(loss, loss.new_zeros(()))

    def tokens(self, batch: LabelledBatch) -> int:
        """Return the number of labels."""
        return batch.predicted

    def size(self, batch: LabelledBatch) -> int:
        """Return the number of tokens including padding."""
        return batch.tokens.numel()

    def split(self, batch: LabelledBatch, limit: float) -> Iterator[LabelledBatch]:
        """Yield parts of the batch, each of at most `limit` tokens or of a single row."""
        count = len(batch.tokens)
        rows = max(1, int(min(count, limit * count / self.size(batch))))
        if rows == count:
            yield batch
            return
        for start in range(0, count, rows):
            yield batch.rows(start, start + rows)

    def describe(self, batch: LabelledBatch) -> str:
        """Describe a batch of a single row by its length."""
        return f"a single text of {batch.tokens.shape[1]} tokens"


@dataclass(frozen=True)
class LabelledObjective(LabelledLosses):
    """Training objective of classifiers and taggers.

    Attributes:
        batches: the training batches.
        validator: validates a model.
        metrics: names of the metrics that the validator measures in addition to the loss.
        validation_tokens: 0, since a validation generates no tokens.
    """

    batches: Batches[LabelledBatch]
    validator: Callable[[LabelledModel], Validation]
    metrics: tuple[str, ...]
    validation_tokens: int = 0

    def validate(self, model: LabelledModel) -> Validation:
        """Validate a model, which is in evaluation mode."""
        return self.validator(model)


@torch.inference_mode()
def mean_label_loss(
    model: LabelledModel, batches: Iterable[LabelledBatch], precision: Precision, device: torch.device
) -> float:
    """Return the mean cross-entropy in nats per label, without label smoothing; the model is in evaluation mode."""
    total, count = torch.zeros((), dtype=torch.float64, device=device), 0
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            total += _summed_loss(model, batch, smoothing=0.0)
        count += batch.predicted
    return float(total) / max(count, 1)


def _summed_loss(model: LabelledModel, batch: LabelledBatch, smoothing: float) -> Tensor:
    logits = model(batch.tokens, batch.mask).float()
    # [B, T] -> [B, P]: a label of a whole text is at the first position
    targets = batch.targets[:, : logits.shape[1]]
    # [B, P, L] -> [B*P, L]
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=NOTHING, reduction="sum", label_smoothing=smoothing
    )
