"""Measure how the loss of language models on characters falls with parameters and compute, and predict a larger model.

    python benchmarks/scaling.py TEXT                 about 25 minutes on two cores
    python benchmarks/scaling.py TEXT --scale 0.02    a quick try

TEXT is a file such as tinyshakespeare's input.txt, of which the last tenth is held out. Models of nine sizes are
trained on the same number of tokens with the same settings. L = E + A / N^α is fitted to their last validation losses,
where N is the number of parameters without the embeddings; and L = E + A / C^α to the frontier of all their
validations, where C is the number of floating-point operations of the training so far: the validations with a lower
loss than every other at the same or less compute. The intervals are 95 %, by resampling the residuals. The frontier
lies above what trainings of every length would reach, since the learning rate is lowest at the end of a training.

Before the larger model is trained, both fits predict its loss. The last line is JSON and begins with the ratio of the
measured loss to the one predicted from the number of parameters.
"""

import argparse
import io
import json
import math
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from dragoman import __version__
from dragoman.models.config.language import LanguageConfig
from dragoman.run.flops import language_training_flops
from dragoman.run.plan import load_plan
from dragoman.run.train import train
from dragoman.training.events import read_events

Array = npt.NDArray[np.float64]

# Layers, width and heads: from about 15,000 to 2.2 million parameters. The last one is predicted.
SHAPES = (
    (2, 24, 2),
    (2, 32, 2),
    (2, 48, 3),
    (3, 48, 3),
    (3, 64, 2),
    (3, 96, 3),
    (4, 112, 4),
    (4, 144, 4),
    (5, 192, 6),
)
LARGER = (6, 256, 8)
CONTEXT, BATCH_TOKENS = 128, 4096
# Batches of a training: 3 million tokens, three epochs of tinyshakespeare.
UPDATES = 732
RESAMPLES = 2000
EXPONENTS = np.geomspace(0.02, 2, 400)


@dataclass(frozen=True)
class Model:
    """A trained model: parameters without embeddings, compute and loss of each validation, and seconds."""

    shape: str
    vocabulary: int
    parameters: int
    compute: list[float]
    losses: list[float]
    seconds: float

    @property
    def loss(self) -> float:
        return self.losses[-1]


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def interval(value: float, samples: Array) -> Interval:
    low, high = np.quantile(samples, (0.025, 0.975))
    return Interval(float(value), float(low), float(high))


class Fit:
    """The curve L = E + A / x^α through points, by least squares, and the same through resampled points.

    Args:
        x: parameters or compute.
        losses: loss of each.
    """

    def __init__(self, x: Sequence[float], losses: Sequence[float]) -> None:
        # A is the difference to E at the geometric mean of x, so that it and α depend less on each other.
        self.centre = float(np.exp(np.mean(np.log(x))))
        self.x, observed = np.asarray(x) / self.centre, np.asarray(losses)
        self.curve = fit_curves(self.x, observed[None])[0]
        fitted = values(self.curve[None], self.x)[0]
        # Three parameters are fitted, so the residuals are smaller than the errors.
        inflation = np.sqrt(len(observed) / max(1, len(observed) - 3))
        self.residuals = (observed - fitted) * inflation
        self.random = np.random.default_rng(1)
        self.resampled = fit_curves(self.x, fitted + self.random.choice(self.residuals, (RESAMPLES, len(observed))))

    def parameter(self, index: int) -> Interval:
        return interval(self.curve[index], self.resampled[:, index])

    def predict(self, x: float) -> Interval:
        """Return the loss of one more model: the interval contains the error of the curve and that of the model."""
        at = np.array([x / self.centre])
        samples = values(self.resampled, at)[:, 0] + self.random.choice(self.residuals, RESAMPLES)
        return interval(values(self.curve[None], at)[0, 0], samples)

    def band(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the curve and its 95 % band."""
        low, high = np.quantile(values(self.resampled, x / self.centre), (0.025, 0.975), axis=0)
        return values(self.curve[None], x / self.centre)[0], low, high

    def describe(self, name: str) -> str:
        return (
            f"L = E + A / ({name} / {self.centre:.3g})^α:   E {self.parameter(0)}   A {self.parameter(1)}   "
            f"α {self.parameter(2)}"
        )

    def to_json(self) -> dict[str, object]:
        names = ("E", "A", "alpha")
        return {"centre": self.centre, **{name: asdict(self.parameter(i)) for i, name in enumerate(names)}}


def values(curves: Array, x: Array) -> Array:
    """Return [S, P] losses of S curves at P places."""
    # [S, 3] -> 3 x [S, 1]
    level, factor, exponent = curves[:, :, None].transpose(1, 0, 2)
    return np.asarray(level + factor * x**-exponent)


def fit_curves(x: Array, losses: Array) -> Array:
    """Return [S, 3] the best E, A and α for S rows of losses, with E and A of at least 0.

    For a given α, E and A are a linear regression; α is the best of a grid.
    """
    best = np.full(len(losses), np.inf)
    curves = np.zeros((len(losses), 3))
    for exponent in EXPONENTS:
        power = x**-exponent
        centred = power - power.mean()
        factor = np.maximum(losses @ centred / (centred @ centred), 0)
        level = losses.mean(axis=1) - factor * power.mean()
        # Without E where it would be negative.
        alone = losses @ power / (power @ power)
        factor, level = np.where(level < 0, alone, factor), np.maximum(level, 0)
        error = ((losses - level[:, None] - factor[:, None] * power) ** 2).sum(axis=1)
        better = error < best
        best[better] = error[better]
        curves[better] = np.stack([level, factor, np.full(len(losses), exponent)], axis=1)[better]
    return curves


def model_settings(shape: tuple[int, int, int]) -> dict[str, Any]:
    layers, d_model, heads = shape
    sizes = {"layers": layers, "d_model": d_model, "heads": heads, "d_ff": 4 * d_model}
    return {**sizes, "activation": "gelu_tanh", "dropout": 0.0, "context": CONTEXT}


def parameters_of(config: LanguageConfig) -> int:
    """Return the number of parameters without the embeddings, which are also the output projection."""
    total = sum(math.prod(tensor.shape) for tensor in config.tensors())
    return total - config.vocabulary * config.d_model


def compute_of(config: LanguageConfig, updates: int) -> float:
    return float(updates) * language_training_flops(config, BATCH_TOKENS // CONTEXT, CONTEXT)


def trained(text: Path, shape: tuple[int, int, int], updates: int, seed: int) -> Model:
    """Train a model and return its validations."""
    settings: dict[str, Any] = {
        "task": "language",
        "tokenizer": {"kind": "character"},
        "batching": {"batch_tokens": BATCH_TOKENS},
        "model": model_settings(shape),
        "training": {"steps": updates, "validations": 6, "seed": seed},
    }
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nothing:
        out = Path(folder) / "model"
        result = train([str(text)], out, settings=settings, console=Console(file=nothing))
        config = load_plan(out / "run").model
        events = read_events(out / "run" / "log.jsonl")
    assert isinstance(config, LanguageConfig)
    validations = [event for event in events if event["event"] == "validation" and "average" not in event]
    return Model(
        config.shape(),
        config.vocabulary,
        parameters_of(config),
        [compute_of(config, int(str(event["step"]))) for event in validations],
        [float(str(event["loss"])) for event in validations],
        result.seconds,
    )


def frontier(models: Sequence[Model]) -> tuple[list[float], list[float]]:
    """Return compute and loss of the validations with a lower loss than all others at the same or less compute."""
    points = sorted(point for model in models for point in zip(model.compute, model.losses, strict=True))
    compute: list[float] = []
    losses: list[float] = []
    for at, loss in points:
        if not losses or loss < losses[-1]:
            compute.append(at)
            losses.append(loss)
    return compute, losses


def draw(models: Sequence[Model], larger: Model, by_parameters: Fit, by_compute: Fit, path: Path) -> None:
    """Draw both fits, the larger model and its predictions, and write the figure to `path`."""
    figure = Figure(figsize=(10, 4.4), dpi=130, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot([model.parameters for model in models], [model.loss for model in models], "o", color="#000000", ms=5)
    for model in (*models, larger):
        right.plot(model.compute, model.losses, "-", color="#bbbbbb", linewidth=0.8)
    right.plot(*frontier(models), "o", color="#000000", ms=4)
    smallest = models[0]
    draw_fit(left, by_parameters, smallest.parameters, larger.parameters, larger.loss)
    draw_fit(right, by_compute, min(frontier(models)[0]), larger.compute[-1], larger.loss)
    left.set(xlabel="parameters without embeddings", ylabel="validation loss (nats per character)")
    right.set(xlabel="floating-point operations of training")
    left.set_title("After the same number of tokens")
    right.set_title("Frontier of all validations")
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png.getvalue())


def draw_fit(axes: Axes, fit: Fit, first: float, last: float, measured: float) -> None:
    x = np.geomspace(first, last * 1.3, 100)
    curve, low, high = fit.band(x)
    axes.plot(x, curve, color="#0072B2", label="fit")
    axes.fill_between(x, low, high, color="#0072B2", alpha=0.15, linewidth=0, label="95 % of the fit")
    predicted = fit.predict(last)
    errors = [[max(predicted.value - predicted.low, 0)], [max(predicted.high - predicted.value, 0)]]
    axes.errorbar([last], [predicted.value], yerr=errors, fmt="_", color="#0072B2", capsize=4, label="predicted, 95 %")
    axes.plot([last], [measured], "*", color="#D55E00", ms=10, label="larger model, measured")
    axes.set_xscale("log")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def row(model: Model) -> str:
    return (
        f"{model.shape:<46}{model.parameters:>12,}{model.compute[-1]:>12.3g}{model.loss:>10.4f}{model.seconds:>10.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="number of updates, as a multiple of the full study's")
    parser.add_argument("--seed", type=int, default=1, help="seed of all trainings")
    parser.add_argument("--picture", type=Path, default=Path("docs/images/scaling.png"), help="where to write it")
    arguments = parser.parse_args()
    updates = max(6, round(arguments.scale * UPDATES))

    print(f"{updates:,} updates of {BATCH_TOKENS:,} tokens each, seed {arguments.seed}")
    print(f"{'model':<46}{'parameters':>12}{'operations':>12}{'loss':>10}{'seconds':>10}")
    models = []
    for shape in SHAPES:
        models.append(trained(arguments.text, shape, updates, arguments.seed))
        print(row(models[-1]), flush=True)
    by_parameters = Fit([model.parameters for model in models], [model.loss for model in models])
    by_compute = Fit(*frontier(models))
    print(by_parameters.describe("N"))
    print(by_compute.describe("C"))

    config = LanguageConfig(vocabulary=models[0].vocabulary, **model_settings(LARGER))
    predicted = by_parameters.predict(parameters_of(config))
    from_compute = by_compute.predict(compute_of(config, updates))
    print(f"predicted for {config.shape()}: {predicted} from N, {from_compute} from C", flush=True)
    larger = trained(arguments.text, LARGER, updates, arguments.seed)
    print(row(larger))
    draw(models, larger, by_parameters, by_compute, arguments.picture)
    print(
        f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{torch.get_num_threads()} threads"
    )
    print(
        json.dumps(
            {
                "ratio": round(larger.loss / predicted.value, 4),
                "measured": larger.loss,
                "predicted": asdict(predicted),
                "inside": larger.loss in predicted,
                "ratio_compute": round(larger.loss / from_compute.value, 4),
                "predicted_compute": asdict(from_compute),
                "inside_compute": larger.loss in from_compute,
                "by_parameters": by_parameters.to_json(),
                "by_compute": by_compute.to_json(),
                "models": [asdict(model) for model in (*models, larger)],
            }
        )
    )


if __name__ == "__main__":
    main()
