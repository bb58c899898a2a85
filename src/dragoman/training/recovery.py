"""Updates that are not finite: each is skipped, and after several in a row the run goes back to a checkpoint."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dragoman.errors import SettingsError
from dragoman.training.checkpoint import latest_checkpoint
from dragoman.training.progress import RunState
from dragoman.training.reporting import Reporter

# Updates in a row that are not finite before the run goes back to the last checkpoint; and the most such returns.
BAD_IN_A_ROW, MAX_ROLLBACKS = 3, 10


@dataclass(frozen=True)
class Update:
    """An update whose figures have not been read."""

    step: int
    loss: Tensor
    norm: Tensor
    tokens: int


class Recovery:
    """Reads how updates went, and goes back when too many were not finite.

    Args:
        state: the run; what is read is added to its progress.
        checkpoints: to go back to.
        reporter: reports every skipped update and every return.
        read_every: updates that are read at once.
    """

    def __init__(self, state: RunState, checkpoints: Path, reporter: Reporter, read_every: int) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self._reporter = reporter
        self._read_every = read_every
        self._unread: list[Update] = []

    def updated(self, update: Update) -> None:
        """Add an update, and read all that have not been read when there are enough of them."""
        self._unread.append(update)
        if len(self._unread) == self._read_every:
            self.read()

    def read(self) -> None:
        """Read loss and norm of the updates since the last time. A GPU has to finish them first: not after each one."""
        if not self._unread:
            return
        updates, self._unread = self._unread, []
        figures = torch.stack([torch.stack((update.loss, update.norm)).float() for update in updates]).tolist()
        progress = self._state.progress
        for update, (loss, norm) in zip(updates, figures, strict=True):
            if math.isfinite(loss) and math.isfinite(norm):
                progress.loss_sum += loss
                progress.tokens += update.tokens
                progress.bad_in_a_row = 0
                continue
            progress.skipped += 1
            progress.bad_in_a_row += 1
            self._reporter.trouble(
                "skipped", update.step, f"loss {loss:g}, norm of the gradient {norm:g}: the update is not applied"
            )
            if self.needed():
                return

    def all_read(self) -> bool:
        """Return whether every update has been read."""
        return not self._unread

    def needed(self) -> bool:
        """Return whether the run must go back."""
        return self._state.progress.bad_in_a_row >= BAD_IN_A_ROW

    def roll_back(self) -> None:
        """Go back to the last checkpoint, with half the learning rate.

        Raises:
            SettingsError: when this has been done too often.
        """
        state = self._state
        failed, rollbacks = state.progress.step, state.progress.rollbacks + 1
        skipped, seconds = state.progress.skipped, state.seconds()
        if rollbacks > MAX_ROLLBACKS:
            raise SettingsError(
                f"after {MAX_ROLLBACKS} returns to a checkpoint, each with half the learning rate, the loss is still "
                f"not finite at update {failed}: train in training.precision = 'fp32', lower "
                "schedule.peak_learning_rate, or look for damaged pairs (dragoman corpus stats); "
                "the checkpoints are good, and the model is the best so far"
            )
        checkpoint = latest_checkpoint(self._checkpoints)
        assert checkpoint is not None, "the first one is written before the first update"
        state.restore(checkpoint)
        self._unread = []
        # The time is spent all the same, or a budget of minutes would never end.
        state.set_seconds(seconds)
        progress = state.progress
        progress.rollbacks, progress.skipped, progress.bad_in_a_row = rollbacks, skipped, 0
        self._reporter.log.truncate_after(progress.step)
        self._reporter.trouble(
            "rollback",
            progress.step,
            f"{BAD_IN_A_ROW} updates in a row were not finite, the last of them {failed}: back to update "
            f"{progress.step}, with {1 / 2**rollbacks:g} of the learning rate",
        )
