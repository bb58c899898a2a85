"""Comparisons: the settings of variants, results from logs, and the report."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from dragoman.comparison.compare import Comparison, compare, variant_settings
from dragoman.comparison.matching import count_parameters, match_width, with_width
from dragoman.comparison.report import markdown, page, write_report
from dragoman.comparison.studies import STUDIES, Study, Variant, study_named, tasks_with_studies
from dragoman.comparison.study_tasks import STUDY_TASKS
from dragoman.comparison.trial import Measurement, Point, TrialResult, learning_curve, load_result, training_speed
from dragoman.errors import SettingsError, UserError
from dragoman.models.config import ModelConfig, TextModelConfig
from dragoman.models.config.transformer_xl import TransformerXLConfig
from dragoman.models.registry import architecture_of, architectures, preset
from dragoman.run.common_config import CommonConfig
from dragoman.run.config import CorpusSize, model_config, read_settings, resolve
from dragoman.run.plan import Plan
from dragoman.run.text_config import read_text_settings, resolve_text
from dragoman.settings import merge, to_mapping
from dragoman.training.events import Event

# As the user of each task gives them.
SETTINGS: dict[str, dict[str, Any]] = {
    "translation": {"preset": "small", "tokenizer": {"vocabulary_size": 4000}, "model": {"norm_placement": "pre"}},
    "language": {"task": "language", "preset": "nano", "model": {"context": 96}},
}


def resolved(task: str, settings: dict[str, Any]) -> tuple[CommonConfig, ModelConfig]:
    if task == "language":
        text = resolve_text(task, read_text_settings(task, settings), characters=1000, tokens=500)
        return text.run, text.model_config(1000)
    run = resolve(read_settings(settings), CorpusSize(pairs=1000))
    return run.run, model_config(run, 4000, 4000)


def reference(task: str = "translation") -> Plan:
    """Return the plan of a reference, as the first trial writes it."""
    settings = merge(
        SETTINGS[task],
        {
            "schedule": {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.001},
            "training": {"minutes": 5},
            "model": {"dropout": 0.15},
        },
    )
    config, model = resolved(task, settings)
    return Plan(request={}, config=config, model=model, training_size=1000, validation_size=10, trained_length=100)


EVERY = [(study, variant) for study in STUDIES.values() for variant in study.variants]


@pytest.mark.parametrize(("study", "variant"), EVERY, ids=[f"{study.task}: {variant.name}" for study, variant in EVERY])
def test_every_variant_is_a_valid_run_with_the_required_number_of_parameters(study: Study, variant: Variant) -> None:
    plan = reference(study.task)
    settings = variant_settings(variant, plan, match_parameters=study.matched)
    config, built = resolved(study.task, settings)
    assert architecture_of(built) == variant.architecture
    assert built.dropout == variant.model.get("dropout", 0.15)
    if hasattr(built, "norm_placement"):
        assert built.norm_placement == variant.model.get("norm_placement", "pre")
    for key, value in variant.model.items():
        assert getattr(built, key) == value
    if study.matched:
        assert count_parameters(built) == pytest.approx(count_parameters(plan.model), rel=0.05)
    assert config.schedule.peak_learning_rate == variant.rate * 0.001
    # All other settings are those of the reference.
    same = dataclasses.replace(
        config,
        architecture=plan.config.architecture,
        training=plan.config.training,
        schedule=plan.config.schedule,
    )
    assert same == plan.config


def test_every_language_model_is_trained_on_the_same_windows() -> None:
    plan = reference("language")
    for variant in STUDIES["language-models"].variants:
        _, model = resolved("language", variant_settings(variant, plan, match_parameters=True))
        assert isinstance(model, TextModelConfig)
        assert model.context == 96
        if isinstance(model, TransformerXLConfig):
            assert (model.segment, model.memory, model.norm_placement) == (48, 48, "pre")


def test_every_task_with_studies_has_an_entry() -> None:
    assert tasks_with_studies() == list(STUDY_TASKS)


def test_rates_can_be_multiples_of_the_papers_peak() -> None:
    paper = dataclasses.replace(reference().config.schedule, kind="paper", warmup=100, peak_learning_rate=None)
    plan = dataclasses.replace(reference(), config=dataclasses.replace(reference().config, schedule=paper))
    settings = variant_settings(Variant(name="x", rate=2.0), plan, match_parameters=False)
    assert settings["schedule"]["peak_learning_rate"] == pytest.approx(2 * (256 * 100) ** -0.5)


def test_variants_of_a_study_differ() -> None:
    for study in STUDIES.values():
        settings = [
            json.dumps(variant_settings(variant, reference(study.task), match_parameters=study.matched))
            for variant in study.variants
        ]
        assert len(set(settings)) == len(study.variants)
        assert len({variant.name for variant in study.variants}) == len(study.variants)


def test_the_error_for_an_unknown_study_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown study 'heds': choose one of architecture, .*heads"):
        study_named("heds", "translation")
    with pytest.raises(UserError, match=r"'norm' is one of task 'translation', not .*: choose one of language-models"):
        study_named("norm", "language")
    with pytest.raises(UserError, match=r"no studies of task 'masked': choose one of translation, language"):
        study_named("norm", "masked")


@pytest.mark.parametrize("architecture", architectures("seq2seq"))
@pytest.mark.parametrize("parameters", [500_000, 3_000_000, 20_000_000])
def test_the_matched_width_is_better_than_its_neighbours(architecture: str, parameters: int) -> None:
    config = preset("tiny", 1000, 1000, joint=True, architecture=architecture)
    matched = match_width(config, parameters)
    error = abs(count_parameters(matched) - parameters)
    for neighbour in (matched.d_model - 8, matched.d_model + 8):
        assert error <= abs(count_parameters(with_width(config, neighbour)) - parameters)


def test_tied_parameters_are_counted_once() -> None:
    tied = preset("tiny", 1000, 1000, joint=True)
    untied = dataclasses.replace(tied, tied_embeddings="none")
    assert count_parameters(untied) - count_parameters(tied) == 2 * 1000 * 64


EVENTS: list[Event] = [
    {"event": "step", "step": 10, "target_tokens": 100.0, "elapsed": 1.0},
    {"event": "step", "step": 20, "target_tokens": 120.0, "elapsed": 2.0},
    {"event": "validation", "step": 25, "loss": 5.0, "bleu": 1.0, "elapsed": 9.0},
    {"event": "step", "step": 30, "target_tokens": 100.0, "elapsed": 10.0},
    {"event": "step", "step": 40, "target_tokens": 300.0, "elapsed": 12.0},
    {"event": "step", "step": 50, "target_tokens": 100.0, "elapsed": 13.0},
    {"event": "validation", "step": 50, "loss": 4.0, "bleu": 2.0, "elapsed": 14.0},
    {"event": "validation", "step": 50, "loss": 3.9, "bleu": 2.5, "elapsed": 15.0, "average": 3},
]


def test_the_curve_counts_tokens_up_to_each_validation() -> None:
    assert learning_curve(EVENTS) == (
        Point(updates=25, seconds=9.0, tokens=220, metrics={"loss": 5.0, "bleu": 1.0}),
        Point(updates=50, seconds=14.0, tokens=720, metrics={"loss": 4.0, "bleu": 2.0}),
    )


def test_the_training_speed_excludes_validations() -> None:
    # 120 tokens in 1 s, 300 in 2 s, 100 in 1 s; the interval with the validation is left out.
    assert training_speed(EVENTS) == 120.0
    assert training_speed(EVENTS[:1]) == 0.0


MEASURED = {
    "translation": Measurement(metrics={"bleu": 12.34, "chrf": 45.67}, tokens_per_second=1234.5, method="nrefs:1"),
    "language": Measurement(
        metrics={"loss": 1.5, "bits_per_character": 2.164, "perplexity": 4.482},
        tokens_per_second=1234.5,
        method="in windows",
    ),
}


def result(name: str, updates: int = 100, task: str = "translation") -> TrialResult:
    return TrialResult(
        name=name,
        architecture="transformer",
        shape="3 layers",
        parameters=1_234_567,
        updates=updates,
        seconds=301.0,
        tokens=98_765,
        training_tokens_per_second=330.4,
        peak_megabytes=512.3,
        test=MEASURED[task],
        curve=(Point(updates=updates, seconds=300.0, tokens=98_765, metrics={"loss": 3.21, "bleu": 11.0}),),
    )


def comparison(name: str = "<script>alert(1)</script>", task: str = "translation") -> Comparison:
    study = Study(question="Which?", task=task, variants=(Variant(name="one"), Variant(name=name)))
    request: dict[str, Any] = {"minutes": 5.0, "corpora": ["some/where/a.tsv"], "test": None}
    both = (result("one", task=task), result(name, 80, task))
    return Comparison(study, request, both, both)


def test_the_tables_contain_the_results(tmp_path: Path) -> None:
    text = markdown(comparison("two"))
    assert "| two | 1.23 M | 80 | 0.10 M | 5.0 | 330 | 3.210 | 12.3 | 45.7 | 1,234 | 512 MB |" in text
    assert "The same wall-clock time: 5 minutes" in text
    assert "a.tsv" in text
    assert "some/where" not in text
    write_report(comparison("two"), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"comparison.{kind}" for kind in ("md", "html", "svg", "png")}


def test_the_tables_of_language_models(tmp_path: Path) -> None:
    text = markdown(comparison("two", "language"))
    assert "| two | 1.23 M | 80 | 0.10 M | 5.0 | 330 | 3.210 | 1.500 | 2.164 | 4.48 | 1,234 | 512 MB |" in text
    assert "test loss, bits per character and perplexity on the validation text, by which" in text
    assert "BLEU" not in text
    write_report(comparison("two", "language"), tmp_path)
    assert "BLEU" not in (tmp_path / "comparison.svg").read_text()


def test_the_page_is_self_contained_and_escapes_names() -> None:
    text = page(comparison(), "<?xml?><svg></svg>")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "src=" not in text
    assert "12.3" in text


def test_results_are_read_back(tmp_path: Path) -> None:
    assert load_result(tmp_path) is None
    (tmp_path / "comparison.json").write_text(json.dumps(to_mapping(result("x"))))
    assert load_result(tmp_path) == result("x")
    (tmp_path / "comparison.json").write_text("{")
    with pytest.raises(UserError, match=r"comparison\.json is damaged.*remove it"):
        load_result(tmp_path)


def test_invalid_comparisons_are_rejected_before_training(tmp_path: Path) -> None:
    corpus = tmp_path / "a.tsv"
    corpus.write_text("a\tb\n")
    with pytest.raises(UserError, match="minutes must be above 0"):
        compare([str(corpus)], tmp_path / "out", minutes=math.nan)
    with pytest.raises(UserError, match=r"remove training\.steps"):
        compare([str(corpus)], tmp_path / "out", minutes=1, settings={"training": {"steps": 5}})
    with pytest.raises(UserError, match="universal has no preset 'modern'"):
        compare([str(corpus)], tmp_path / "out", minutes=1, settings={"preset": "modern"})
    for files in ({"corpora": ["-"]}, {"corpora": ["a.tsv"], "test": "-"}):
        with pytest.raises(SettingsError, match="standard input"):
            compare(out=tmp_path / "out", minutes=1, **files)
    with pytest.raises(SettingsError, match=r"unknown key training\.optimiser .* did you mean training\.optimizer"):
        compare([str(corpus)], tmp_path / "out", minutes=1, settings={"training": {"optimiser": "adam"}})
    language = {"task": "language"}
    with pytest.raises(SettingsError, match="transformer-xl has no preset 'gpt2-small'"):
        compare(["a.txt"], tmp_path / "out", minutes=1, settings={**language, "preset": "gpt2-small"})
    with pytest.raises(SettingsError, match=r"model\.context is 7.* must be even"):
        compare(["a.txt"], tmp_path / "out", minutes=1, settings={**language, "model": {"context": 7}})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UserError, match="contains other files"):
        compare([str(corpus)], tmp_path / "full", minutes=1)
    (tmp_path / "other" / "time" / "4-heads").mkdir(parents=True)
    (tmp_path / "other" / "study.json").write_text(json.dumps({"study": "heads", "minutes": 1}))
    with pytest.raises(UserError, match="another comparison: study: heads -> architecture"):
        compare([str(corpus)], tmp_path / "other", minutes=1)
    assert not (tmp_path / "out").exists()
    (tmp_path / "other" / "study.json").write_text("{")
    with pytest.raises(UserError, match=r"study\.json is damaged"):
        compare([str(corpus)], tmp_path / "other", minutes=1)
