"""Recovery from updates that are not finite: each is skipped, and several in a row cause a rollback to a checkpoint."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dragoman.errors import SettingsError
from dragoman.training.checkpoint import latest_checkpoint
from dragoman.training.progress import RunState
from dragoman.training.reporting import Reporter

# Consecutive updates that are not finite before the run is rolled back, and the largest number of rollbacks.
BAD_IN_A_ROW, MAX_ROLLBACKS = 3, 10


@dataclass(frozen=True)
class Update:
    """An update whose loss and gradient norm have not been read from the device.

    Attributes:
        step: number of the update.
        loss: summed loss in nats, a scalar.
        norm: norm of the gradient, a scalar.
        tokens: target tokens.
    """

    step: int
    loss: Tensor
    norm: Tensor
    tokens: int


class Recovery:
    """Reads losses and gradient norms of updates, and rolls a run back after too many that are not finite.

    Args:
        state: the run; losses and tokens are added to its progress.
        checkpoints: directory of the checkpoints.
        reporter: reports every skipped update and every rollback.
        read_every: number of updates that are read at the same time.
    """

    def __init__(self, state: RunState, checkpoints: Path, reporter: Reporter, read_every: int) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self._reporter = reporter
        self._read_every = read_every
        self._pending: list[Update] = []

    def record_update(self, update: Update) -> None:
        """Add an update; read all pending updates if there are `read_every` of them."""
        self._pending.append(update)
        if len(self._pending) == self._read_every:
            self.read_pending()

    def read_pending(self) -> None:
        """Read loss and gradient norm of the pending updates.

        This waits until a GPU has finished them, and should not be called after every update.
        """
        if not self._pending:
            return
        updates, self._pending = self._pending, []
        values = torch.stack([torch.stack((update.loss, update.norm)).float() for update in updates]).tolist()
        progress = self._state.progress
        for update, (loss, norm) in zip(updates, values, strict=True):
            if math.isfinite(loss) and math.isfinite(norm):
                progress.loss_sum += loss
                progress.tokens += update.tokens
                progress.bad_in_a_row = 0
                continue
            progress.skipped += 1
            progress.bad_in_a_row += 1
            self._reporter.report_problem(
                "skipped", update.step, f"loss {loss:g}, gradient norm {norm:g}: the update was not applied"
            )
            if self.rollback_needed():
                return

    def nothing_pending(self) -> bool:
        """Return whether every update has been read."""
        return not self._pending

    def rollback_needed(self) -> bool:
        """Return whether the run must be rolled back."""
        return self._state.progress.bad_in_a_row >= BAD_IN_A_ROW

    def roll_back(self) -> None:
        """Restore the last checkpoint, and halve the learning rate.

        Raises:
            SettingsError: after `MAX_ROLLBACKS` rollbacks.
        """
        state = self._state
        failed, rollbacks = state.progress.step, state.progress.rollbacks + 1
        skipped, seconds = state.progress.skipped, state.seconds()
        if rollbacks > MAX_ROLLBACKS:
            raise SettingsError(
                f"after {MAX_ROLLBACKS} rollbacks to a checkpoint, each with half the learning rate, the loss is still "
                f"not finite at update {failed}: use training.precision = 'fp32', lower "
                "schedule.peak_learning_rate, or look for damaged pairs (dragoman corpus stats); "
                "the checkpoints are intact, and the model directory contains the best model so far"
            )
        checkpoint = latest_checkpoint(self._checkpoints)
        assert checkpoint is not None, "the first one is written before the first update"
        state.restore(checkpoint)
        self._pending = []
        # The time since the checkpoint counts as spent. Otherwise a budget of minutes might never end.
        state.set_seconds(seconds)
        progress = state.progress
        progress.rollbacks, progress.skipped, progress.bad_in_a_row = rollbacks, skipped, 0
        self._reporter.log.truncate_after(progress.step)
        self._reporter.report_problem(
            "rollback",
            progress.step,
            f"{BAD_IN_A_ROW} updates in a row, up to update {failed}, were not finite: training continues from update "
            f"{progress.step} with {1 / 2**rollbacks:g} of the learning rate",
        )
