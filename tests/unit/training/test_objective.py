"""The training loop with another objective than translation: bigrams of an artificial language of six tokens."""

import json
import math
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor, nn

from dragoman.data.batching import Cursor
from dragoman.errors import SettingsError
from dragoman.training import metrics
from dragoman.training.checkpoint import latest_checkpoint, list_steps
from dragoman.training.config import TrainingConfig
from dragoman.training.display import Display
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.loop import Trainer
from dragoman.training.metrics import Metric
from dragoman.training.objective import BatchLoss
from dragoman.training.progress import TrainingResult
from dragoman.training.schedule import ScheduleConfig
from dragoman.training.stopping import TrainingStopped
from dragoman.training.validation import Sample, Validation

V = 6
ROWS, LENGTH = 4, 8
# Each token is followed by the next one, with this probability of an exception.
EXCEPTION = 0.1


class Bigrams(nn.Module):
    """A model that computes the logits of the next token from the previous token only."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, 16)
        self.hidden = nn.Linear(16, 16, bias=False)
        self.dropout = nn.Dropout(0.1)
        self.output = nn.Linear(16, V, bias=False)

    def forward(self, token: Tensor) -> Tensor:
        # [B, T] -> [B, T, V]
        return self.output(self.dropout(torch.tanh(self.hidden(self.embedding(token)))))


@dataclass(frozen=True)
class Lines:
    """Lines of text as ids [B, T]: no source, no target, no mask."""

    ids: Tensor

    def to(self, device: torch.device) -> "Lines":
        return Lines(self.ids.to(device))

    def pin_memory(self) -> "Lines":
        return Lines(self.ids.pin_memory())


def lines(seed: int, rows: int = ROWS) -> Lines:
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(V, (rows, 1), generator=draw)
    for _ in range(LENGTH):
        step = 1 + (torch.rand((rows, 1), generator=draw) < EXCEPTION).long()
        ids = torch.cat((ids, (ids[:, -1:] + step) % V), dim=1)
    return Lines(ids)


class LineStream:
    """A stream of batches that depend on the number of the cursor."""

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[Lines, Cursor]]:
        while True:
            following = Cursor(batch=cursor.batch + 1)
            yield lines(1000 + cursor.batch), following
            cursor = following

    def longest(self) -> Lines:
        return lines(0)


@dataclass(frozen=True)
class LanguageModelling:
    """The objective of predicting each token of a line from the previous one; its metric is the accuracy."""

    metrics: tuple[str, ...] = ("accuracy",)
    validation_tokens: int = 16 * LENGTH
    batches: LineStream = field(default_factory=LineStream)

    def loss(self, model: Bigrams, batch: Lines) -> BatchLoss:
        logits = model(batch.ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch.ids[:, 1:].flatten(), reduction="sum")
        return BatchLoss(loss, cost=1e-3 * logits.square().sum())

    def tokens(self, batch: Lines) -> int:
        return len(batch.ids) * LENGTH

    def size(self, batch: Lines) -> int:
        return batch.ids.numel()

    def split(self, batch: Lines, limit: float) -> Iterator[Lines]:
        rows = max(1, int(min(len(batch.ids), limit // (LENGTH + 1))))
        yield from map(Lines, batch.ids.split(rows))

    def describe(self, batch: Lines) -> str:
        return f"a single line of {LENGTH} tokens"

    @torch.no_grad()
    def validate(self, model: Bigrams) -> Validation:
        assert not model.training
        held_out = lines(1, rows=16)
        logits = model(held_out.ids[:, :-1])
        right = logits.argmax(-1) == held_out.ids[:, 1:]
        loss = float(self.loss(model, held_out).loss) / self.tokens(held_out)
        sample = Sample("0", "1", str(int(logits[0, 0].argmax())))
        return Validation(loss=loss, metrics={"accuracy": float(100 * right.float().mean())}, samples=(sample,))


ACCURACY = Metric(name="accuracy", label="accuracy", format=".1f", higher_is_better=True, width=9, unit=" %")
CONFIG = {"steps": 40, "validations": 4, "accumulate": 2, "ema_decay": 0.9, "average_last": 2, "best_by": "accuracy"}


@pytest.fixture(autouse=True)
def accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a metric to the table."""
    monkeypatch.setitem(metrics.METRICS, "accuracy", ACCURACY)


@dataclass
class Best:
    """Records the best weights of a run, and the steps and accuracies of all weights that were the best."""

    weights: dict[str, Tensor] = field(default_factory=dict)
    history: list[tuple[int, float]] = field(default_factory=list)

    def __call__(self, weights: dict[str, Tensor], step: int, validation: Validation) -> None:
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}
        self.history.append((step, validation["accuracy"]))


def trainer(
    directory: Path, best: Best, objective: LanguageModelling | None = None, **changes: Any
) -> Trainer[Bigrams, Lines]:
    directory.mkdir(exist_ok=True)
    config = TrainingConfig(**{**CONFIG, **changes})
    torch.manual_seed(config.seed)
    return Trainer(
        Bigrams(),
        objective or LanguageModelling(),
        config=config,
        schedule=ScheduleConfig(kind="linear", warmup=5, peak_learning_rate=0.02),
        d_model=16,
        precision="fp32",
        directory=directory,
        save_best=best,
        observers=[Display(Console(stderr=False, width=120, soft_wrap=True), "target tokens")],
    )


def run(directory: Path, **changes: Any) -> tuple[TrainingResult, Best]:
    best = Best()
    return trainer(directory, best, **changes).run(), best


def logged(directory: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in event.items() if key != "elapsed"} for event in events]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_training_selects_the_best_weights_by_the_metric_of_the_objective(
    optimizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, best = run(tmp_path / "run", optimizer=optimizer)
    assert result.steps == 40
    # Nine in ten tokens are predictable.
    assert result.best["accuracy"] > 80
    assert result.best.loss < 1.0 < math.log(V)
    assert best.history[-1] == (result.best_step, result.best["accuracy"])
    validations = [event for event in logged(tmp_path / "run") if event["event"] == "validation"]
    assert max(event["accuracy"] for event in validations) == result.best["accuracy"]
    assert list(validations[0]) == ["event", "step", "loss", "perplexity", "accuracy"]
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["update", "minutes", "loss", "perplexity", "accuracy"]
    assert shown[2].split()[1] == "→"
    assert result.best.sentence() == (
        f"accuracy {result.best['accuracy']:.1f} %, perplexity {result.best['perplexity']:.2f}"
    )
    newest = latest_checkpoint(tmp_path / "run/checkpoints")
    assert newest is not None
    assert newest.tensors.keys() >= {"model", "optimizer", "random", "average"}
    assert newest.state["position"]["best"]["accuracy"] == result.best["accuracy"]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path, optimizer: str) -> None:
    whole, best = run(tmp_path / "whole", optimizer=optimizer)
    for step in (7, 20, 39):
        stopping = trainer(tmp_path / "broken", Best(), optimizer=optimizer)
        stopping.update = partial(_update_then_stop, stopping, stopping.update, step)  # type: ignore[method-assign]
        with pytest.raises(TrainingStopped):
            stopping.run()
        assert list_steps(tmp_path / "broken/checkpoints")[-1] == step
    resumed, resumed_best = run(tmp_path / "broken", optimizer=optimizer)
    assert replace(resumed, seconds=0) == replace(whole, seconds=0)
    for name, tensor in load_file(tmp_path / "whole/checkpoints/step-00000040/model.safetensors").items():
        resumed_weights = load_file(tmp_path / "broken/checkpoints/step-00000040/model.safetensors")
        assert torch.equal(tensor, resumed_weights[name]), name
    assert logged(tmp_path / "whole") == logged(tmp_path / "broken")
    if resumed_best.history:  # after the last interruption
        assert all(torch.equal(tensor, resumed_best.weights[name]) for name, tensor in best.weights.items())


def _update_then_stop(
    trainer: Trainer[Bigrams, Lines], update: Callable[[list[Lines]], None], step: int, batches: list[Lines]
) -> None:
    update(batches)
    if trainer.state.progress.step == step:
        signal.raise_signal(signal.SIGTERM)


def test_a_batch_that_does_not_fit_into_memory_is_split_by_the_objective(tmp_path: Path) -> None:
    sizes = []

    class SmallMemory(LanguageModelling):
        def loss(self, model: Bigrams, batch: Lines) -> BatchLoss:
            if model.training:
                if self.size(batch) > 2 * (LENGTH + 1):
                    raise torch.OutOfMemoryError("too much")
                sizes.append(self.size(batch))
            return super().loss(model, batch)

    result = trainer(tmp_path / "run", Best(), SmallMemory()).run()
    assert result.steps == 40
    assert set(sizes) == {2 * (LENGTH + 1)}

    class NoMemory(LanguageModelling):
        def loss(self, model: Bigrams, batch: Lines) -> BatchLoss:
            raise torch.OutOfMemoryError("too much")

    with pytest.raises(SettingsError, match="a single line of 8 tokens does not fit into memory"):
        trainer(tmp_path / "none", Best(), NoMemory()).run()


def test_a_metric_that_the_objective_does_not_measure_cannot_select_models(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"best_by is 'bleu', which is not measured here: .*'loss', 'accuracy'"):
        trainer(tmp_path / "run", Best(), best_by="bleu")


def test_the_reported_loss_excludes_the_cost_of_the_model() -> None:
    torch.manual_seed(1)
    model, objective, batches = Bigrams().eval(), LanguageModelling(), [lines(3), lines(4)]
    total, tokens = accumulate_gradients(model, batches, objective, "fp32", torch.device("cpu"))
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    losses = [objective.loss(model, batch) for batch in batches]
    sum((loss.loss + loss.cost) / tokens for loss in losses).backward()  # type: ignore[union-attr]
    torch.testing.assert_close(gradients, [parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(total, sum(loss.loss.detach() for loss in losses))
    assert all(loss.cost.detach() > 0 for loss in losses)


def test_checkpoint_seconds_and_read_every(tmp_path: Path) -> None:
    saves: list[int] = []

    class Counting(Trainer[Bigrams, Lines]):
        def save(self) -> None:
            super().save()
            saves.append(self.state.progress.step)

    def steps_saved(**arguments: Any) -> list[int]:
        saves.clear()
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        torch.manual_seed(1)
        Counting(
            Bigrams(),
            LanguageModelling(),
            config=TrainingConfig(steps=6, validations=1, best_by="loss"),
            schedule=ScheduleConfig(kind="constant", warmup=0, peak_learning_rate=0.01),
            d_model=16,
            precision="fp32",
            directory=directory,
            save_best=Best(),
            **arguments,
        ).run()
        return list(saves)

    # The first checkpoint is before the first update, the last one is of the finished run.
    assert steps_saved() == [0, 6, 6]
    assert steps_saved(checkpoint_seconds=-1.0, read_every=4) == [0, 1, 2, 3, 4, 5, 6, 6]
