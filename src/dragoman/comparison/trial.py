"""A trial: one variant is trained with one budget and measured, and its result is saved beside the model."""

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
from dragoman.run.tasks.translation import translation_config
from dragoman.run.train import train
from dragoman.search.config import SearchConfig
from dragoman.settings import from_mapping, to_mapping
from dragoman.training.events import Event, number_of, read_events, step_of
from dragoman.translation.translator import Translator

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
        target_tokens: target tokens trained on before it.
        loss: validation loss in nats per token.
        bleu: validation BLEU.
    """

    updates: int
    seconds: float
    target_tokens: int
    loss: float
    bleu: float


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
        target_tokens: target tokens trained on.
        training_tokens_per_second: target tokens per second, the median over intervals without a validation.
        decoding_tokens_per_second: target subwords of the test set per second, with a beam of 4 and the torch engine.
        peak_megabytes: largest memory use during training, in units of 2^20 bytes.
        bleu: BLEU on the test set, with a beam of 4.
        chrf: chrF on the test set, with a beam of 4.
        signature: signature of BLEU (sacrebleu).
        curve: the learning curve.
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


def run_trial(trial: Trial) -> None:
    """Train the variant or resume its training, measure the model, and write the result.

    Raises:
        UserError: as in `train`.
        TrainingStopped: after a stop signal, when the state has been saved; the same call resumes the trial.
    """
    train(
        trial.corpora,
        trial.directory,
        validation=trial.validation,
        settings=trial.settings,
        console=Console(stderr=True, soft_wrap=True),
    )
    # Before decoding, so that only the memory of training is measured.
    peak = peak_memory() / 2**20
    plan = load_plan(trial.directory / "run")
    config = translation_config(plan)
    pairs = _test_pairs(trial, plan.validation_size, config.data.validation_pairs)
    translator = Translator.load(trial.directory, engine="torch", device=config.training.device)
    start = time.monotonic()
    translations = translator.translate([pair.source for pair in pairs], search=SearchConfig(beam=4))
    seconds = time.monotonic() - start
    texts = [translation.text for translation in translations]
    metrics = translation_metrics(
        texts,
        [pair.target for pair in pairs],
        tokenize=bleu_tokenizer_for(config.target_language),
    )
    events = read_events(trial.directory / "run" / "log.jsonl")
    curve = learning_curve(events)
    result = TrialResult(
        name=trial.name,
        architecture=config.architecture,
        shape=plan.model.shape(),
        parameters=json.loads((trial.directory / "metrics.json").read_text(encoding="utf-8"))["parameters"],
        updates=curve[-1].updates,
        seconds=curve[-1].seconds,
        target_tokens=curve[-1].target_tokens,
        training_tokens_per_second=training_speed(events),
        decoding_tokens_per_second=sum(map(len, translator.tokenizer.encode_target(texts))) / seconds,
        peak_megabytes=peak,
        bleu=metrics.bleu,
        chrf=metrics.chrf,
        signature=metrics.signatures["bleu"],
        curve=curve,
    )
    write_atomically(trial.directory / RESULT_FILE, (json.dumps(to_mapping(result), indent=2) + "\n").encode())


def learning_curve(events: Sequence[Event]) -> tuple[Point, ...]:
    """Return the validations of a log in order, each with the target tokens trained on before it."""
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
    """Return the target tokens per second in training.

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


def _test_pairs(trial: Trial, validation_pairs: int, limit: int) -> list[Pair]:
    if trial.test is not None:
        return list(read_pairs(parse_corpus(trial.test)))
    return validation_sample(trial.directory / "run" / "text" / VALIDATION_TEXT, validation_pairs, limit)
