"""The report on all heads, as a page with a picture and a table that can be sorted, and as text. Takes figures only."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from dragoman.attention_page.plots import draw_measurements
from dragoman.attention_page.statistics import HeadMeasurement, HeadMeasurements
from dragoman.evaluation.tables import aligned
from dragoman.files import write_atomically

COLUMNS = {
    "importance": "growth of the loss without the head, nats per token",
    "entropy": "of its weights, in bits",
    "distance": "between query and key, in tokens",
    "previous": "weight to the token before, %",
    "next": "weight to the token after, %",
    "same": "weight to the token itself, or to the diagonal of source and target, %",
    "separator": "weight to punctuation and special symbols, %",
    "confidence": "largest weight, %",
}


def build_report(study: HeadMeasurements, title: str) -> str:
    """Return the page: one file that needs no network. Heads are sorted by importance, the most important first."""
    template = Template(files("dragoman.attention_page").joinpath("static/report.html").read_text(encoding="utf-8"))
    picture = base64.b64encode(draw_measurements(study, "png")).decode()
    return template.substitute(
        title=html.escape(title),
        about=html.escape(
            f"{study.sentences:,} sentences, {study.target_tokens:,} target tokens, loss {study.loss:.3f} nats per "
            "token with all heads."
        ),
        picture=picture,
        head="".join(
            f'<th scope="col" title="{html.escape(what)}"><button>{name}</button></th>'
            for name, what in COLUMNS.items()
        ),
        rows="\n".join(_row(each) for each in by_importance(study.heads)),
    )


def save_report(study: HeadMeasurements, title: str, path: Path) -> None:
    """Write the page. Raises OSError when it cannot be written there."""
    write_atomically(path, build_report(study, title).encode())


def text_table(study: HeadMeasurements) -> str:
    """Return the table as text: a line for each head, in the order of the page."""
    rows = [[_name(each), each.statistics.role[0], *_cells(each)] for each in by_importance(study.heads)]
    return aligned([["head", "looks at", *COLUMNS], *rows], names=2)


def by_importance(heads: Sequence[HeadMeasurement]) -> list[HeadMeasurement]:
    """Return the most important head first, those that cannot be switched off last."""
    return sorted(heads, key=lambda each: float("inf") if each.importance is None else -each.importance)


def _name(measurement: HeadMeasurement) -> str:
    return measurement.statistics.head.name


def _cells(measurement: HeadMeasurement) -> list[str]:
    """Return the figures of COLUMNS as text."""
    statistics = measurement.statistics
    shares = [statistics.previous, statistics.next, statistics.same, statistics.separator, statistics.confidence]
    return [
        "" if measurement.importance is None else f"{measurement.importance:+.4f}",
        f"{statistics.entropy:.2f}",
        f"{statistics.distance:.1f}",
        *(f"{100 * share:.0f}" for share in shares),
    ]


def _row(measurement: HeadMeasurement) -> str:
    role, share = measurement.statistics.role
    values = "".join(f"<td>{cell}</td>" for cell in _cells(measurement))
    return f'<tr><th scope="row">{_name(measurement)}</th><td>{role} <small>{share:.0%}</small></td>{values}</tr>'
