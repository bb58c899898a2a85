"""The training loop: updates, validations and checkpoints; a resumed run is identical bit for bit on the CPU."""

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
from dragoman.training.forecast import Forecast
from dragoman.training.gradient_accumulator import GradientAccumulator
from dragoman.training.metrics import LOSS
from dragoman.training.objective import B, M, Objective
from dragoman.training.optimizers.table import OPTIMIZERS
from dragoman.training.prefetch import on_device
from dragoman.training.progress import RunState, TrainingResult
from dragoman.training.recovery import Recovery, Update
from dragoman.training.reporting import Observer, Reporter
from dragoman.training.schedule import ScheduleConfig, learning_rate
from dragoman.training.selection import ModelSelection, SaveBest
from dragoman.training.stopping import StopRequest, TrainingStopped, WorkInterrupted, catch_stop_signals

LOG_EVERY = 10
# Updates after which freed memory is returned to the system: batches of different lengths fragment memory, which adds
# about half of what is in use.
TRIM_EVERY = 20
CHECKPOINT_SECONDS = 600


class Trainer(Generic[M, B]):
    """Trains one model in one directory; resumes from the last checkpoint if there is one.

    Args:
        model: the model, on its device.
        objective: provides the batches, their loss, and the validations.
        config: settings of training.
        schedule: settings of the learning rate.
        d_model: width of the model, for the paper's schedule.
        precision: precision of the forward pass, see `device.select_precision`.
        directory: directory for checkpoints/ and log.jsonl.
        save_best: called with the weights after each validation that is the best so far.
        observers: receive every log event.
        read_every: number of updates after which their losses are read from the device. Defaults to 1 on a CPU and to
            `LOG_EVERY` on a GPU, which would be idle while a loss is read.
        checkpoint_seconds: longest time between two checkpoints.

    Raises:
        SettingsError: if the objective does not measure `config.best_by`.
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
        save_best: SaveBest,
        observers: Sequence[Observer] = (),
        read_every: int | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        if config.best_by not in (LOSS.name, *objective.metrics):
            measured = ", ".join(map(repr, (LOSS.name, *objective.metrics)))
            raise SettingsError(
                f"training.best_by is {config.best_by!r}, which is not measured here: use one of {measured}"
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
        self.gradients = GradientAccumulator(model, objective, precision, self._device, self.reporter.warn)
        read_every = read_every or (1 if self._device.type == "cpu" else LOG_EVERY)
        self.recovery = Recovery(self.state, self.checkpoints, self.reporter, read_every)
        self.selection = ModelSelection(model, objective, self.state, config.best_by, save_best, self.reporter)
        self.forecast = Forecast(objective.validation_tokens)

    def run(self) -> TrainingResult:
        """Train until the budget is spent or the patience is exhausted.

        Raises:
            TrainingStopped: after SIGINT or SIGTERM. The state is saved, and calling `run` again resumes from it.
            UserError: if the loss is repeatedly not finite, a checkpoint cannot be written, or a single example does
                not fit into memory.
        """
        with catch_stop_signals() as request:
            with suppress(WorkInterrupted):
                self._run(request)
            if request.signal_number is not None:
                raise TrainingStopped(request.signal_number, self.state.progress.step)
        return self._result()

    def _run(self, request: StopRequest) -> None:
        self._restore_or_start()
        if not self.budget.finished():
            self._try_longest_batch()
            if self.budget.validation_due():
                # The validation was interrupted by a signal.
                self._validate(request)
                self.save()
        while not self.budget.finished() and request.signal_number is None:
            # A rollback moves the cursor, so the stream of batches is opened again after it.
            with closing(self._updates()) as updates:
                self._train_on(updates, request)
        if request.signal_number is None and not self.state.progress.finished:
            self.selection.validate_average_of_last(self.checkpoints, self.config.average_last, request)
            self.state.progress.finished = True
            self.save()

    def update(self, batches: Sequence[B]) -> None:
        """Make one update with the mean gradient of all batches."""
        progress, before = self.state.progress, self.budget.fraction_spent()
        progress.step += 1
        self.model.train()
        spent = self.budget.fraction_spent()
        rate = learning_rate(self.schedule, self.d_model, progress.step, spent) / 2**progress.rollbacks
        self.model.zero_grad()
        loss, tokens = self.gradients(batches)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm or math.inf)
        self.state.optimizers.step(rate, loss.isfinite() & norm.isfinite())
        self.recovery.record_update(Update(progress.step, loss, norm, tokens))
        if self.state.average is not None:
            self.state.average.update(self.model, progress.step)
        self.forecast.record_update(self.budget.fraction_spent() - before, tokens)
        if progress.step % TRIM_EVERY == 0 and self._device.type == "cpu":
            return_freed_memory()
        if progress.step % LOG_EVERY == 0:
            self.recovery.read_pending()
            self._report(rate)

    def save(self) -> None:
        """Write a checkpoint; keep the earlier ones whose weights will be averaged at the end."""
        assert self.recovery.nothing_pending()
        return_freed_memory()  # a checkpoint is assembled in memory
        last = self.config.average_last
        self.state.save(self.checkpoints, self.state.progress.validated_steps[-last:] if last else ())

    def _restore_or_start(self) -> None:
        checkpoint = latest_checkpoint(self.checkpoints)
        if checkpoint is not None:
            self.state.restore(checkpoint)
            if not self.state.progress.finished:
                self.reporter.log.truncate_after(self.state.progress.step)
        else:
            self.state.set_seconds(0.0)
            torch.manual_seed(self.config.seed)
            self.reporter.log.truncate_after(0)
            # A rollback may need this checkpoint, and a disk that is too small is reported before training starts.
            self.save()

    def _try_longest_batch(self) -> None:
        """Compute and discard the gradient of the longest batch, so that a lack of memory is found before training."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        self.model.train()
        with torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
            self.gradients([self.objective.batches.longest()])
        self.model.zero_grad()
        for buffer, before in buffers:
            buffer.copy_(before)

    def _updates(self) -> Generator[tuple[list[B], Cursor], None, None]:
        """Yield the batches of each update, with the cursor after them."""
        cursor = self.state.progress.cursor
        with closing(on_device(self.objective.batches.from_cursor(cursor), self._device)) as stream:
            while True:
                group = list(islice(stream, self.config.accumulate))
                yield [batch for batch, _ in group], group[-1][1]

    def _train_on(self, updates: Iterator[tuple[list[B], Cursor]], request: StopRequest) -> None:
        """Train until the run is finished, is rolled back, or receives a stop signal; then save it."""
        saved_at = time.monotonic()
        for batches, cursor in updates:
            self.update(batches)
            self.state.progress.cursor = cursor
            # Read only once: a signal that arrives later is handled after the next update.
            stop, validate = request.signal_number is not None, self.budget.validation_due()
            save = validate or stop or time.monotonic() - saved_at > self.checkpoint_seconds
            if save:
                self.recovery.read_pending()
            if self.recovery.rollback_needed():
                self.recovery.roll_back()
                self.save()
                return
            if validate:
                self._validate(request)
            if save:
                self.save()
                saved_at = time.monotonic()
            if validate:
                self.forecast.record_validation()
            if stop or self.budget.finished():
                return

    def _validate(self, request: StopRequest) -> None:
        try:
            self.selection.validate(self.budget, request)
        except WorkInterrupted:
            # Saved in the state before the validation, which a resumed run makes first.
            self.save()
            raise

    def _report(self, rate: float) -> None:
        progress = self.state.progress
        values = {
            "loss": progress.loss_sum / progress.tokens if progress.tokens else math.nan,
            "learning_rate": rate,
            "target_tokens": float(progress.tokens),
            "elapsed": self.state.seconds(),
        }
        spent, by_clock = self.budget.fraction_spent(), self.config.minutes is not None
        left = self.forecast.seconds_left(spent, self.budget.validations_left(), by_clock=by_clock)
        self.reporter.report_step(values, spent, left)
        progress.loss_sum, progress.tokens = 0.0, 0

    def _result(self) -> TrainingResult:
        progress = self.state.progress
        assert progress.best is not None, "a run ends with a validation"
        return TrainingResult(
            progress.step,
            progress.best,
            progress.best_step,
            self.state.seconds(),
            self.budget.out_of_patience(),
            progress.skipped,
            progress.rollbacks,
        )
