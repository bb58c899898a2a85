"""Definition and result of a trial: one variant that is trained with one budget and measured."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import StorageError
from dragoman.files import read_json_object
from dragoman.settings import from_mapping
from dragoman.training.events import Event, number_of, step_of
from dragoman.training.metrics import METRICS

RESULT_FILE = "comparison.json"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Definition of a trial.

    Attributes:
        name: name of the variant.
        corpora: corpora to train on.
        validation: corpus to validate on.
        test: corpus on which the model is evaluated; None: the validation pairs.
        directory: the model directory, which also receives the result.
        settings: settings of the run.
    """

    name: str
    corpora: tuple[str, ...]
    validation: str | None
    test: str | None
    directory: Path
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a learning curve: a validation.

    Attributes:
        updates: updates before it.
        seconds: time spent on training before it, including validations.
        tokens: tokens predicted in training before it; in translation, target tokens.
        metrics: metrics of the validation, the loss included, by their names in `training.metrics.METRICS`.
    """

    updates: int
    seconds: float
    tokens: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Result of a trained model on the test set; what is measured depends on the task, see `StudyTask`.

    Attributes:
        metrics: the measured metrics, by their names in `training.metrics.METRICS`.
        tokens_per_second: tokens of the test set that the torch engine decodes or evaluates per second.
        method: how the metrics were measured.
    """

    metrics: Mapping[str, float]
    tokens_per_second: float
    method: str


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """Result of a trial.

    Attributes:
        name: name of the variant.
        architecture: architecture of the model.
        shape: description of its sizes.
        parameters: number of parameters.
        updates: updates made.
        seconds: time spent on training, including validations.
        tokens: tokens predicted in training; in translation, target tokens.
        training_tokens_per_second: these tokens per second, the median over intervals without a validation.
        peak_megabytes: largest memory use during training, in units of 2^20 bytes.
        test: result on the test set.
        curve: the learning curve.
    """

    name: str
    architecture: str
    shape: str
    parameters: int
    updates: int
    seconds: float
    tokens: int
    training_tokens_per_second: float
    peak_megabytes: float
    test: Measurement
    curve: tuple[Point, ...]


def load_result(directory: Path) -> TrialResult | None:
    """Return the saved result of a trial; None if the trial is not finished.

    Raises:
        StorageError: if the file is damaged.
    """
    path = directory / RESULT_FILE
    if not path.exists():
        return None
    advice = "remove it to measure the model again"
    mapping = read_json_object(path, missing=f"{path} is missing", error=StorageError, advice=advice)
    return from_mapping(TrialResult, mapping, str(path), error=StorageError)


def learning_curve(events: Sequence[Event]) -> tuple[Point, ...]:
    """Return the validations of a log in order, each with the tokens trained on before it."""
    tokens, points = 0.0, []
    for event in events:
        if event["event"] == "step":
            tokens += number_of(event, "target_tokens")
        elif event["event"] == "validation" and "average" not in event:
            points.append(
                Point(
                    updates=int(step_of(event)),
                    seconds=number_of(event, "elapsed"),
                    tokens=int(tokens),
                    metrics={name: number_of(event, name) for name in METRICS if name in event},
                )
            )
    return tuple(points)


def training_speed(events: Sequence[Event]) -> float:
    """Return the tokens predicted per second in training.

    This is the median over the intervals between two consecutive "step" events of the log, so that intervals with a
    validation are left out.
    """
    speeds: list[float] = []
    previous: float | None = None
    for event in events:
        if event["event"] != "step":
            previous = None
            continue
        elapsed = number_of(event, "elapsed")
        if previous is not None and elapsed > previous:
            speeds.append(number_of(event, "target_tokens") / (elapsed - previous))
        previous = elapsed
    return statistics.median(speeds) if speeds else 0.0
