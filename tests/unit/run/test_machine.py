"""`dragoman doctor --bench`: what is measured and how it is printed, not how fast it is."""

import json
import re
from dataclasses import replace

import pytest
import torch

from dragoman.cli.doctor import PREDICTED, about
from dragoman.models.config import ModelConfig
from dragoman.models.config.transformer import PRESETS, TransformerConfig
from dragoman.native.engine_selection import select_engine
from dragoman.run import machine
from dragoman.run.config import ResolvedRun, model_config
from tests.support.command_line import dragoman


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let measurements take a second in all."""
    values = {"SIZE": 64, "PRODUCT_SECONDS": 0.0, "UPDATE_SECONDS": 0.0, "MEASURED_TOKENS": 32, "FEW_TOKENS": 32}
    for name, value in values.items():
        monkeypatch.setattr(machine, name, value)
    monkeypatch.setattr(machine, "tune_cpu", lambda: None)

    def narrow(resolved: ResolvedRun, source_vocabulary: int, target_vocabulary: int) -> ModelConfig:
        config = model_config(resolved, 100, 100)
        assert isinstance(config, TransformerConfig)
        return replace(config, d_model=config.d_model // 16, heads=2, d_ff=64)

    monkeypatch.setattr(machine, "model_config", narrow)
    monkeypatch.setattr(machine, "WIDE", machine.WIDE // 16)


def test_a_line_for_each_preset(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert dragoman(monkeypatch, "doctor", "--bench") == 0
    out = capsys.readouterr().out
    for name in PRESETS:
        assert re.search(rf"^  {name} +about [\d,.]+ +[\d,]+ subwords, batches of [\d,]+ tokens$", out, re.MULTILINE)
    int8 = "int8 about" if select_engine().build else "int8 is not used"
    assert re.search(rf"^matrix products +fp32 about .*, bf16 about .*{int8}", out, re.MULTILINE)
    assert re.search(r"^make demo +about [\d,.]+ updates in five minutes", out, re.MULTILINE)


def test_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert dragoman(monkeypatch, "doctor", "--bench", "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["torch"] == torch.__version__
    assert list(values["bench"]["training"]) == list(PRESETS)
    assert values["bench"]["training"]["base"]["tokens_per_second"] > 0
    assert dragoman(monkeypatch, "doctor", "--json") == 0
    assert "bench" not in json.loads(capsys.readouterr().out)


def test_progress_is_reported_and_the_random_state_is_kept() -> None:
    activities: list[str] = []
    before = torch.get_rng_state()
    machine.measure(on_progress=activities.append)
    assert torch.equal(torch.get_rng_state(), before)
    assert activities[0] == "matrix products in fp32"
    assert {f"training steps of {name}" for name in PRESETS} < set(activities)


@pytest.mark.parametrize(
    ("value", "measured", "predicted"),
    [
        (9234.6, "about 9,200", "about 9,000"),
        (9870.0, "about 9,900", "about 10,000"),
        (15_861, "about 16,000", "about 15,000"),
        (214.4, "about 210", "about 200"),
        (7.31, "about 7.3", "about 7.0"),
        (0.0512, "about 0.051", "about 0.050"),
        (0, "about 0", "about 0"),
    ],
)
def test_numbers_are_rounded(value: float, measured: str, predicted: str) -> None:
    assert about(value) == measured
    assert about(value, PREDICTED) == predicted
