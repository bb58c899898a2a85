"""Comparison of the variants of a study, which can be resumed after any interruption."""

import json
import multiprocessing
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rich.console import Console

from dragoman.comparison.matching import count_parameters, match_width
from dragoman.comparison.studies import Study, Variant, study_named, study_names
from dragoman.comparison.study_task import StudyTask
from dragoman.comparison.study_tasks import study_task
from dragoman.comparison.trial import Trial, TrialResult, load_result
from dragoman.comparison.trial_run import run_trial
from dragoman.errors import SettingsError, StorageError, UserError
from dragoman.files import read_json_object, write_atomically
from dragoman.models.config import ModelConfig
from dragoman.models.registry import read_model_config
from dragoman.printing import print_message
from dragoman.run.plan import Plan, load_plan
from dragoman.run.tasks.table import DEFAULT_TASK
from dragoman.settings import differences, merge, to_mapping
from dragoman.streams import open_standard_streams
from dragoman.training.stopping import StopRequest, TrainingStopped, catch_stop_signals

REQUEST_FILE = "study.json"
BY_TIME, BY_TOKENS = "time", "tokens"


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison: the finished trials of a study.

    Attributes:
        study: the study.
        request: the arguments of `compare`.
        by_time: each variant after the same wall-clock time.
        by_tokens: each variant after the same number of updates, on the same batches in the same order.
    """

    study: Study
    request: dict[str, Any]
    by_time: tuple[TrialResult, ...]
    by_tokens: tuple[TrialResult, ...]


def compare(
    corpora: Sequence[str],
    out: Path,
    *,
    study: str | None = None,
    minutes: float,
    validation: str | None = None,
    test: str | None = None,
    settings: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> Comparison:
    """Compare the variants of a study with equal budgets.

    Every variant is trained for `minutes`, and then again for the number of updates that the slowest variant made in
    this time. In the second training, all variants see the same batches, and therefore the same tokens. The
    first variant of the study is the reference: the defaults that suit the corpus and the budget (such as subwords and
    batches) are determined for it and used for all variants. A repeated call skips finished trials and resumes an
    interrupted one.

    Example:
        ```python
        from pathlib import Path

        from dragoman.comparison.compare import compare
        from dragoman.comparison.report import write_report

        comparison = compare(["corpus.tsv"], Path("comparison"), study="norm", minutes=10)
        write_report(comparison, Path("comparison"))
        ```

    Args:
        corpora: Corpora to train on, as in `train`.
        out: Directory for the model directories of the trials, which are below time/ and tokens/.
        study: Name of a study in `studies.STUDIES`. Defaults to the first study of the task.
        minutes: Wall-clock time for each variant.
        validation: Corpus to validate on, as in `train`.
        test: Corpus on which the models are evaluated. None: the validation pairs or text.
        settings: Settings of a run file, for all variants; `task` is "translation" by default, or "language".
        console: Shows the progress. Defaults to standard error.

    Raises:
        UserError: for an invalid study, corpus or setting, or if `out` contains another comparison. An invalid setting
            is reported before anything is written.
        TrainingStopped: after SIGINT or SIGTERM, when the state has been saved; the same call resumes the comparison.
    """
    console = console or Console(stderr=True, soft_wrap=True)
    if "-" in (*corpora, validation, test):
        raise SettingsError("standard input (-) cannot be used, because every variant reads the corpora: give files")
    if not minutes > 0:
        raise SettingsError(f"minutes must be above 0, not {minutes}")
    settings = settings or {}
    task_name = str(settings.get("task", DEFAULT_TASK))
    study = study_names(task_name)[0] if study is None else study
    selected = study_named(study, task_name)
    training = settings.get("training", {})
    if isinstance(training, Mapping) and {"steps", "minutes"} & training.keys():
        raise SettingsError(
            "--minutes sets the budget of every variant of a comparison: remove training.steps and training.minutes"
        )
    request = {
        "study": study,
        "minutes": minutes,
        "corpora": list(corpora),
        "validation": validation,
        "test": test,
        "settings": json.loads(json.dumps(settings)),
    }
    task = study_task(selected.task)
    first = reference_settings(task, selected.variants[0], settings, minutes)
    task.check(selected.variants, first)
    _write_request(out, request)
    with catch_stop_signals() as stop:
        trials = _Trials(task, tuple(corpora), validation, test, out, console, stop)
        comparison = _run(selected, request, first, trials)
        if stop.signal_number is not None:
            raise TrainingStopped(stop.signal_number, 0)
    return comparison


def reference_settings(
    task: StudyTask, reference: Variant, settings: Mapping[str, Any], minutes: float
) -> dict[str, Any]:
    """Return the settings of the reference: the defaults of studies, replaced by the user's and the variant's."""
    return merge(
        task.defaults,
        settings,
        {"architecture": reference.architecture, "model": reference.model, "training": reference.training},
        {"training": {"minutes": minutes}},
    )


def _run(study: Study, request: dict[str, Any], settings: Mapping[str, Any], trials: "_Trials") -> Comparison:
    reference = study.variants[0]
    first = trials.result(reference.name, BY_TIME, settings)
    plan = load_plan(trials.directory(reference.name, BY_TIME) / "run")
    resolved = {
        variant.name: variant_settings(variant, plan, match_parameters=study.matched) for variant in study.variants
    }
    others = study.variants[1:]
    by_time = [first, *(trials.result(variant.name, BY_TIME, resolved[variant.name]) for variant in others)]

    slowest = min(by_time, key=lambda result: result.updates)
    by_tokens = []
    for variant, result in zip(study.variants, by_time, strict=True):
        if result is slowest:
            # Its first training made this number of updates.
            by_tokens.append(result)
            continue
        budget = merge(resolved[variant.name], {"training": {"steps": slowest.updates, "minutes": "none"}})
        by_tokens.append(trials.result(variant.name, BY_TOKENS, budget))
    return Comparison(study, request, tuple(by_time), tuple(by_tokens))


def variant_settings(variant: Variant, reference: Plan, *, match_parameters: bool) -> dict[str, Any]:
    """Return the settings of a variant: those of the reference, replaced by the variant's own.

    A variant of another architecture starts from the preset of the same name, with the settings that both architectures
    have in common (`StudyTask.shared`) taken from the reference.

    Args:
        variant: the variant.
        reference: plan of the reference.
        match_parameters: adjust the width so that the number of parameters is about that of the reference.
    """
    config = reference.config
    model = _variant_model(variant, reference)
    target = count_parameters(reference.model)
    if match_parameters and count_parameters(model) != target:
        model = match_width(model, target)
    own = {key: value for key, value in to_mapping(model).items() if not key.endswith("vocabulary")}
    changes: dict[str, Any] = {"architecture": variant.architecture, "model": own, "training": variant.training}
    if variant.rate != 1:
        schedule = config.schedule
        peak = schedule.peak_learning_rate or (reference.model.d_model * schedule.warmup) ** -0.5
        changes["schedule"] = {"peak_learning_rate": variant.rate * peak}
    return merge(to_mapping(config), changes)


def _variant_model(variant: Variant, reference: Plan) -> ModelConfig:
    settings = to_mapping(reference.model)
    if variant.architecture != reference.config.architecture:
        task = study_task(reference.config.task)
        own = task.preset(variant.architecture, reference)
        shared = {name: settings[name] for name in task.shared if name in settings and hasattr(own, name)}
        settings = {**to_mapping(own), **shared}
    return read_model_config(variant.architecture, {**settings, **variant.model}, f"variant {variant.name}")


@dataclass(frozen=True)
class _Trials:
    """Runs the trials of a comparison, each in a separate process."""

    task: StudyTask
    corpora: tuple[str, ...]
    validation: str | None
    test: str | None
    out: Path
    console: Console
    stop: StopRequest

    def directory(self, name: str, budget: str) -> Path:
        """Return the directory of a trial, named after its variant in lower case with hyphens."""
        slug = "".join(character if character.isalnum() else "-" for character in name.lower())
        return self.out / budget / "-".join(part for part in slug.split("-") if part)

    def result(self, name: str, budget: str, settings: Mapping[str, Any]) -> TrialResult:
        """Return the result of a trial, which is run unless it is finished."""
        directory = self.directory(name, budget)
        if (finished := load_result(directory)) is not None:
            return finished
        self.console.rule(f"{name} (equal {'time' if budget == BY_TIME else self.task.tokens})")
        directory.parent.mkdir(parents=True, exist_ok=True)
        trial = Trial(
            name=name,
            corpora=self.corpora,
            validation=self.validation,
            test=self.test,
            directory=directory,
            settings=settings,
        )
        # In a separate process, so that its memory can be measured and it does not use caches of an earlier trial.
        process = multiprocessing.get_context("spawn").Process(target=_run_in_process, args=(trial,))
        self._wait_for(process)
        result = load_result(directory)
        if result is None:
            raise StorageError(f"{name} failed (see above); run the same command to resume the comparison")
        return result

    def _wait_for(self, process: BaseProcess) -> None:
        """Run a process. A stop signal is passed on as SIGTERM, so that the process can save; a second one kills it.

        Raises:
            TrainingStopped: if there was a signal.
        """
        if self.stop.signal_number is None:
            try:
                _start_ignoring_interrupts(process)
                while process.is_alive():
                    process.join(timeout=0.2)
                    if self.stop.signal_number is not None:
                        process.terminate()
                        process.join()
            finally:
                if process.is_alive():
                    process.kill()
        if self.stop.signal_number is not None:
            raise TrainingStopped(self.stop.signal_number, 0)


def _start_ignoring_interrupts(process: BaseProcess) -> None:
    """Start a process that does not receive Ctrl-C from the terminal; its parent passes the signal on, only once."""
    # Started before SIGINT is blocked, because it unblocks the signal when it starts.
    resource_tracker.ensure_running()
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _run_in_process(trial: Trial) -> None:
    """Run a trial; called in the separate process."""
    open_standard_streams()
    try:
        run_trial(trial)
    except TrainingStopped:
        sys.exit(1)
    except UserError as error:
        print_message(error)
        sys.exit(2)


def _write_request(out: Path, request: dict[str, Any]) -> None:
    """Write the request, or check that it equals that of the comparison in `out`, which is then resumed.

    Raises:
        SettingsError: if `out` contains another comparison.
        StorageError: if `out` contains other files, or its request is damaged.
    """
    path = out / REQUEST_FILE
    started = (out / BY_TIME).is_dir() and any((out / BY_TIME).iterdir())
    if path.exists() and started:
        earlier = read_json_object(path, missing=f"{path} is missing", error=StorageError, advice="use another --out")
        changes = differences(earlier, request)
        if changes:
            raise SettingsError(
                f"{out} contains another comparison: {'; '.join(changes)}; repeat the original command to resume it, "
                "or use another --out"
            )
        return
    if out.exists() and not path.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StorageError(f"{out} contains other files, not a comparison: use another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(request, indent=2) + "\n").encode())
