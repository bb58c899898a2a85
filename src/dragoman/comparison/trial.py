"""One variant under one budget: trained, measured, and its figures kept beside the model."""

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.device import peak_memory
from dragoman.errors import StorageError
from dragoman.evaluation.metrics import bleu_tokenizer_for, translation_metrics
from dragoman.files import read_json_object, write_atomically
from dragoman.run.plan import load_plan
from dragoman.run.preparation import VALIDATION_TEXT, validation_sample
from dragoman.run.train import train
from dragoman.search.config import SearchConfig
from dragoman.settings import from_mapping, to_mapping
from dragoman.training.events import Event, number_of, read_events, step_of
from dragoman.translation.translator import Translator

RESULT_FILE = "comparison.json"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is to be run.

    directory   takes the model, and its figures at last
    settings    of the run, every choice made that the study makes
    test        corpus to score the model on; None: the validation pairs
    """

    name: str
    corpora: tuple[str, ...]
    validation: str | None
    test: str | None
    directory: Path
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A validation: after so many updates, seconds and target tokens; loss in nats per token."""

    updates: int
    seconds: float
    target_tokens: int
    loss: float
    bleu: float


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """What a trial came to.

    seconds                 of training, validations included
    target_tokens           trained on
    training_tokens_per_second   target tokens, the median over stretches without a validation
    decoding_tokens_per_second   target subwords of the test set, with a beam of 4, in torch
    peak_megabytes          of memory, in training (2^20 bytes)
    bleu, chrf, signature   of the test set, with a beam of 4
    """

    name: str
    architecture: str
    shape: str
    parameters: int
    updates: int
    seconds: float
    target_tokens: int
    training_tokens_per_second: float
    decoding_tokens_per_second: float
    peak_megabytes: float
    bleu: float
    chrf: float
    signature: str
    curve: tuple[Point, ...]


def find_result(directory: Path) -> TrialResult | None:
    """The figures that an earlier call left; None when the trial has not been finished.

    Raises:
        StorageError: when the file is damaged.
    """
    path = directory / RESULT_FILE
    if not path.exists():
        return None
    advice = "remove it, and the model is measured again"
    mapping = read_json_object(path, missing=f"{path} is missing", error=StorageError, advice=advice)
    return from_mapping(TrialResult, mapping, str(path), error=StorageError)


def run_trial(trial: Trial) -> None:
    """Train (or go on training), measure, and write the figures.

    Raises:
        UserError: as `train` does.
        Stopped: on a signal, after saving; the same call goes on.
    """
    train(
        trial.corpora,
        trial.directory,
        validation=trial.validation,
        settings=trial.settings,
        console=Console(stderr=True, soft_wrap=True),
    )
    # Before decoding, which holds other things.
    peak = peak_memory() / 2**20
    plan = load_plan(trial.directory / "run")
    pairs = _test_pairs(trial, plan.validation_pairs, plan.config.data.validation_pairs)
    translator = Translator.load(trial.directory, engine="torch", device=plan.config.training.device)
    began = time.monotonic()
    found = translator.translate([pair.source for pair in pairs], search=SearchConfig(beam=4))
    seconds = time.monotonic() - began
    translations = [each.text for each in found]
    scores = translation_metrics(
        translations,
        [pair.target for pair in pairs],
        tokenize=bleu_tokenizer_for(plan.config.target_language),
    )
    events = read_events(trial.directory / "run" / "log.jsonl")
    curve = learning_curve(events)
    result = TrialResult(
        name=trial.name,
        architecture=plan.config.architecture,
        shape=plan.model.shape(),
        parameters=json.loads((trial.directory / "metrics.json").read_text(encoding="utf-8"))["parameters"],
        updates=curve[-1].updates,
        seconds=curve[-1].seconds,
        target_tokens=curve[-1].target_tokens,
        training_tokens_per_second=training_speed(events),
        decoding_tokens_per_second=sum(map(len, translator.tokenizer.encode_target(translations))) / seconds,
        peak_megabytes=peak,
        bleu=scores.bleu,
        chrf=scores.chrf,
        signature=scores.signatures["bleu"],
        curve=curve,
    )
    write_atomically(trial.directory / RESULT_FILE, (json.dumps(to_mapping(result), indent=2) + "\n").encode())


def learning_curve(events: Sequence[Event]) -> tuple[Point, ...]:
    """The validations of a log, in order, each with the target tokens trained on until then."""
    tokens, points = 0.0, []
    for event in events:
        if event["event"] == "step":
            tokens += number_of(event, "target_tokens")
        elif event["event"] == "validation" and "average" not in event:
            points.append(
                Point(
                    updates=int(step_of(event)),
                    seconds=number_of(event, "elapsed"),
                    target_tokens=int(tokens),
                    loss=number_of(event, "loss"),
                    bleu=number_of(event, "bleu"),
                )
            )
    return tuple(points)


def training_speed(events: Sequence[Event]) -> float:
    """Target tokens a second: the median over the stretches between two entries with no validation between them."""
    speeds: list[float] = []
    before: float | None = None
    for event in events:
        if event["event"] != "step":
            before = None
            continue
        elapsed = number_of(event, "elapsed")
        if before is not None and elapsed > before:
            speeds.append(number_of(event, "target_tokens") / (elapsed - before))
        before = elapsed
    return statistics.median(speeds) if speeds else 0.0


def _test_pairs(trial: Trial, validation_pairs: int, limit: int) -> list[Pair]:
    if trial.test is not None:
        return list(read_pairs(parse_corpus(trial.test)))
    return validation_sample(trial.directory / "run" / "text" / VALIDATION_TEXT, validation_pairs, limit)
