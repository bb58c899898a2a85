"""What a person who waits for `dragoman translate` sees."""

from collections.abc import Iterator

import pytest

from dragoman.cli.translate import _Bar
from dragoman.translation.results import LineProgress, Translation

DONE = Translation(
    text="",
    log_probability=0.0,
    score=0.0,
    alternatives=(),
    segments=0,
    cut=False,
    truncated=False,
    invalid_utf8=False,
)


def test_the_bar_moves_within_a_long_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    bar = _Bar("some engine")

    def translations() -> Iterator[Translation]:
        yield DONE
        for segments in (0, 64, 128):
            bar.on_progress(LineProgress(segments=segments, characters=segments * 50, all_characters=10_000))
            bar._progress.refresh()
        yield DONE

    assert list(bar.watch(translations())) == [DONE, DONE]
    shown = capfd.readouterr().err
    assert "1 lines (some engine)" in shown
    for count in ("0 segments", "64 segments, ", "128 segments, "):
        assert f"long line: {count}" in shown


def test_no_bar_is_shown_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    bar = _Bar("some engine")
    bar.on_progress(LineProgress(segments=0, characters=0, all_characters=10))
    assert list(bar.watch(iter([DONE]))) == [DONE]
    assert capfd.readouterr().err == ""
