"""The training objective of encoders of texts: cross-entropy of masked tokens (Devlin et al., "BERT", 2019)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from dragoman.data.masking import MaskedBatch
from dragoman.device import Precision
from dragoman.models.masked import MaskedModel
from dragoman.training.loss import summed_loss
from dragoman.training.objective import Batches, BatchLoss
from dragoman.training.validation import Validation

# Names of the measured metrics in `training.metrics`.
ACCURACY, NEXT_SENTENCE = "masked_accuracy", "next_sentence_accuracy"


@dataclass(frozen=True)
class MaskedLosses:
    """Loss of batches of masked windows."""

    def loss(self, model: MaskedModel, batch: MaskedBatch) -> BatchLoss:
        """Return the loss of the masked tokens; the additional cost is that of next-sentence prediction.

        That cost is multiplied by the number of masked tokens, since the sum is divided by it: so it has the weight of
        one token for each token, as in the reference implementation of BERT.
        """
        states = model(batch.tokens, batch.segments, batch.documents)
        loss = masked_loss(model, states, batch)
        cost = loss.new_zeros(())
        if batch.follows is not None:
            cost = len(batch.targets) * F.cross_entropy(_follows(model, states, batch).float(), batch.follows)
        return BatchLoss(loss, cost)

    def tokens(self, batch: MaskedBatch) -> int:
        """Return the number of masked tokens."""
        return len(batch.targets)

    def size(self, batch: MaskedBatch) -> int:
        """Return the number of tokens."""
        return batch.tokens.numel()

    def split(self, batch: MaskedBatch, limit: float) -> Iterator[MaskedBatch]:
        """Yield parts of the batch, each of at most `limit` tokens or of a single window."""
        windows = len(batch.tokens)
        rows = max(1, int(min(windows, limit * windows / self.size(batch))))
        if rows == windows:
            yield batch
            return
        for start in range(0, windows, rows):
            yield batch.rows(start, start + rows)

    def describe(self, batch: MaskedBatch) -> str:
        """Describe a batch of a single window by its length."""
        return f"a single window of {batch.tokens.shape[1]} tokens"


@dataclass(frozen=True)
class MaskedObjective(MaskedLosses):
    """Training objective of masked language models.

    Attributes:
        batches: the training batches.
        validator: validates a model on fixed masks.
        metrics: names of the metrics that the validator measures in addition to the loss.
        validation_tokens: 0, since a validation generates no tokens.
    """

    batches: Batches[MaskedBatch]
    validator: Callable[[MaskedModel], Validation]
    metrics: tuple[str, ...] = (ACCURACY,)
    validation_tokens: int = 0

    def validate(self, model: MaskedModel) -> Validation:
        """Validate a model, which is in evaluation mode."""
        return self.validator(model)


def masked_loss(model: MaskedModel, states: Float[Tensor, "N D"], batch: MaskedBatch) -> Float[Tensor, ""]:
    """Return the cross-entropy of the masked tokens, summed.

    Args:
        model: the model.
        states: states of all tokens, row after row.
        batch: the batch.
    """
    assert model.head is not None, "a model with prediction_head"
    assert model.output is not None
    # [N, D] -> [M, D]
    rows = model.head(states[batch.positions])
    # The bias of the projection becomes a column of its weight: [M, D] -> [M, D+1], [V, D] -> [V, D+1]
    rows = torch.cat((rows, rows.new_ones(len(rows), 1)), dim=1)
    weight = torch.cat((model.output.weight, model.output.bias.unsqueeze(1)), dim=1)
    return summed_loss(rows, weight, batch.targets, None, smoothing=0.0)


@torch.inference_mode()
def validate_masked(
    model: MaskedModel, batches: Iterable[MaskedBatch], precision: Precision, device: torch.device
) -> Validation:
    """Return the mean cross-entropy in nats per masked token, and the accuracy, without dropout.

    Args:
        model: the model.
        batches: batches with fixed masks.
        precision: precision of the forward pass.
        device: device of the model.
    """
    was_training = model.training
    model.eval()
    loss = torch.zeros((), dtype=torch.float64, device=device)
    correct, follows = torch.zeros((2,), dtype=torch.int64, device=device)
    tokens = windows = 0
    for batch in (batch.to(device) for batch in batches):
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            states = model(batch.tokens, batch.segments, batch.documents)
            loss += masked_loss(model, states, batch)
            for rows, targets in zip(states[batch.positions].split(ROWS), batch.targets.split(ROWS), strict=True):
                correct += (model.predict(rows).argmax(dim=1) == targets).sum()
            if batch.follows is not None:
                follows += (_follows(model, states, batch).argmax(dim=1) == batch.follows).sum()
                windows += len(batch.follows)
        tokens += len(batch.targets)
    model.train(was_training)
    metrics = {ACCURACY: 100 * float(correct) / tokens}
    if windows:
        metrics[NEXT_SENTENCE] = 100 * float(follows) / windows
    return Validation(loss=float(loss) / tokens, metrics=metrics)


# Rows of logits that are in memory at the same time.
ROWS = 1024


def _follows(model: MaskedModel, states: Float[Tensor, "N D"], batch: MaskedBatch) -> Float[Tensor, "B 2"]:
    # [N, D] -> [B, T, D] -> [B, D]
    return model.follows(states.unflatten(0, batch.tokens.shape)[:, 0])
