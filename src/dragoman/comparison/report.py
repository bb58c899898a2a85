"""Report of a comparison: tables in Markdown, a figure, and an HTML page with both."""

import html
import io
import platform
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from dragoman import __version__
from dragoman.comparison.compare import Comparison
from dragoman.comparison.study_task import StudyTask
from dragoman.comparison.study_tasks import study_task
from dragoman.comparison.trial import Point, TrialResult
from dragoman.files import write_atomically
from dragoman.printing import printable
from dragoman.threads import available_cpus
from dragoman.training.metrics import METRICS, Metric

# A palette that is also distinguishable with colour blindness (Okabe and Ito 2008). In greyscale, the markers differ.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dvp*"

# Heading of a column, and its cell for a result.
Column = tuple[str, Callable[[TrialResult], str]]


def columns(task: StudyTask) -> list[Column]:
    """Return the columns of the tables of a task."""
    return [
        ("variant", lambda result: result.name),
        ("parameters", lambda result: f"{result.parameters / 1e6:.2f} M"),
        ("updates", lambda result: f"{result.updates:,}"),
        (task.tokens, lambda result: f"{result.tokens / 1e6:.2f} M"),
        ("minutes", lambda result: f"{result.seconds / 60:.1f}"),
        ("training tokens/s", lambda result: f"{result.training_tokens_per_second:,.0f}"),
        ("validation loss", lambda result: f"{result.curve[-1].metrics['loss']:.3f}"),
        *(_test_column(METRICS[name]) for name in task.metrics),
        (task.speed, lambda result: f"{result.test.tokens_per_second:,.0f}"),
        ("peak memory", lambda result: f"{result.peak_megabytes:,.0f} MB"),
    ]


def _test_column(metric: Metric) -> Column:
    return f"test {metric.label}", lambda result: f"{result.test.metrics[metric.name]:{metric.format}}"


def write_report(comparison: Comparison, out: Path) -> None:
    """Write comparison.md, comparison.svg, comparison.png and comparison.html into `out`."""
    write_atomically(out / "comparison.md", markdown(comparison).encode())
    picture = draw(comparison)
    for kind in ("svg", "png"):
        write_atomically(out / f"comparison.{kind}", render(picture, kind))
    write_atomically(out / "comparison.html", page(comparison, render(picture, "svg").decode()).encode())


def tables(comparison: Comparison) -> list[tuple[str, Sequence[TrialResult]]]:
    """Return the two tables, by time and by tokens, each with its title."""
    tokens = study_task(comparison.study.task).tokens
    minutes, updates = comparison.request["minutes"], comparison.by_tokens[0].updates
    return [
        (f"The same wall-clock time: {minutes:g} minutes", comparison.by_time),
        (f"The same {tokens}: {updates:,} updates on the same batches", comparison.by_tokens),
    ]


def conditions(comparison: Comparison) -> list[str]:
    """Return the conditions of the comparison, one per line: data, metrics, hardware and versions."""
    request, task = comparison.request, study_task(comparison.study.task)
    corpora = ", ".join(printable(Path(part).name) for name in request["corpora"] for part in name.split(","))
    test = request["test"]
    where = (
        f"on {printable(Path(test.split(',')[0]).name)}"
        if test
        else f"on the {task.held_out}, by which the weights were also selected: use --test for unbiased metrics"
    )
    measured = _listed([METRICS[name].label for name in task.metrics], "and")
    methods = _listed(list(dict.fromkeys(result.test.method for result in comparison.by_time)), "or")
    cores = available_cpus()
    return [
        f"Trained on {corpora}; test {measured} {where}, {methods}.",
        "All variants use the tokenizer, the order of batches and the optimizer of the first variant. Each is trained "
        "once, with one seed: small differences are not significant.",
        *(
            f"{variant.name}: peak learning rate {variant.rate:g} times that of {comparison.study.variants[0].name}."
            for variant in comparison.study.variants
            if variant.rate != 1
        ),
        task.condition,
        f"{platform.machine()}, {cores} cores; dragoman {__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}; {date.today().isoformat()}.",
    ]


def markdown(comparison: Comparison) -> str:
    """Return both tables and the conditions of the comparison as Markdown."""
    shown = columns(study_task(comparison.study.task))
    lines = [f"# {comparison.study.question}", ""]
    for title, results in tables(comparison):
        lines += [f"## {title}", "", _row([name for name, _ in shown]), _row(["---"] * len(shown))]
        lines += [_row([cell(result) for _, cell in shown]) for result in results]
        lines.append("")
    lines += [f"- {line}" for line in conditions(comparison)]
    lines += ["", "| variant | shape |", "|---|---|"]
    lines += [_row([result.name, result.shape]) for result in comparison.by_time]
    return "\n".join(lines) + "\n"


def draw(comparison: Comparison) -> Figure:
    """Draw metrics of the validations over time and over tokens."""
    task = study_task(comparison.study.task)
    rows = len(task.curves)
    figure = Figure(figsize=(11, 0.8 + 3.2 * rows), dpi=150, layout="constrained")
    grid = figure.subplots(rows, 2, sharey="row", squeeze=False)
    for (left, right), (name, label) in zip(grid, task.curves.items(), strict=True):
        _draw(left, comparison.by_time, lambda point: point.seconds / 60, name)
        _draw(right, comparison.by_tokens, lambda point: point.tokens, name)
        left.set(ylabel=label)
        right.xaxis.set_major_formatter(EngFormatter(sep=""))
    grid[0][0].set(title="Equal time")
    grid[0][1].set(title=f"Equal {task.tokens}")
    grid[-1][0].set(xlabel="minutes")
    grid[-1][1].set(xlabel=task.tokens)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def render(figure: Figure, kind: str) -> bytes:
    """Return the figure as a file of kind "svg" or "png"; the same values give the same bytes."""
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return file.getvalue()


def page(comparison: Comparison, picture: str) -> str:
    """Return a self-contained HTML page with the figure, the tables and the conditions.

    Args:
        comparison: the comparison.
        picture: the figure as SVG.
    """
    shown = columns(study_task(comparison.study.task))
    parts = []
    for title, results in tables(comparison):
        head = "".join(f"<th>{html.escape(name)}</th>" for name, _ in shown)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell(result))}</td>" for _, cell in shown) + "</tr>\n"
            for result in results
        )
        parts.append(
            f"<h2>{html.escape(title)}</h2>\n<div class=wide><table><thead><tr>{head}</tr></thead>\n"
            f"<tbody>{body}</tbody></table></div>"
        )
    items = "".join(f"<li>{html.escape(line)}</li>" for line in conditions(comparison))
    shapes = "".join(
        f"<dt>{html.escape(result.name)}</dt><dd>{html.escape(result.shape)}</dd>" for result in comparison.by_time
    )
    question = html.escape(comparison.study.question)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{question}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
figure {{ margin: 0; background: white; }} figure svg {{ width: 100%; height: auto; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
dt {{ font-weight: 600; }} dd {{ margin: 0 0 .4rem 1rem; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #181818; color: #ddd; }} th, td {{ border-color: #444; }} }}
</style></head><body>
<h1>{question}</h1>
<figure>{picture[picture.index("<svg") :]}</figure>
{"".join(parts)}
<h2>Conditions</h2><ul>{items}</ul>
<dl>{shapes}</dl>
</body></html>
"""


def _draw(axes: Axes, results: Sequence[TrialResult], x: Callable[[Point], float], metric: str) -> None:
    for number, result in enumerate(results):
        axes.plot(
            [x(point) for point in result.curve],
            [point.metrics[metric] for point in result.curve],
            label=result.name,
            color=_COLOURS[number % len(_COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            linewidth=1.5,
            markersize=4.5,
        )
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _listed(items: Sequence[str], conjunction: str) -> str:
    """Return the items as a list in a sentence, such as "a, b and c"."""
    *first, last = items
    return f"{', '.join(first)} {conjunction} {last}" if first else last
