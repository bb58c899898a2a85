"""The objective of translating: label-smoothed cross-entropy of the target, judged by what the model translates.

Every call of a model and of its loss in training is in this file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.device import Precision
from dragoman.models.seq2seq import Decoded, Seq2Seq
from dragoman.models.token_statistics import TokenStatistic, summarise
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.objective import Batches, BatchLoss
from dragoman.training.validation import Validation


@dataclass(frozen=True)
class TranslationLosses:
    """The loss of pairs.

    smoothing   ε_ls (section 5.4)
    """

    smoothing: float

    def loss(self, model: Seq2Seq, batch: Batch) -> BatchLoss:
        """Return the smoothed loss, and the cost of the model's own."""
        decoded, loss = _decoded_with_loss(model, batch, self.smoothing)
        return BatchLoss(loss, decoded.cost)

    def tokens(self, batch: Batch) -> int:
        """Return the number of target tokens."""
        return batch.target_tokens

    def size(self, batch: Batch) -> int:
        """Return the padded tokens: rows times the longer side."""
        return len(batch.source) * max(batch.source.shape[1], batch.target_in.shape[1])

    def split(self, batch: Batch, limit: float) -> Iterator[Batch]:
        """Yield the batch in pieces of at most `limit` padded tokens (or of one row)."""
        rows = max(1, int(min(len(batch.source), limit * len(batch.source) / self.size(batch))))
        if rows == len(batch.source):
            yield batch
            return
        for start in range(0, len(batch.source), rows):
            part = {
                field.name: getattr(batch, field.name)[start : start + rows]
                for field in fields(batch)
                if field.name != "target_tokens"
            }
            yield replace(batch, **part, target_tokens=int(part["target_mask"].sum()))

    def describe(self, batch: Batch) -> str:
        """Return the lengths of a single pair."""
        return f"a single pair of {batch.source.shape[1]} and {batch.target_in.shape[1]} subwords"


@dataclass(frozen=True)
class TranslationObjective(TranslationLosses):
    """Translation.

    batches             the training pairs
    validator           measures a model by what it translates: given by `run`, as training cannot translate
    metrics             what the validator measures beside the loss
    validation_tokens   target tokens that a validation translates
    """

    batches: Batches[Batch]
    validator: Callable[[Seq2Seq], Validation]
    metrics: Sequence[str]
    validation_tokens: int = 0

    def validate(self, model: Seq2Seq) -> Validation:
        """Measure a model, which is in evaluation mode."""
        return self.validator(model)


def _decoded_with_loss(model: Seq2Seq, batch: Batch, smoothing: float) -> tuple[Decoded, Tensor]:
    decoded: Decoded = model(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
    loss, _ = label_smoothed_loss(decoded.rows, decoded.layout, model.output.weight, batch.target_out, smoothing)
    return decoded, loss


@torch.inference_mode()
def mean_loss(model: Seq2Seq, batches: Iterable[Batch], precision: Precision, device: torch.device) -> float:
    """Return the cross-entropy in nats per target token, without smoothing and without dropout."""
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
    """Return what the model reports of the tokens of all batches, by name."""
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        return summarise(
            model.token_statistics(batch.source, batch.source_mask, batch.target_in, batch.target_mask)
            for batch in (batch.to(device) for batch in batches)
        )
