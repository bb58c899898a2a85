"""The report on all heads: a page with a picture and a table that can be sorted. Takes figures only."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from importlib.resources import files
from string import Template

from dragoman.attention_page.kinds import NAMES
from dragoman.attention_page.plots import draw_study
from dragoman.attention_page.statistics import HeadFigures, HeadStudy

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


def build_report(study: HeadStudy, title: str) -> str:
    """The page: one file that needs no network. Heads stand by importance, the most important first."""
    template = Template(files("dragoman.attention_page").joinpath("static/report.html").read_text(encoding="utf-8"))
    picture = base64.b64encode(draw_study(study, "png")).decode()
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


def by_importance(heads: Sequence[HeadFigures]) -> list[HeadFigures]:
    """The most important head first; those that cannot be switched off last."""
    return sorted(heads, key=lambda each: float("inf") if each.importance is None else -each.importance)


def name_of(figures: HeadFigures) -> str:
    """Such as "encoder self-attention 2.3": layer and head, from 1."""
    head = figures.statistics.head
    return f"{NAMES[head.kind]} {head.layer + 1}.{head.head + 1}"


def cells(figures: HeadFigures) -> list[str]:
    """The figures of COLUMNS as text."""
    statistics = figures.statistics
    shares = [statistics.previous, statistics.next, statistics.same, statistics.separator, statistics.confidence]
    return [
        "" if figures.importance is None else f"{figures.importance:+.4f}",
        f"{statistics.entropy:.2f}",
        f"{statistics.distance:.1f}",
        *(f"{100 * share:.0f}" for share in shares),
    ]


def _row(figures: HeadFigures) -> str:
    role, share = figures.statistics.role
    values = "".join(f"<td>{cell}</td>" for cell in cells(figures))
    return f'<tr><th scope="row">{name_of(figures)}</th><td>{role} <small>{share:.0%}</small></td>{values}</tr>'
