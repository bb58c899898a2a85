"""The training loop: one update after another, validated, saved, resumable bit for bit on the CPU."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from dragoman.data.batching import Batch, Cursor
from dragoman.device import Precision, return_freed_memory
from dragoman.errors import UserError
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.storage import set_weights, weights_of
from dragoman.training.averaging import MovingAverage
from dragoman.training.checkpoint import average_states, checkpoint_path, latest_checkpoint, load_checkpoint
from dragoman.training.config import TrainingConfig
from dragoman.training.events import EventLog
from dragoman.training.fitting import FittingGradients
from dragoman.training.forecast import Forecast
from dragoman.training.optimizers import build_optimizers
from dragoman.training.prefetch import on_device
from dragoman.training.progress import Outcome, Position, Validation
from dragoman.training.saving import TrainingState
from dragoman.training.schedule import ScheduleConfig, learning_rate
from dragoman.training.stopping import Stopped, StopRequest, stop_requests
from dragoman.training.stream import BatchStream

LOG_EVERY = 10
# Batches of all lengths leave holes in memory, half as much again as what is in use.
TRIM_EVERY = 20
CHECKPOINT_SECONDS = 600
# So many updates in a row that are not finite go back to the last checkpoint, and so many times at most.
BAD_IN_A_ROW, MAX_ROLLBACKS = 3, 10


@dataclass(frozen=True)
class _Update:
    """An update whose figures have not been read."""

    step: int
    loss: Tensor
    norm: Tensor
    tokens: int


class Observer(Protocol):
    """Who wants to hear how training goes: the live display, TensorBoard."""

    def step(self, step: int, progress: float, figures: dict[str, float], seconds_left: float | None) -> None:
        """Hear of LOG_EVERY more updates, and how long the run will still take if that is known."""

    def validation(self, step: int, seconds: float, validation: Validation, best: bool) -> None:
        """Hear of a validation, so many seconds of training into the run."""

    def trouble(self, step: int, message: str) -> None:
        """Hear of something that went wrong and was dealt with."""


def read_every(device: torch.device) -> int:
    """After how many updates to ask how they went: a CPU knows at once, a GPU would stand still after each."""
    return 1 if device.type == "cpu" else LOG_EVERY


class Trainer:
    """Trains one model in one directory, from its last checkpoint if there is one.

    Args:
        model: on its device already.
        stream: the training batches.
        config, schedule: how to train.
        d_model: the model's width, for the paper's schedule.
        precision: as `choose_precision` says.
        directory: takes checkpoints/ and log.jsonl.
        validate: measures a model; called in evaluation mode.
        keep_best: called with the weights whenever a validation is the best so far.
        observers: hear of every log line.
        validation_tokens: what a validation translates, for the forecast of the time left.
    """

    def __init__(
        self,
        model: Seq2Seq,
        stream: BatchStream,
        *,
        config: TrainingConfig,
        schedule: ScheduleConfig,
        d_model: int,
        precision: Precision,
        directory: Path,
        validate: Callable[[Seq2Seq], Validation],
        keep_best: Callable[[dict[str, Tensor], int, Validation], None],
        observers: Sequence[Observer] = (),
        validation_tokens: int = 0,
    ) -> None:
        self.model = model
        self.stream = stream
        self.config = config
        self.schedule = schedule
        self.d_model = d_model
        self.checkpoints = directory / "checkpoints"
        self.log = EventLog(directory / "log.jsonl")
        self.validate = validate
        self.keep_best = keep_best
        self.observers = observers
        self.optimizers = build_optimizers(model, config, precision)
        self.average = MovingAverage(model, config.ema_decay) if config.ema_decay > 0 else None
        self.state = TrainingState(self.checkpoints, model, self.optimizers, self.average)
        self.position = Position()
        self._device = next(model.parameters()).device
        self.gradients = FittingGradients(model, config.label_smoothing, precision, self._device, self._tell)
        self.forecast = Forecast(validation_tokens)
        self._read_every = read_every(self._device)
        self._unread: list[_Update] = []
        self._clock = time.monotonic()

    def run(self) -> Outcome:
        """Train until the budget is spent or patience is, and return how it went.

        Raises:
            Stopped: after SIGINT or SIGTERM; everything is saved, `run` again goes on.
            UserError: when the loss is not finite time and again, a checkpoint cannot be written, or a single
                pair does not fit into memory.
        """
        checkpoint = latest_checkpoint(self.checkpoints)
        self._clock = time.monotonic()
        if checkpoint is not None:
            self.position = self.state.restore(checkpoint)
            if not self.position.finished:
                self.log.truncate_after(self.position.step)
        else:
            torch.manual_seed(self.config.seed)
            self.log.truncate_after(0)
            # Also the place to go back to, and a disk that is too small shows now, not in ten minutes.
            self._save()
        with stop_requests() as request:
            if not self._finished():
                self._rehearse()
            while not self._finished():
                # Anew after a rollback, which moves the cursor.
                with closing(self._updates()) as updates:
                    self._train_on(updates, request)
        position = self.position
        if not position.finished:
            self._try_average_of_last()
            position.finished = True
            self._save()
        assert position.best is not None, "a run ends with a validation"
        return Outcome(
            position.step,
            position.best,
            position.best_step,
            self._seconds(),
            self._out_of_patience(),
            position.skipped,
            position.rollbacks,
        )

    def _train_on(self, updates: Iterator[tuple[list[Batch], Cursor]], request: StopRequest) -> None:
        """Train until the run is finished, or goes back to a checkpoint."""
        saved_at = time.monotonic()
        for batches, cursor in updates:
            self._update(batches)
            self.position.cursor = cursor
            # Looked at once: a signal that comes later is heeded after the next update.
            signal, validate = request.signal_number, self._validation_due()
            save = signal is not None or time.monotonic() - saved_at > CHECKPOINT_SECONDS
            if validate or save:
                self._read_updates()
            if self.position.bad_in_a_row >= BAD_IN_A_ROW:
                self._roll_back()
                return
            if validate:
                self._validate()
                self._save()
                self.forecast.validated()
                saved_at = time.monotonic()
            elif save:
                self._save()
                saved_at = time.monotonic()
            if signal is not None:
                raise Stopped(signal, self.position.step)
            if self._finished():
                return

    def _rehearse(self) -> None:
        """Run the longest batch first, for nothing: what does not fit into memory shows now, not after hours."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        self.model.train()
        with torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
            self.gradients([self.stream.longest()])
        self.model.zero_grad()
        for buffer, before in buffers:
            buffer.copy_(before)

    def _updates(self) -> Generator[tuple[list[Batch], Cursor], None, None]:
        with closing(on_device(self.stream.from_cursor(self.position.cursor), self._device)) as stream:
            while True:
                group = list(islice(stream, self.config.accumulate))
                yield [batch for batch, _ in group], group[-1][1]

    def _update(self, batches: Sequence[Batch]) -> None:
        config, position = self.config, self.position
        before = self._progress()
        position.step += 1
        self.model.train()
        rate = learning_rate(self.schedule, self.d_model, position.step, self._progress()) / 2**position.rollbacks
        self.model.zero_grad()
        loss, tokens = self.gradients(batches)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm or math.inf)
        self.optimizers.step(rate, loss.isfinite() & norm.isfinite())
        self._unread.append(_Update(position.step, loss, norm, tokens))
        if len(self._unread) == self._read_every:
            self._read_updates()
        if self.average is not None:
            self.average.update(self.model, position.step)
        self.forecast.updated(self._progress() - before, tokens)
        if position.step % TRIM_EVERY == 0 and self._device.type == "cpu":
            return_freed_memory()
        if position.step % LOG_EVERY == 0:
            self._read_updates()
            self._report(rate)

    def _read_updates(self) -> None:
        """Learn how the updates since the last time went. On a GPU, this waits for them: not in every update."""
        if not self._unread:
            return
        updates, self._unread = self._unread, []
        figures = torch.stack([torch.stack((update.loss, update.norm)).float() for update in updates]).tolist()
        position = self.position
        for update, (loss, norm) in zip(updates, figures, strict=True):
            if math.isfinite(loss) and math.isfinite(norm):
                position.loss_sum += loss
                position.tokens += update.tokens
                position.bad_in_a_row = 0
                continue
            position.skipped += 1
            position.bad_in_a_row += 1
            self._trouble(
                "skipped", update.step, f"loss {loss:g}, norm of the gradient {norm:g}: the update is not applied"
            )
            if position.bad_in_a_row >= BAD_IN_A_ROW:
                return

    def _report(self, rate: float) -> None:
        position, seconds = self.position, self._seconds()
        figures = {
            "loss": position.loss_sum / position.tokens if position.tokens else math.nan,
            "learning_rate": rate,
            "target_tokens": float(position.tokens),
            "elapsed": seconds,
        }
        self.log.append({"event": "step", "step": position.step, **figures})
        left = self.forecast.seconds_left(
            self._progress(),
            self.config.validations - position.validations,
            by_clock=self.config.minutes is not None,
        )
        for observer in self.observers:
            observer.step(position.step, self._progress(), figures, left)
        position.loss_sum, position.tokens = 0.0, 0

    def _roll_back(self) -> None:
        """Go back to the last checkpoint, with half the learning rate."""
        failed, rollbacks = self.position.step, self.position.rollbacks + 1
        skipped, seconds = self.position.skipped, self._seconds()
        if rollbacks > MAX_ROLLBACKS:
            raise UserError(
                f"after {MAX_ROLLBACKS} returns to a checkpoint, each with half the learning rate, the loss is still "
                f"not finite at update {failed}: train in training.precision = 'fp32', lower "
                "schedule.peak_learning_rate, or look for damaged pairs (dragoman corpus stats); "
                "the checkpoints are good, and the model is the best so far"
            )
        checkpoint = latest_checkpoint(self.checkpoints)
        assert checkpoint is not None, "the first one is written before the first update"
        self.position, self._unread = self.state.restore(checkpoint), []
        position = self.position
        # The time is spent all the same, or a budget of minutes would never end.
        position.seconds, self._clock = seconds, time.monotonic()
        position.rollbacks, position.skipped, position.bad_in_a_row = rollbacks, skipped, 0
        self.log.truncate_after(position.step)
        self._trouble(
            "rollback",
            position.step,
            f"{BAD_IN_A_ROW} updates in a row were not finite, the last of them {failed}: back to update "
            f"{position.step}, with {1 / 2**rollbacks:g} of the learning rate",
        )
        self._save()

    def _trouble(self, event: str, step: int, message: str) -> None:
        self.log.append({"event": event, "step": step, "message": message})
        self._tell(message)

    def _tell(self, message: str) -> None:
        for observer in self.observers:
            observer.trouble(self.position.step, message)

    # The budget, and what hangs on it.

    def _seconds(self) -> float:
        return self.position.seconds + time.monotonic() - self._clock

    def _progress(self) -> float:
        """The share of the budget that is spent, 0 to 1."""
        if self.config.steps is not None:
            return min(self.position.step / self.config.steps, 1.0)
        assert self.config.minutes is not None
        return min(self._seconds() / (60 * self.config.minutes), 1.0)

    def _out_of_patience(self) -> bool:
        return 0 < self.config.patience <= self.position.since_best

    def _finished(self) -> bool:
        # Every run ends with a validation, so that the last weights have been looked at.
        return self._out_of_patience() or self.position.validations >= self.config.validations

    def _validation_due(self) -> bool:
        return self._progress() * self.config.validations >= self.position.validations + 1

    def _validate(self) -> None:
        config, position = self.config, self.position
        self.model.eval()
        if self.average is None:
            validation, weights = self.validate(self.model), weights_of(self.model)
        else:
            with self.average.swapped_in(self.model):
                validation = self.validate(self.model)
            weights = self.average.weights
        # Wall clock may have passed several marks at once: they count as this one.
        position.validations = max(position.validations + 1, int(self._progress() * config.validations))
        position.validated_steps += (position.step,)
        self._consider(validation, weights)

    def _consider(self, validation: Validation, weights: dict[str, Tensor], *, of_average: bool = False) -> None:
        """Keep the weights if they are the best so far, and tell everyone."""
        position = self.position
        best = validation.better_than(position.best, self.config.best_by)
        if best:
            # Before the checkpoint that says so: if we die between them, the same is done again.
            self.keep_best(weights, position.step, validation)
            position.best, position.best_step, position.since_best = validation, position.step, 0
        else:
            position.since_best += 1
        self.log.append(
            {
                "event": "validation",
                "step": position.step,
                "loss": validation.loss,
                "perplexity": validation.perplexity,
                "bleu": validation.bleu,
                "chrf": validation.chrf,
                "exact_match": validation.exact_match,
                "elapsed": self._seconds(),
                **validation.figures_to_json(),
                **({"average": True} if of_average else {}),
            }
        )
        for observer in self.observers:
            observer.validation(position.step, self._seconds(), validation, best)

    def _try_average_of_last(self) -> None:
        steps = self.position.validated_steps[-self.config.average_last :]
        if self.config.average_last < 2 or len(steps) < 2:
            return
        paths = [checkpoint_path(self.checkpoints, step) for step in steps]
        average = average_states(load_checkpoint(path).tensors["model"] for path in paths)
        own = {name: tensor.clone() for name, tensor in weights_of(self.model).items()}
        set_weights(self.model, average, "the average of the last checkpoints")
        self.model.eval()
        self._consider(self.validate(self.model), weights_of(self.model), of_average=True)
        set_weights(self.model, own, "the last weights")

    def _save(self) -> None:
        assert not self._unread
        return_freed_memory()  # a checkpoint is put together in memory
        self.position.seconds, self._clock = self._seconds(), time.monotonic()
        kept = self.position.validated_steps[-self.config.average_last :] if self.config.average_last else ()
        self.state.save(self.position, kept)
