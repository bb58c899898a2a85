"""The printed matrix of positions of a lecture: 4 positions, d_model 4, base 100; and the verb `positions`."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.layers.positions import sinusoidal_table
from tests.support.command_line import dragoman

ROWS = np.array([[0, 1, 0, 1], [0.84, 0.54, 0.10, 1.0], [0.91, -0.42, 0.20, 0.98], [0.14, -0.99, 0.30, 0.96]])
ARGUMENTS = ("positions", "--length", "4", "--d-model", "4", "--base", "100")


def test_the_matrix_of_the_lecture() -> None:
    np.testing.assert_allclose(sinusoidal_table(4, 4, base=100.0).numpy(), ROWS, rtol=0, atol=0.005)


def test_the_printed_numbers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert dragoman(monkeypatch, *ARGUMENTS) == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = np.loadtxt(lines)
    np.testing.assert_allclose(numbers, ROWS, rtol=0, atol=0.005)
    np.testing.assert_allclose(numbers, sinusoidal_table(4, 4, base=100.0).numpy(), rtol=0, atol=1e-6)
    assert len({len(line) for line in lines}) == 1


def test_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert dragoman(monkeypatch, *ARGUMENTS, "--out", tmp_path / "positions.png") == 0
    assert (tmp_path / "positions.png").read_bytes().startswith(b"\x89PNG")
    assert dragoman(monkeypatch, *ARGUMENTS, "--out", tmp_path / "positions.svg") == 0
    assert "sinusoidal positions, base 100" in (tmp_path / "positions.svg").read_text()
    assert capsys.readouterr().out.split() == [str(tmp_path / f"positions.{form}") for form in ("png", "svg")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--length", "0"), "--length must be at least 1, not 0"),
        (("--d-model", "3"), "--d-model must be even, not 3"),
        (("--base", "0"), "--base: position_base must be at least 1"),
        (("--base", "nan"), "--base: position_base must be at least 1"),
        (("--length", "2000000", "--d-model", "1000"), "more than 10,000,000 numbers"),
        (("--out", "positions.pdf"), "positions.pdf: choose a name that ends in .png, .svg"),
        (("--out", "nowhere/positions.png"), "nowhere/positions.png cannot be written"),
    ],
)
def test_mistakes(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dragoman(monkeypatch, "positions", *arguments) == 2
    assert message in capsys.readouterr().err
