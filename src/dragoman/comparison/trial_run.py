"""Running a trial: one variant is trained with one budget and measured, and its result is saved beside the model."""

import json

from rich.console import Console

from dragoman.comparison.study_tasks import study_task
from dragoman.comparison.trial import RESULT_FILE, Trial, TrialResult, learning_curve, training_speed
from dragoman.device import peak_memory
from dragoman.files import write_atomically
from dragoman.run.plan import load_plan
from dragoman.run.train import train
from dragoman.settings import to_mapping
from dragoman.training.events import read_events


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
    # Before the test, so that only the memory of training is measured.
    peak = peak_memory() / 2**20
    plan = load_plan(trial.directory / "run")
    test = study_task(plan.config.task).test(trial, plan)
    events = read_events(trial.directory / "run" / "log.jsonl")
    curve = learning_curve(events)
    result = TrialResult(
        name=trial.name,
        architecture=plan.config.architecture,
        shape=plan.model.shape(),
        parameters=json.loads((trial.directory / "metrics.json").read_text(encoding="utf-8"))["parameters"],
        updates=curve[-1].updates,
        seconds=curve[-1].seconds,
        tokens=curve[-1].tokens,
        training_tokens_per_second=training_speed(events),
        peak_megabytes=peak,
        test=test,
        curve=curve,
    )
    write_atomically(trial.directory / RESULT_FILE, (json.dumps(to_mapping(result), indent=2) + "\n").encode())
