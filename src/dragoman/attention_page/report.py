"""The report on all heads of a model: an HTML page with a picture and a sortable table, or a table as text."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from dragoman.attention_page.kinds import Kind
from dragoman.attention_page.plots import draw_measurements
from dragoman.attention_page.statistics import HeadMeasurement, HeadMeasurements
from dragoman.evaluation.tables import aligned
from dragoman.files import write_atomically

# Names of the columns of numbers, with their descriptions.
COLUMNS = {
    "importance": "increase of the loss without the head, in nats per token",
    "entropy": "entropy of the weights, in bits",
    "distance": "mean distance between query and key, in tokens",
    "previous": "weight on the previous token, in %",
    "next": "weight on the next token, in %",
    "same": "weight on the token itself, or on the diagonal of source and target, in %",
    "separator": "weight on punctuation and special symbols, in %",
    "confidence": "largest weight, in %",
}


def build_report(measurements: HeadMeasurements, title: str) -> str:
    """Return the report as HTML that needs no network, with the most important head first.

    Args:
        measurements: the measurements to report.
        title: title of the page, as plain text.
    """
    template = Template(files("dragoman.attention_page").joinpath("static/report.html").read_text(encoding="utf-8"))
    picture = base64.b64encode(draw_measurements(measurements, "png")).decode()
    return template.substitute(
        title=html.escape(title),
        about=html.escape(
            f"{measurements.sentences:,} {'texts' if measurements.is_text else 'sentences'}, "
            f"{measurements.target_tokens:,} {'predicted' if measurements.is_text else 'target'} tokens, loss "
            f"{measurements.loss:.3f} nats per token with all heads."
        ),
        picture=picture,
        head="".join(
            f'<th scope="col" title="{html.escape(description)}"><button>{name}</button></th>'
            for name, description in COLUMNS.items()
        ),
        rows="\n".join(
            _row(measurement, measurements.names) for measurement in sorted_by_importance(measurements.heads)
        ),
    )


def save_report(measurements: HeadMeasurements, title: str, path: Path) -> None:
    """Write the report as an HTML file.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, build_report(measurements, title).encode())


def text_table(measurements: HeadMeasurements) -> str:
    """Return the report as a table of text, with one line for each head, in the order of the page."""
    rows = [
        [head.statistics.head.name_among(measurements.names), head.statistics.role[0], *_cells(head)]
        for head in sorted_by_importance(measurements.heads)
    ]
    return aligned([["head", "attends to", *COLUMNS], *rows], names=2)


def sorted_by_importance(heads: Sequence[HeadMeasurement]) -> list[HeadMeasurement]:
    """Return the heads by decreasing importance; heads without a measured importance are last."""
    return sorted(heads, key=lambda head: float("inf") if head.importance is None else -head.importance)


def _cells(measurement: HeadMeasurement) -> list[str]:
    """Return the values of `COLUMNS` as text."""
    statistics = measurement.statistics
    shares = [statistics.previous, statistics.next, statistics.same, statistics.separator, statistics.confidence]
    return [
        "" if measurement.importance is None else f"{measurement.importance:+.4f}",
        f"{statistics.entropy:.2f}",
        f"{statistics.distance:.1f}",
        *(f"{100 * share:.0f}" for share in shares),
    ]


def _row(measurement: HeadMeasurement, names: dict[Kind, str]) -> str:
    name = measurement.statistics.head.name_among(names)
    role, share = measurement.statistics.role
    values = "".join(f"<td>{cell}</td>" for cell in _cells(measurement))
    return f'<tr><th scope="row">{name}</th><td>{role} <small>{share:.0%}</small></td>{values}</tr>'
