"""The page of settings, from the dataclasses that read a run file: names, types, defaults and descriptions."""

import ast
import dataclasses
import html
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = "reference/settings.md"
INTRODUCTION = """# Settings

A run file is TOML; `dragoman train --config run.toml` reads it. `--set table.key=value` on the command line sets one
setting, in place of what the run file has. An unknown key and a value of another type are
reported before training begins.

```toml
preset = "small"

[model]
dropout = 0.3
norm_placement = "pre"

[tokenizer]
vocabulary_size = 8000

[training]
steps = 20000
patience = 5
```

The defaults below are those of the dataclasses. Where a run file has no value, `dragoman train` selects some of them by
the size of the corpus and by the budget, and prints what it selected:

"""
CORPUS_SIZES = (20_000, 100_000, 1_000_000, 5_000_000)
# Set from the tokenizer or the corpus, never by a user.
NOT_IN_A_RUN_FILE = ("source_vocabulary", "target_vocabulary", "vocabulary", "labels", "size", "image_size", "channels")
# Names, then their description: "steps, minutes: the budget", or with spaces in place of the colon.
DESCRIBED = re.compile(r"(?P<names>[a-z_]+(?:, [a-z_]+)*)(?::\s+|\s{2,})(?P<text>\S.*)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Return the page as Markdown."""
    from dragoman.models.registry import ARCHITECTURES
    from dragoman.run.config import RunConfig

    tables = [name for name, hint in typing.get_type_hints(RunConfig).items() if dataclasses.is_dataclass(hint)]
    lines = [INTRODUCTION, *selection(), "", "## Top level", "", *settings_table(RunConfig, "", leave_out=tables)]
    for name in tables:
        cls = typing.get_type_hints(RunConfig)[name]
        lines += ["", f"## [{name}] {{#{name}}}", "", summary(cls), "", *settings_table(cls, name)]
    lines += picture_tables()
    lines += ["", "## [model] {#model}", "", "The settings of `[model]` depend on `architecture`."]
    for name, architecture in ARCHITECTURES.items():
        lines += ["", f'### architecture = "{name}" {{#{name}}}', "", summary(architecture.config), ""]
        lines += settings_table(architecture.config, f"model-{name}", leave_out=NOT_IN_A_RUN_FILE)
        lines += ["", "Presets:", "", *presets(architecture.presets)]
    return "\n".join(lines) + "\n"


def picture_tables() -> Iterator[str]:
    """Yield the tables in which runs on pictures differ."""
    from dragoman.run.picture_config import GanRunConfig

    hints = typing.get_type_hints(GanRunConfig)
    yield from ("", "## Pictures {#pictures}", "", "In run files of `dragoman images train`:", "")
    yield from settings_table(GanRunConfig, "pictures", leave_out=("task", "architecture", "preset"))
    for name in ("data", "batching", "judging"):
        yield from ("", f"### [{name}] of pictures {{#pictures-{name}}}", "", summary(hints[name]), "")
        yield from settings_table(hints[name], f"pictures-{name}")


def selection() -> Iterator[str]:
    """Yield a table of what the size of a corpus selects."""
    from dragoman.run.config import defaults_for_size

    selected = [defaults_for_size(pairs) for pairs in CORPUS_SIZES]
    yield "| pairs | " + " | ".join(f"{pairs:,}" for pairs in CORPUS_SIZES) + " |"
    yield "|---|" + "---|" * len(selected)
    for field in dataclasses.fields(selected[0]):
        values = [getattr(size, field.name) for size in selected]
        yield f"| `{field.name}` | " + " | ".join(shown(value) for value in values) + " |"


def settings_table(cls: type[Any], prefix: str, leave_out: typing.Collection[str] = ()) -> Iterator[str]:
    """Yield a table of the fields of a dataclass."""
    hints, described = typing.get_type_hints(cls), descriptions(cls)
    yield "| setting | default | meaning |"
    yield "|---|---|---|"
    for field in dataclasses.fields(cls):
        if field.name in leave_out or not field.init or dataclasses.is_dataclass(hints[field.name]):
            continue
        default = "" if field.default is dataclasses.MISSING else shown(field.default)
        kind = kind_of(hints[field.name])
        meaning = described.get(field.name, "")
        # A sentence, whatever the style of the docstring.
        meaning = meaning[:1].upper() + meaning[1:] + ("" if meaning.endswith((".", "?")) or not meaning else ".")
        identifier = f"{prefix}-{field.name}".strip("-")
        name = f'<code id="{identifier}">{field.name}</code><br><small>{html.escape(kind)}</small>'
        yield f"| {name} | {default} | {cell(meaning)} |"


def presets(table: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table of presets, a row for each setting that one of them changes."""
    names = list(table)
    yield "| | " + " | ".join(f"`{name}`" for name in names) + " |"
    yield "|---|" + "---|" * len(names)
    for key in dict.fromkeys(key for values in table.values() for key in values):
        yield (
            f"| `{key}` | " + " | ".join(shown(table[name][key]) if key in table[name] else "" for name in names) + " |"
        )


def summary(cls: type[Any]) -> str:
    """Return the first paragraph of a docstring."""
    paragraph = (inspect.getdoc(cls) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def descriptions(cls: type[Any]) -> dict[str, str]:
    """Return the description of each field: a string below it, or a line of the docstring of its class or a base."""
    described: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            described |= from_docstring(inspect.cleandoc(base.__doc__ or "")) | from_strings(base)
    return described


def from_docstring(docstring: str) -> dict[str, str]:
    """Read descriptions from "name: text" or "name   text", with indented lines of continuation."""
    described: dict[str, str] = {}
    names: list[str] = []
    margin = 0
    for line in docstring.splitlines()[1:]:
        indent = len(line) - len(line.lstrip())
        match = DESCRIBED.fullmatch(line.strip())
        if not line.strip():
            names = []
        elif names and indent > margin:
            for name in names:
                described[name] += " " + line.strip()
        elif match:
            margin, names = indent, match["names"].split(", ")
            described.update(dict.fromkeys(names, match["text"]))
    return described


def from_strings(cls: type[Any]) -> dict[str, str]:
    """Read descriptions from the strings below the fields."""
    [body] = [
        node.body for node in ast.parse(textwrap.dedent(inspect.getsource(cls))).body if isinstance(node, ast.ClassDef)
    ]
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def kind_of(hint: Any) -> str:
    """Return what a value of this type is called."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return ", ".join(f'"{choice}"' for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(kind_of(argument) for argument in arguments)
    if origin is tuple:
        return "list"
    return {bool: "true or false", int: "whole number", float: "number", str: "text", types.NoneType: '"none"'}[hint]


def shown(value: object) -> str:
    """Return a value as a run file has it, in code."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif value is None:
        text = '"none"'
    elif isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, tuple):
        text = f"[{', '.join(map(str, value))}]"
    else:
        text = str(value)
    return f"`{text}`"


def cell(text: str) -> str:
    """Return text for a cell of a Markdown table."""
    return html.escape(text, quote=False).replace("|", "\\|").replace("*", "\\*").replace("$", "\\$")
