"""The command `calibrate`, end to end."""

import json
import random
from pathlib import Path

import pytest

from dragoman.translation.confidence import certainty
from dragoman.translation.translator import Translator
from tests.support.command_line import dragoman, make_workplace


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and pairs whose more probable translations are good more often."""
    folder = make_workplace(tmp_path_factory.mktemp("calibrate"))
    draw = random.Random(5)
    sources = [line.split("\t")[0] for line in (folder / "train.tsv").read_text().splitlines()]
    translations = Translator.load(folder / "model").translate(sources)
    known = sorted(each for translation in translations if (each := certainty(translation)) is not None)
    rank = {value: place / len(known) for place, value in enumerate(known)}
    with (folder / "pairs.tsv").open("w", encoding="utf-8") as file:
        for source, translation in zip(sources, translations, strict=True):
            value = certainty(translation)
            good = value is not None and draw.random() < rank[value]
            file.write(f"{source}\t{translation.text if good else 'QQQ'}\n")
    return folder


def test_the_confidence_is_fitted_measured_and_used(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, pairs = workplace / "model", workplace / "pairs.tsv"
    figure = tmp_path / "figure.svg"
    assert dragoman(monkeypatch, "calibrate", model, pairs, "--figure", figure) == 0
    out = capsys.readouterr().out
    assert "cross-validated on" in out
    assert "confidence.json: fitted to" in out
    assert "<svg" in figure.read_text()

    assert dragoman(monkeypatch, "calibrate", model, pairs, "--test", pairs, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["confidence"]["error"] < min(0.1, report["certainty"]["error"])
    assert sum(each["count"] for each in report["confidence"]["bins"]) == report["confidence"]["count"]

    (tmp_path / "lines.txt").write_text("the lamp\n\n")
    assert dragoman(monkeypatch, "translate", model, tmp_path / "lines.txt", "--json") == 0
    line, empty = map(json.loads, capsys.readouterr().out.splitlines())
    assert 0 < line["confidence"] < 1
    assert empty["confidence"] is None


def test_mistakes_are_explained_and_nothing_is_written(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = workplace / "other"
    few, none = tmp_path / "few.tsv", tmp_path / "none.tsv"
    few.write_text("".join((workplace / "pairs.tsv").read_text().splitlines(keepends=True)[:200]))
    none.write_text("")
    for arguments, message in (
        ((few,), "give at least 300"),
        ((none,), "contains no pairs"),
        ((tmp_path / "missing.tsv",), "missing.tsv"),
        ((few, "--figure", tmp_path / "picture.pdf"), "choose a name that ends in .png or .svg"),
    ):
        assert dragoman(monkeypatch, "calibrate", model, *arguments) == 2
        assert message in capsys.readouterr().err
    assert not (model / "confidence.json").exists()
