"""The training loop: one update after another, validated, saved, resumable bit for bit on the CPU."""

import math
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Generic

import torch

from dragoman.data.batching import Cursor
from dragoman.device import Precision, return_freed_memory
from dragoman.errors import SettingsError
from dragoman.training.averaging import MovingAverage
from dragoman.training.budget import Budget
from dragoman.training.checkpoint import latest_checkpoint
from dragoman.training.config import TrainingConfig
from dragoman.training.events import EventLog
from dragoman.training.fitting import FittingGradients
from dragoman.training.forecast import Forecast
from dragoman.training.metrics import LOSS
from dragoman.training.objective import B, M, Objective
from dragoman.training.optimizers.table import OPTIMIZERS
from dragoman.training.prefetch import on_device
from dragoman.training.progress import Outcome, RunState
from dragoman.training.recovery import Recovery, Update
from dragoman.training.reporting import Observer, Reporter
from dragoman.training.schedule import ScheduleConfig, learning_rate
from dragoman.training.selection import KeepBest, Selection
from dragoman.training.stopping import BrokenOff, Stopped, StopRequest, stop_requests

LOG_EVERY = 10
# Batches of all lengths leave holes in memory, half as much again as what is in use.
TRIM_EVERY = 20
CHECKPOINT_SECONDS = 600


class Trainer(Generic[M, B]):
    """Trains one model in one directory, from its last checkpoint if there is one.

    Args:
        model: on its device already.
        objective: gives the batches, their loss, and the validations.
        config, schedule: how to train.
        d_model: the model's width, for the paper's schedule.
        precision: as `select_precision` says.
        directory: takes checkpoints/ and log.jsonl.
        keep_best: called with the weights whenever a validation is the best so far.
        observers: are told of every log line.
        read_every: updates after which to ask how they went; by default 1 on a CPU, which knows at once, and LOG_EVERY
            on a GPU, which would be idle after each.
        checkpoint_seconds: time after which to save between validations.

    Raises:
        SettingsError: when the objective does not measure config.best_by.
    """

    def __init__(
        self,
        model: M,
        objective: Objective[M, B],
        *,
        config: TrainingConfig,
        schedule: ScheduleConfig,
        d_model: int,
        precision: Precision,
        directory: Path,
        keep_best: KeepBest,
        observers: Sequence[Observer] = (),
        read_every: int | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        if config.best_by not in (LOSS.name, *objective.metrics):
            measured = ", ".join(map(repr, (LOSS.name, *objective.metrics)))
            raise SettingsError(
                f"training.best_by is {config.best_by!r}, which is not measured here: choose {measured}"
            )
        self.model = model
        self.objective = objective
        self.config = config
        self.schedule = schedule
        self.d_model = d_model
        self.checkpoints = directory / "checkpoints"
        self.checkpoint_seconds = checkpoint_seconds
        self._device = next(model.parameters()).device
        average = MovingAverage(model, config.ema_decay) if config.ema_decay > 0 else None
        self.state = RunState(model, OPTIMIZERS[config.optimizer](model, config, precision), average)
        self.budget = Budget(config, self.state)
        self.reporter = Reporter(EventLog(directory / "log.jsonl"), observers, self.state)
        self.gradients = FittingGradients(model, objective, precision, self._device, self.reporter.tell)
        read_every = read_every or (1 if self._device.type == "cpu" else LOG_EVERY)
        self.recovery = Recovery(self.state, self.checkpoints, self.reporter, read_every)
        self.selection = Selection(model, objective, self.state, config.best_by, keep_best, self.reporter)
        self.forecast = Forecast(objective.validation_tokens)

    def run(self) -> Outcome:
        """Train until the budget or the patience is spent, and return how it went.

        Raises:
            Stopped: after SIGINT or SIGTERM; everything is saved, `run` again goes on from there.
            UserError: when the loss is repeatedly not finite, a checkpoint cannot be written, or a single
                example does not fit into memory.
        """
        with stop_requests() as request:
            with suppress(BrokenOff):
                self._run(request)
            if request.signal_number is not None:
                raise Stopped(request.signal_number, self.state.progress.step)
        return self._outcome()

    def _run(self, request: StopRequest) -> None:
        self._restore_or_begin()
        if not self.budget.finished():
            self._rehearse()
            if self.budget.validation_due():
                # A signal broke it off.
                self._validate(request)
                self.save()
        while not self.budget.finished() and request.signal_number is None:
            # Started again after a rollback, which moves the cursor.
            with closing(self._groups()) as groups:
                self._train_on(groups, request)
        if request.signal_number is None and not self.state.progress.finished:
            self.selection.try_average_of_last(self.checkpoints, self.config.average_last, request)
            self.state.progress.finished = True
            self.save()

    def update(self, batches: Sequence[B]) -> None:
        """Make one update with the gradient of all `batches`."""
        progress, before = self.state.progress, self.budget.spent()
        progress.step += 1
        self.model.train()
        rate = learning_rate(self.schedule, self.d_model, progress.step, self.budget.spent()) / 2**progress.rollbacks
        self.model.zero_grad()
        loss, tokens = self.gradients(batches)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm or math.inf)
        self.state.optimizers.step(rate, loss.isfinite() & norm.isfinite())
        self.recovery.updated(Update(progress.step, loss, norm, tokens))
        if self.state.average is not None:
            self.state.average.update(self.model, progress.step)
        self.forecast.updated(self.budget.spent() - before, tokens)
        if progress.step % TRIM_EVERY == 0 and self._device.type == "cpu":
            return_freed_memory()
        if progress.step % LOG_EVERY == 0:
            self.recovery.read()
            self._report(rate)

    def save(self) -> None:
        """Write a checkpoint; those whose weights will be averaged are kept too."""
        assert self.recovery.all_read()
        return_freed_memory()  # a checkpoint is put together in memory
        last = self.config.average_last
        self.state.save(self.checkpoints, self.state.progress.validated_steps[-last:] if last else ())

    def _restore_or_begin(self) -> None:
        checkpoint = latest_checkpoint(self.checkpoints)
        if checkpoint is not None:
            self.state.restore(checkpoint)
            if not self.state.progress.finished:
                self.reporter.log.truncate_after(self.state.progress.step)
        else:
            self.state.set_seconds(0.0)
            torch.manual_seed(self.config.seed)
            self.reporter.log.truncate_after(0)
            # Also the place to go back to, and a disk that is too small shows now, not in ten minutes.
            self.save()

    def _rehearse(self) -> None:
        """Run the longest batch and discard its gradient: what does not fit into memory shows now, not after hours."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        self.model.train()
        with torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
            self.gradients([self.objective.batches.longest()])
        self.model.zero_grad()
        for buffer, before in buffers:
            buffer.copy_(before)

    def _groups(self) -> Generator[tuple[list[B], Cursor], None, None]:
        """Yield the batches of each update, with the cursor after them."""
        cursor = self.state.progress.cursor
        with closing(on_device(self.objective.batches.from_cursor(cursor), self._device)) as stream:
            while True:
                group = list(islice(stream, self.config.accumulate))
                yield [batch for batch, _ in group], group[-1][1]

    def _train_on(self, groups: Iterator[tuple[list[B], Cursor]], request: StopRequest) -> None:
        """Train until the run is finished, goes back to a checkpoint, or is to stop; it is saved then."""
        saved_at = time.monotonic()
        for batches, cursor in groups:
            self.update(batches)
            self.state.progress.cursor = cursor
            # Read once: a signal that comes later is handled after the next update.
            stop, validate = request.signal_number is not None, self.budget.validation_due()
            save = validate or stop or time.monotonic() - saved_at > self.checkpoint_seconds
            if save:
                self.recovery.read()
            if self.recovery.needed():
                self.recovery.roll_back()
                self.save()
                return
            if validate:
                self._validate(request)
            if save:
                self.save()
                saved_at = time.monotonic()
            if validate:
                self.forecast.validated()
            if stop or self.budget.finished():
                return

    def _validate(self, request: StopRequest) -> None:
        try:
            self.selection.validate(self.budget, request)
        except BrokenOff:
            # Before the validation: it is the first thing when the run goes on.
            self.save()
            raise

    def _report(self, rate: float) -> None:
        progress = self.state.progress
        figures = {
            "loss": progress.loss_sum / progress.tokens if progress.tokens else math.nan,
            "learning_rate": rate,
            "target_tokens": float(progress.tokens),
            "elapsed": self.state.seconds(),
        }
        spent, by_clock = self.budget.spent(), self.config.minutes is not None
        left = self.forecast.seconds_left(spent, self.budget.validations_left(), by_clock=by_clock)
        self.reporter.step(figures, spent, left)
        progress.loss_sum, progress.tokens = 0.0, 0

    def _outcome(self) -> Outcome:
        progress = self.state.progress
        assert progress.best is not None, "a run ends with a validation"
        return Outcome(
            progress.step,
            progress.best,
            progress.best_step,
            self.state.seconds(),
            self.budget.out_of_patience(),
            progress.skipped,
            progress.rollbacks,
        )
