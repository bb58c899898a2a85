"""Defaults for the settings of a run, and the user's settings in place of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from dragoman.errors import UserError
from dragoman.models.config import Seq2SeqConfig
from dragoman.run.config import (
    CorpusSize,
    RequestedBudget,
    RunConfig,
    defaults_for_budget,
    defaults_for_size,
    model_config,
    read_settings,
    resolve,
    resolve_without_corpus,
)
from dragoman.settings import from_mapping, to_mapping


def resolved(settings: Mapping[str, object], pairs: int = 20_000, **sizes: int) -> RunConfig:
    return resolve(read_settings(settings), CorpusSize(pairs=pairs, **sizes)).run


@pytest.mark.parametrize("pairs", [0, 100, 49_999, 50_000, 199_999, 1_999_999, 50_000_000])
@pytest.mark.parametrize("training", [{"minutes": 5.0}, {"steps": 70}, {}])
def test_defaults_are_a_valid_run_for_every_size_and_budget(pairs: int, training: dict[str, float]) -> None:
    result = resolve(read_settings({"training": training}), CorpusSize(pairs=pairs, target_tokens=30 * pairs))
    model = model_config(result, 8000, 8000)
    assert isinstance(model, Seq2SeqConfig)
    assert model.target_vocabulary == 8000
    assert result.run.training.minutes == training.get("minutes")
    assert (result.run.training.steps is None) == ("minutes" in training)
    assert result.run.training.steps in (None, 70) or not training
    # run.json is read back as it was written.
    assert from_mapping(RunConfig, to_mapping(result.run), "run.json") == result.run


def test_the_default_budget_grows_with_the_corpus_within_bounds() -> None:
    sizes = (10, 20_000, 10**6, 10**9)
    steps = [defaults_for_budget(pairs, pairs // 100, RequestedBudget()).training.steps for pairs in sizes]
    assert steps == [1000, 12_000, 30_000, 100_000]


def test_updates_per_epoch_depend_on_the_users_batches() -> None:
    size: dict[str, Any] = {"pairs": 100_000, "target_tokens": 1_024_000}
    assert resolved({}, **size).training.steps == 15 * 1000
    assert resolved({"batching": {"batch_tokens": 2048}}, **size).training.steps == 15 * 500
    assert resolved({"training": {"accumulate": 4}}, **size).training.steps == 15 * 250


@pytest.mark.parametrize(("steps", "warmup"), [(100_000, 4000), (500, 50), (1, 1)])
def test_the_warm_up_is_the_papers_but_at_most_a_tenth_of_the_run(steps: int, warmup: int) -> None:
    schedule = resolved({"training": {"steps": steps}}).schedule
    assert (schedule.kind, schedule.warmup, schedule.peak_learning_rate) == ("paper", warmup, None)


def test_only_a_short_run_on_a_small_corpus_uses_muon() -> None:
    def optimizer(pairs: int, training: dict[str, float]) -> object:
        return resolved({"training": training}, pairs).training.optimizer

    assert optimizer(20_000, {"minutes": 5}) == "muon"
    assert optimizer(20_000, {"minutes": 20}) == optimizer(10**6, {"minutes": 5}) == "adam"
    assert optimizer(20_000, {"steps": 500}) == optimizer(20_000, {}) == "adam"


def test_thousands_of_characters_enlarge_the_vocabulary() -> None:
    assert defaults_for_size(20_000, characters=120).vocabulary_size == 4000
    assert defaults_for_size(20_000, characters=2500).vocabulary_size == 6000


@pytest.mark.parametrize("architecture", ["transformer", "universal", "recurrent", "convolutional"])
def test_pre_norm_is_set_only_in_architectures_with_this_setting(architecture: str) -> None:
    user = read_settings({"architecture": architecture})
    small, large = (model_config(resolve(user, CorpusSize(pairs=pairs)), 100, 100) for pairs in (20_000, 10**7))
    expected = ("pre", "post") if architecture in ("transformer", "universal") else (None, None)
    assert (getattr(small, "norm_placement", None), getattr(large, "norm_placement", None)) == expected
    assert small.dropout == 0.3
    assert large.dropout != 0.3


def test_the_users_settings_replace_defaults_key_by_key() -> None:
    user = {
        "preset": "tiny",
        "batching": {"window": 7},
        "schedule": {"peak_learning_rate": 0.5},
        "training": {"minutes": 3, "validations": 9},
        "model": {"dropout": 0.25, "norm_placement": "post"},
    }
    result = resolve(read_settings(user), CorpusSize(pairs=20_000))
    run = result.run
    assert (run.preset, run.batching.window, run.batching.batch_tokens) == ("tiny", 7, 2048)
    assert (run.schedule.kind, run.schedule.warmup, run.schedule.peak_learning_rate) == ("linear", 0.1, 0.5)
    assert (run.training.minutes, run.training.validations, run.training.optimizer) == (3.0, 9, "muon")
    model = model_config(result, 100, 100)
    assert (model.dropout, model.d_model, getattr(model, "norm_placement", None)) == (0.25, 64, "post")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": 5}, "model must be a table of settings, not 5"),
        ({"model": {"d_modl": 8}}, r"unknown key model\.d_modl in the settings: did you mean model\.d_model\?"),
        ({"model": {"d_model": "wide"}}, r"model\.d_model in the settings: expected a whole number, got 'wide'"),
        ({"model": {"heads": 3}}, "model in the settings: heads must divide d_model"),
        ({"architecture": "oracle"}, "unknown architecture 'oracle': choose one of transformer, recurrent"),
        ({"architecture": []}, "architecture in the settings: expected text in quotes"),
        ({"preset": "enormous"}, "transformer has no preset 'enormous'"),
        ({"training": {"stpes": 1}}, r"did you mean training\.steps\?"),
        ({"training": {"steps": 0}}, "training in the settings: steps must be at least 1, not 0"),
        ({"training": {"minutes": -1}}, "training in the settings: minutes must be above 0"),
        ({"training": {"steps": 1, "minutes": 1}}, "training in the settings: give a budget: exactly one of"),
        ({"training": {"steps": "none"}}, "training in the settings: give a budget"),
        ({"training": {"accumulate": 0}}, "training in the settings: accumulate must be at least 1"),
        (
            {"data": {"max_length": 10**6}},
            "data in the settings: max_length must be between 1 and 131,072, not 1000000",
        ),
        ({"batching": {"batch_tokens": 0}}, "batching in the settings: batch_tokens and window"),
        ({"schedule": {"kind": "linear"}}, "schedule in the settings: give peak_learning_rate"),
        (
            {"training": {"source_loss": -0.1}},
            "training in the settings: source_loss must not be negative, but is -0.1",
        ),
        (
            {"training": {"source_loss": 0.1}},
            r"training\.source_loss is available for architecture 'decoder-only' only",
        ),
    ],
)
def test_a_mistake_is_reported_before_any_corpus_is_read(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve_without_corpus(read_settings(settings))


def test_settings_resolved_without_a_corpus_contain_the_users_settings() -> None:
    config = resolve_without_corpus(read_settings({"data": {"max_length": 9}, "cleaning": {"max_characters": 99}}))
    assert (config.data.max_length, config.cleaning.max_characters) == (9, 99)
