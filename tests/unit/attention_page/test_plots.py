"""Pictures and reports of attention: reproducible bytes, and tokens in any script."""

import io
import re
from html import escape
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from dragoman.attention_page.kinds import Head
from dragoman.attention_page.map import AttentionMap
from dragoman.attention_page.plots import (
    LONGEST,
    draw_head,
    draw_heads,
    draw_measurements,
    draw_positions,
    draw_schedules,
)
from dragoman.attention_page.report import build_report, save_report, text_table
from dragoman.attention_page.statistics import HeadMeasurement, HeadMeasurements, measure
from dragoman.errors import CorpusError, ModelError, SettingsError
from tests.support.made_attention import made_attention

PNG = b"\x89PNG"


def words_in(svg: bytes) -> list[str]:
    return re.findall(r">([^<>\n]+)</text>", svg.decode())


def test_one_head_shows_its_tokens_and_weights() -> None:
    attention = made_attention()
    head = Head("encoder_decoder", 1, 0)
    svg = draw_head(attention, head, "svg")
    shown = words_in(svg)
    for token in (*attention.source, *attention.predicted):
        assert escape(token.replace("▁", "")) in shown
    assert "encoder-decoder attention, layer 2, head 1" in shown
    assert attention.encoder_decoder is not None
    largest = attention.encoder_decoder.weights[1, 0].max()
    assert f"{largest:.2f}".removeprefix("0") in shown
    assert draw_head(attention, head, "svg") == svg
    assert draw_head(attention, head, "png").startswith(PNG)
    assert draw_head(attention, head, "png") == draw_head(attention, head, "png")


def test_all_heads_are_a_grid() -> None:
    attention = made_attention(heads=3, layers=2)
    shown = words_in(draw_heads(attention, "svg", "encoder_self"))
    assert {"head 1", "head 2", "head 3", "layer 1", "layer 2"} <= set(shown)
    assert draw_heads(attention, "png").startswith(PNG)


@pytest.mark.parametrize(("heads", "tokens"), [(1, 1), (2, 1), (4, 1), (1, 30), (1, 60), (2, 60)])
def test_the_title_of_a_narrow_grid_fits(heads: int, tokens: int) -> None:
    attention = made_attention(["▁one", "</s>"], ["▁eins"] * tokens, heads=heads, layers=1, text="", translation="")
    pixels = imread(io.BytesIO(draw_heads(attention, "png", "encoder_decoder")))
    # [height, width, RGBA]: the title does not reach the sides.
    assert pixels[:, [0, 1, -2, -1], :3].min() == 1.0


@pytest.mark.parametrize(
    "tokens", [["▁灯", "是", "</s>"], ["▁المصباح", "</s>"], ["▁$x$", "$", "</s>"], ["▁\U000f0000", "▁"]]
)
def test_any_script_is_drawn_without_a_warning(tokens: list[str]) -> None:
    attention = made_attention(tokens, tokens[:-1], text="", translation="")
    assert draw_heads(attention, "png").startswith(PNG)
    assert b"<svg" in draw_head(attention, Head("encoder_self", 0, 0), "svg")


def test_messages_about_attention_that_cannot_be_drawn() -> None:
    with pytest.raises(ModelError, match="has no decoder self-attention; it has encoder-decoder attention"):
        draw_heads(made_attention(kinds=["encoder_decoder"]), "png", "decoder_self")
    with pytest.raises(SettingsError, match="there is no layer 1, head 9"):
        draw_head(made_attention(), Head("encoder_self", 0, 8), "png")
    with pytest.raises(CorpusError, match=f"at most {LONGEST} tokens"):
        draw_heads(made_attention(["▁a"] * LONGEST + ["</s>"], ["▁b"], heads=1, layers=1), "png")


def test_positions_and_schedules() -> None:
    assert draw_positions(np.zeros((8, 4)), "png").startswith(PNG)
    assert "paper" in words_in(draw_schedules({"paper": [0.1, 0.2, 0.1]}, "svg"))


def measurements_of(attention: AttentionMap) -> HeadMeasurements:
    """Return measurements with the statistics of one map and made-up importances."""
    statistics = [
        head for kind, arrays in attention.kinds() for head in measure(arrays.weights, kind, attention.keys(kind))
    ]
    importances = [None if i == 0 else (-1) ** i * i / 100 for i in range(len(statistics))]
    heads = tuple(
        HeadMeasurement(statistics=head, importance=importance)
        for head, importance in zip(statistics, importances, strict=True)
    )
    return HeadMeasurements(heads=heads, loss=1.5, sentences=2, target_tokens=9)


def test_a_report_has_a_row_for_each_head_and_escapes_its_title() -> None:
    measurements = measurements_of(made_attention())
    page = build_report(measurements, "<script>alert(1)</script>")
    assert "<script>alert" not in page
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>.*?</tr>', page)
    assert len(rows) == len(set(rows)) == len(measurements.heads)
    importances = [float(text) for text in re.findall(r"<td>([+-]\d\.\d{4})</td>", page)]
    assert importances == sorted(importances, reverse=True)
    assert len(importances) == len(measurements.heads) - 1
    least = min(measurements.heads[1:], key=lambda head: head.importance or 0.0)
    assert measurements.least_important(1) == [least.statistics.head]
    assert draw_measurements(measurements, "png").startswith(PNG)


def test_the_text_of_a_report_has_the_rows_of_its_page(tmp_path: Path) -> None:
    measurements = measurements_of(made_attention())
    save_report(measurements, "a title", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page == build_report(measurements, "a title")
    names = re.findall(r'<tr><th scope="row">(.*?)</th>', page)
    head, *rows = text_table(measurements).splitlines()
    assert head.split()[:4] == ["head", "attends", "to", "importance"]
    assert [row[: row.rindex("attention") + 13] for row in rows] == [f"{name:<29}"[: len(name)] for name in names]
    assert "encoder-decoder attention 2.4" in names


def test_a_map_is_saved_as_a_picture_of_one_kind_or_one_head(tmp_path: Path) -> None:
    attention = made_attention()
    head = Head("decoder_self", 1, 2)
    path = tmp_path / "picture.svg"
    attention.save(path)
    assert path.read_bytes() == draw_heads(attention, "svg", "encoder_decoder")
    attention.save(path, kind="encoder_self")
    assert path.read_bytes() == draw_heads(attention, "svg", "encoder_self")
    attention.save(path, head=head)
    assert path.read_bytes() == draw_head(attention, head, "svg") == attention.picture("svg", head=head)


def test_a_map_of_words_is_a_map() -> None:
    attention = made_attention()
    words = attention.words()
    assert isinstance(words, AttentionMap)
    assert words.source == ("The", "lamp", "was", "bright.", "</s>")
    assert (words.candidates, words.without) == ((), attention.without)
    assert words.encoder_self is not None
    assert words.encoder_self.details is None
    np.testing.assert_allclose(words.encoder_self.weights.sum(-1), 1.0, atol=1e-5)
    assert "The" in words.to_html()


def test_no_partial_file_is_left_after_an_error(tmp_path: Path) -> None:
    attention = made_attention()
    with pytest.raises(SettingsError, match="choose a name that ends in"):
        attention.save(tmp_path / "a.pdf")
    (tmp_path / "taken.png").mkdir()
    for path in (tmp_path / "nowhere" / "a.png", tmp_path / "taken.png"):
        with pytest.raises(OSError, match=r"."):
            attention.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["taken.png"]
