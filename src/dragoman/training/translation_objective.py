"""The training objective of translation: label-smoothed cross-entropy of the target tokens.

All calls of a model and of its loss during training are in this module.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.device import Precision
from dragoman.models.seq2seq import Decoded, Seq2Seq
from dragoman.models.token_statistics import TokenStatistic, summarise
from dragoman.training.loss import label_smoothed_loss, summed_loss
from dragoman.training.objective import Batches, BatchLoss
from dragoman.training.validation import Validation


@dataclass(frozen=True)
class TranslationLosses:
    """Loss of batches of translation pairs.

    Attributes:
        smoothing: ε_ls of label smoothing ("Attention Is All You Need", section 5.4).
        source_loss: weight of the loss of each token of the source; for decoder-only models.
    """

    smoothing: float
    source_loss: float = field(default=0.0, kw_only=True)

    def loss(self, model: Seq2Seq, batch: Batch) -> BatchLoss:
        """Return the label-smoothed loss, and the additional cost: that of the model and the loss of the source."""
        decoded, loss = _decoded_with_loss(model, batch, self.smoothing)
        cost = decoded.cost
        if self.source_loss:
            assert decoded.source is not None, "only decoder-only models predict the source"
            rows, tokens, counted = decoded.source.rows, decoded.source.tokens, decoded.source.counted
            cost = cost + self.source_loss * summed_loss(rows, model.output.weight, tokens, counted, 0.0)
        return BatchLoss(loss, cost)

    def tokens(self, batch: Batch) -> int:
        """Return the number of target tokens."""
        return batch.target_tokens

    def size(self, batch: Batch) -> int:
        """Return the number of padded tokens: the rows times the length of the longer side."""
        return len(batch.source) * max(batch.source.shape[1], batch.target_in.shape[1])

    def split(self, batch: Batch, limit: float) -> Iterator[Batch]:
        """Yield parts of the batch, each of at most `limit` padded tokens or of a single row."""
        rows = max(1, int(min(len(batch.source), limit * len(batch.source) / self.size(batch))))
        if rows == len(batch.source):
            yield batch
            return
        for start in range(0, len(batch.source), rows):
            part = {
                member.name: getattr(batch, member.name)[start : start + rows]
                for member in fields(batch)
                if member.name != "target_tokens"
            }
            yield replace(batch, **part, target_tokens=int(part["target_mask"].sum()))

    def describe(self, batch: Batch) -> str:
        """Describe a batch of a single pair by its lengths."""
        return f"a single pair of {batch.source.shape[1]} and {batch.target_in.shape[1]} subwords"


@dataclass(frozen=True)
class TranslationObjective(TranslationLosses):
    """Training objective of translation.

    Attributes:
        batches: the training batches.
        validator: validates a model by its translations. It is passed in by `run`, since `training` must not import
            `translation`.
        metrics: names of the metrics that the validator measures in addition to the loss.
        validation_tokens: target tokens that a validation generates.
    """

    batches: Batches[Batch]
    validator: Callable[[Seq2Seq], Validation]
    metrics: Sequence[str]
    validation_tokens: int = 0

    def validate(self, model: Seq2Seq) -> Validation:
        """Validate a model, which is in evaluation mode."""
        return self.validator(model)


def _decoded_with_loss(model: Seq2Seq, batch: Batch, smoothing: float) -> tuple[Decoded, Tensor]:
    decoded: Decoded = model(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
    loss, _ = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, batch.target_out, smoothing)
    return decoded, loss


@torch.inference_mode()
def mean_loss(model: Seq2Seq, batches: Iterable[Batch], precision: Precision, device: torch.device) -> float:
    """Return the mean cross-entropy in nats per target token, without label smoothing and without dropout."""
    was_training = model.training
    model.eval()
    total, count = torch.zeros((), dtype=torch.float64, device=device), 0
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            _, loss = _decoded_with_loss(model, batch, smoothing=0.0)
        total += loss
        count += batch.target_tokens
    model.train(was_training)
    return float(total) / count


@torch.inference_mode()
def token_statistics_of(
    model: Seq2Seq, batches: Iterable[Batch], precision: Precision, device: torch.device
) -> dict[str, TokenStatistic]:
    """Return the token statistics of a model over all batches, by name (see `Seq2Seq.token_statistics`)."""
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        return summarise(
            model.token_statistics(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
            for batch in (batch.to(device) for batch in batches)
        )
