"""Statistics that a model reports for each token: summarised, logged, saved, and read from earlier runs."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dragoman.data.readers import Pair
from dragoman.models.token_statistics import TokenStatistic, summarise
from dragoman.models.transformer import Transformer
from dragoman.run import train
from dragoman.run.validator import Validator
from dragoman.training.events import read_events
from dragoman.training.progress import Progress
from dragoman.training.validation import Sample, Validation
from tests.support.number_words import split_numbers
from tests.support.runs import TINY_RUN, write_tsv
from tests.support.small_translator import WORDS, random_models, random_translator, tokenizer

PAIRS = [Pair(" ".join(WORDS[:i]), " ".join(WORDS[i : 2 * i + 1])) for i in range(8)] + [Pair("", "")]


def lengths(self: Transformer, source: Tensor, real: Tensor, target: Tensor, target_mask: Tensor) -> dict[str, Tensor]:
    """Return the length of its sentence for each source token, and 1 for each target token."""
    assert not self.training
    # [B, S] -> [N]; [B, T] -> [M]
    return {
        "source length": real.sum(1, keepdim=True).expand_as(real)[real].float(),
        "one": torch.ones_like(target)[target_mask].float(),
    }


@pytest.fixture
def reporting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Transformers report the statistics of `lengths`."""
    monkeypatch.setattr(Transformer, "token_statistics", lengths)


def expected() -> dict[str, object]:
    """Compute the expected statistics from the tokenizer; EOS is included."""
    counts = [len(ids) + 1 for ids in tokenizer().encode_source([pair.source for pair in PAIRS])]
    mean = sum(count**2 for count in counts) / sum(counts)
    return {"source length": (pytest.approx(mean), max(counts)), "one": (1.0, 1.0)}


def plain(statistics: dict[str, TokenStatistic]) -> dict[str, object]:
    return {name: (statistic.mean, statistic.maximum) for name, statistic in statistics.items()}


def test_the_mean_is_over_tokens_not_over_batches() -> None:
    batches = [{"steps": torch.tensor([1.0, 2.0, 6.0])}, {"steps": torch.tensor([3.0]), "other": torch.tensor([-2.0])}]
    assert summarise(batches) == {
        "steps": TokenStatistic(mean=3.0, maximum=6.0),
        "other": TokenStatistic(mean=-2.0, maximum=-2.0),
    }
    assert summarise([]) == summarise([{}, {}]) == summarise([{"steps": torch.zeros(0)}]) == {}


def test_nan_and_infinity_become_null() -> None:
    (statistic,) = summarise([{"x": torch.tensor([1.0, math.nan])}, {"x": torch.tensor([2.0])}]).values()
    assert statistic.to_json() == {"mean": None, "maximum": None}
    (statistic,) = summarise([{"x": torch.tensor([math.inf])}]).values()
    assert statistic.to_json() == {"mean": None, "maximum": None}


def test_a_model_without_statistics() -> None:
    assert random_translator().token_statistics(PAIRS) == {}
    assert random_translator().token_statistics([]) == {}
    assert Validation(loss=1.0, metrics={"bleu": 2.0}).token_statistics_to_json() == {}


@pytest.mark.usefixtures("reporting")
def test_a_translator_reports_statistics() -> None:
    assert plain(random_translator(batch_tokens=30).token_statistics(PAIRS)) == expected()
    # All members of an ensemble process the same sentences.
    assert plain(random_translator(2).token_statistics(PAIRS)) == expected()


@pytest.mark.usefixtures("reporting")
def test_a_validator_reports_statistics() -> None:
    validator = Validator(PAIRS, tokenizer(), max_length=100, batch_tokens=40, precision="fp32")
    (model,) = random_models(1)
    assert plain(dict(validator(model).token_statistics)) == expected()


def test_progress_saves_statistics_and_reads_earlier_versions() -> None:
    figures = {"encoder steps": TokenStatistic(mean=2.5, maximum=6.0)}
    scores = {"bleu": 2.0, "chrf": 3.0, "exact_match": 4.0}
    samples = (Sample("a", "b", "c"),)
    progress = Progress(best=Validation(loss=1.0, metrics=scores, samples=samples, token_statistics=figures))
    state = json.loads(json.dumps(progress.to_json()))
    assert Progress.from_json(state) == progress
    assert state["best"] == {
        "loss": 1.0,
        **scores,
        "samples": [["a", "b", "c"]],
        "token_statistics": {"encoder steps": {"mean": 2.5, "maximum": 6.0}},
    }
    # Earlier versions used another key; still earlier ones had neither statistics nor exact matches.
    state["best"]["figures"] = state["best"].pop("token_statistics")
    assert Progress.from_json(state) == progress
    del state["best"]["figures"], state["best"]["exact_match"], scores["exact_match"]
    assert Progress.from_json(state).best == Validation(loss=1.0, metrics=scores, samples=samples)


@pytest.mark.usefixtures("reporting")
def test_a_run_logs_and_saves_statistics(tmp_path: Path) -> None:
    training, validation, _ = split_numbers()
    corpus, held_out = write_tsv(tmp_path / "a.tsv", training[:200]), write_tsv(tmp_path / "b.tsv", validation[:9])
    settings = {**TINY_RUN, "training": {"steps": 4, "validations": 2}}
    best = train([str(corpus)], tmp_path / "model", validation=str(held_out), settings=settings).best
    assert best.token_statistics.keys() == {"source length", "one"}
    events = [event for event in read_events(tmp_path / "model/run/log.jsonl") if event["event"] == "validation"]
    assert len(events) >= 2
    as_json = best.token_statistics_to_json()["token_statistics"]
    assert [event["token_statistics"] for event in events] == [as_json] * len(events)
    metrics = json.loads((tmp_path / "model/metrics.json").read_text())
    assert metrics["validation"]["token_statistics"] == as_json
    length = best.token_statistics["source length"]
    card = (tmp_path / "model/README.md").read_text()
    assert f"\n| source length (validation) | mean {length.mean:.2f}, at most {length.maximum:g} |\n" in card
