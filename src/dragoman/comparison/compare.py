"""A study from its first trial to its tables, resumable at any moment."""

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

from dragoman.comparison.matching import count_parameters, matched
from dragoman.comparison.studies import Study, Variant, study_named
from dragoman.comparison.trial import Trial, TrialResult, find_result, run_trial
from dragoman.errors import SettingsError, StorageError, UserError
from dragoman.files import read_json_object, write_atomically
from dragoman.models.config import ModelConfig
from dragoman.models.registry import preset, read_model_config
from dragoman.printing import complain
from dragoman.run.config import draft, read_settings
from dragoman.run.plan import Plan, load_plan
from dragoman.settings import differences, merge, to_mapping
from dragoman.streams import open_standard_streams
from dragoman.training.stopping import Stopped, StopRequest, catch_stop_signals

REQUEST_FILE = "study.json"
# Unless a run file says otherwise. Adam, as all of these models were published with it or have been trained with it
# since; validations often enough to draw a curve, on few pairs, as they are part of the budget.
DEFAULTS = {
    "schedule": {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.001},
    "training": {"optimizer": "adam", "validations": 6},
    "data": {"validation_pairs": 300},
}
# What a variant of another architecture takes over from the reference, if it has it; sizes are its own.
CHOICES = ("dropout", "norm_placement", "norm", "activation", "tied_embeddings")
BY_TIME, BY_TOKENS = "time", "tokens"


@dataclass(frozen=True)
class Comparison:
    """The finished trials of a study.

    by_time     each variant after the same wall-clock time
    by_tokens   each variant after the same number of updates, on the same batches in the same order
    """

    study: Study
    request: dict[str, Any]
    by_time: tuple[TrialResult, ...]
    by_tokens: tuple[TrialResult, ...]


def compare(
    corpora: Sequence[str],
    out: Path,
    *,
    study: str = "architecture",
    minutes: float,
    validation: str | None = None,
    test: str | None = None,
    settings: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> Comparison:
    """Train every variant of a study for `minutes`, then each for as many updates as the slowest made.

    The reference comes first; what the corpus' size and the budget chose for it (subwords, batches) holds for all. The
    second budget is the updates of the slowest variant: batches are the same for all, and so are the target tokens.
    Finished trials are not run again, an interrupted one goes on.

    Args:
        corpora, validation: as `train` takes them.
        out: takes a model directory for each trial, below time/ and tokens/.
        study: one of `studies.STUDIES`.
        minutes: of wall clock, for each variant.
        test: a corpus to score on; without it, the validation pairs.
        settings: a run file's, for all variants.
        console: where progress is told.

    Raises:
        UserError: for a bad study, corpus or setting, or when `out` holds another comparison. A bad setting is
            reported before anything is written.
        Stopped: on SIGINT or SIGTERM, after saving; the same call goes on.
    """
    console = console or Console(stderr=True, soft_wrap=True)
    chosen = study_named(study)
    if not minutes > 0:
        raise SettingsError(f"minutes must be above 0, not {minutes}")
    settings = settings or {}
    training = settings.get("training", {})
    if isinstance(training, Mapping) and {"steps", "minutes"} & training.keys():
        raise SettingsError(
            "the budget of a comparison is --minutes, for every variant: leave training.steps and .minutes"
        )
    if "preset" in settings:
        # An architecture that lacks it should show now, not after others have been trained.
        for variant in chosen.variants:
            preset(str(settings["preset"]), 1000, 1000, joint=True, architecture=variant.architecture)
    request = {
        "study": study,
        "minutes": minutes,
        "corpora": list(corpora),
        "validation": validation,
        "test": test,
        "settings": json.loads(json.dumps(settings)),
    }
    first = reference_settings(chosen.variants[0], settings, minutes)
    draft(read_settings(first))
    _write_request(out, request)
    with catch_stop_signals() as stop:
        trials = _Trials(tuple(corpora), validation, test, out, console, stop)
        comparison = _run(chosen, request, first, trials)
        if stop.signal_number is not None:
            raise Stopped(stop.signal_number, 0)
    return comparison


def reference_settings(reference: Variant, settings: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """Return what the run file of a study's first variant says: the user's settings over the defaults of studies."""
    return merge(
        DEFAULTS,
        settings,
        {"architecture": reference.architecture, "model": reference.model, "training": reference.training},
        {"training": {"minutes": minutes}},
    )


def _run(study: Study, request: dict[str, Any], settings: Mapping[str, Any], trials: "_Trials") -> Comparison:
    reference = study.variants[0]
    first = trials.result(reference.name, BY_TIME, settings)
    plan = load_plan(trials.directory(reference.name, BY_TIME) / "run")
    resolved = {variant.name: variant_settings(variant, plan, matching=study.matched) for variant in study.variants}
    by_time = [first, *(trials.result(each.name, BY_TIME, resolved[each.name]) for each in study.variants[1:])]

    slowest = min(by_time, key=lambda result: result.updates)
    by_tokens = []
    for variant, timed in zip(study.variants, by_time, strict=True):
        if timed is slowest:
            # It has made so many updates already.
            by_tokens.append(timed)
            continue
        budget = merge(resolved[variant.name], {"training": {"steps": slowest.updates, "minutes": "none"}})
        by_tokens.append(trials.result(variant.name, BY_TOKENS, budget))
    return Comparison(study, request, tuple(by_time), tuple(by_tokens))


def variant_settings(variant: Variant, reference: Plan, *, matching: bool) -> dict[str, Any]:
    """The reference's run with a variant's choices; its width fitted if the study asks for it.

    Of another architecture, it is the preset of the reference's name, with those of the reference's choices that it has
    too, such as dropout and the place of the norm.
    """
    config = reference.config
    model = _variant_model(variant, reference)
    target = count_parameters(reference.model)
    if matching and count_parameters(model) != target:
        model = matched(model, target)
    own = {key: value for key, value in to_mapping(model).items() if not key.endswith("_vocabulary")}
    choices: dict[str, Any] = {"architecture": variant.architecture, "model": own, "training": variant.training}
    if variant.rate != 1:
        schedule = config.schedule
        peak = schedule.peak_learning_rate or (reference.model.d_model * schedule.warmup) ** -0.5
        choices["schedule"] = {"peak_learning_rate": variant.rate * peak}
    return merge(to_mapping(config), choices)


def _variant_model(variant: Variant, reference: Plan) -> ModelConfig:
    settings = to_mapping(reference.model)
    if variant.architecture != reference.config.architecture:
        own = preset(
            reference.config.preset,
            reference.model.source_vocabulary,
            reference.model.target_vocabulary,
            joint=reference.config.tokenizer.joint,
            architecture=variant.architecture,
        )
        shared = {name: settings[name] for name in CHOICES if hasattr(own, name)}
        settings = {**to_mapping(own), **shared}
    return read_model_config(variant.architecture, {**settings, **variant.model}, f"variant {variant.name}")


@dataclass(frozen=True)
class _Trials:
    corpora: tuple[str, ...]
    validation: str | None
    test: str | None
    out: Path
    console: Console
    stop: StopRequest

    def directory(self, name: str, budget: str) -> Path:
        kept = "".join(character if character.isalnum() else "-" for character in name.lower())
        return self.out / budget / "-".join(part for part in kept.split("-") if part)

    def result(self, name: str, budget: str, settings: Mapping[str, Any]) -> TrialResult:
        """The figures of a trial, which is run if it has not been finished."""
        directory = self.directory(name, budget)
        if (found := find_result(directory)) is not None:
            return found
        self.console.rule(f"{name}, by {budget}")
        directory.parent.mkdir(parents=True, exist_ok=True)
        trial = Trial(
            name=name,
            corpora=self.corpora,
            validation=self.validation,
            test=self.test,
            directory=directory,
            settings=settings,
        )
        # A process of its own: its memory is its own, and no trial finds caches that an earlier one has filled.
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(trial,))
        self._wait_for(process)
        result = find_result(directory)
        if result is None:
            raise StorageError(f"{name} failed: see above; the same command goes on from there")
        return result

    def _wait_for(self, process: BaseProcess) -> None:
        """Run a process; a signal to this one is passed on as SIGTERM, so that it can save. A second signal kills it.

        Raises:
            Stopped: when there was a signal.
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
            raise Stopped(self.stop.signal_number, 0)


def _start_ignoring_interrupts(process: BaseProcess) -> None:
    """Start a process that a terminal's Ctrl-C does not reach: whoever started it tells it to stop, and only once."""
    # It unblocks the signals when it starts.
    resource_tracker.ensure_running()
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _work(trial: Trial) -> None:
    """In the process of a trial."""
    open_standard_streams()
    try:
        run_trial(trial)
    except Stopped:
        sys.exit(1)
    except UserError as error:
        complain(error)
        sys.exit(2)


def _write_request(out: Path, request: dict[str, Any]) -> None:
    """Write what is asked for; the same request goes on with the same comparison.

    Raises:
        SettingsError: when `out` holds another one.
        StorageError: when it holds other files, or what it holds is damaged.
    """
    path = out / REQUEST_FILE
    begun = (out / BY_TIME).is_dir() and any((out / BY_TIME).iterdir())
    if path.exists() and begun:
        asked = read_json_object(path, missing=f"{path} is missing", error=StorageError, advice="give another --out")
        changed = differences(asked, request)
        if changed:
            raise SettingsError(
                f"{out} holds another comparison: {'; '.join(changed)}; give the same command to go on with it, or "
                "another --out"
            )
        return
    if out.exists() and not path.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StorageError(f"{out} holds other files, not a comparison: give another --out")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(request, indent=2) + "\n").encode())
