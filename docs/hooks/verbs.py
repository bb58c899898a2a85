"""The page of verbs, from what `dragoman VERB --help` prints."""

import contextlib
import html
import io
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest.mock import patch

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = "reference/verbs.md"
INTRODUCTION = """# Verbs

Every verb with its options, as `dragoman VERB --help` prints them. An option that takes a value is followed by its kind
in capitals; a verb that reads a corpus accepts TSV (source, tab, target), JSONL (keys `source` and `target`), and two
parallel files joined by a comma, each also compressed as `.gz` or `.zst`.

Exit status: 0 for success, 1 for a failure such as a full disk, 2 for a mistake in the arguments or in the input, and
128 plus the number of the signal after an interruption (130 for Ctrl-C).
"""
# In columns; wider help texts have their boxes side by side. Lines are also broken within words such as "a.en,a.de":
# only a space that is there at every width separates two words.
WIDTHS = (129, 115, 101)
TITLE = re.compile(r"^╭─ (?P<title>.*?) ─*╮$")


@dataclass
class HelpText:
    """The parts of a help text."""

    usage: str = ""
    description: list[str] = field(default_factory=list)
    groups: list["Group"] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)


@dataclass
class Group:
    """A box of a help text: its title, what stands above a line, and name and description of each argument."""

    title: str
    introduction: str = ""
    arguments: list[tuple[str, str]] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a line: a name with or without its description, or more of the description; or a rule."""
        if set(line) == {"─"}:
            self.introduction = " ".join(name for name, _ in self.arguments)
            self.arguments = []
        elif self.arguments and self.arguments[-1][0].count("{") > self.arguments[-1][0].count("}"):
            # A list of choices that is longer than a line.
            name, description = self.arguments[-1]
            self.arguments[-1] = (name + line.strip(), description)
        elif line.startswith(" ") and self.arguments:
            name, description = self.arguments[-1]
            self.arguments[-1] = (name, f"{description} {line.strip()}".strip())
        elif line:
            name, _, description = re.sub(r"  +", "\t", line, count=1).partition("\t")
            self.arguments.append((name, description))

    def join_words(self, other: "Group") -> None:
        """Remove the spaces that `other`, the same group at another width, does not have."""
        self.introduction = common(self.introduction, other.introduction)
        pairs = zip(self.arguments, other.arguments, strict=True)
        self.arguments = [(name, common(mine, theirs)) for (name, mine), (_, theirs) in pairs]


def common(first: str, second: str) -> str:
    """Return the text of both, which differ in spaces only, with the spaces that both have.

    Raises:
        ValueError: when they differ otherwise.
    """
    letters, ends = first.replace(" ", ""), word_ends(first) & word_ends(second)
    if letters != second.replace(" ", ""):
        raise ValueError(f"help texts differ: {first!r}, {second!r}")
    return "".join(letter + " " * (end in ends) for end, letter in enumerate(letters, 1)).rstrip()


def word_ends(text: str) -> set[int]:
    """Return the number of letters before the end of each word."""
    return set(itertools.accumulate(map(len, text.split())))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    sections = [section(verb, read_help(verb)) for verb in verbs()]
    files.append(File.generated(config, PAGE, content="\n".join([INTRODUCTION, *sections])))
    return files


def verbs() -> Iterator[str]:
    """Yield the verbs in the order of --help; actions such as "corpus list" follow their verb."""
    from dragoman.cli import VERBS

    for name in VERBS:
        yield name
        actions = re.search(r"\{([\w,-]+)\}$", parse(help_of(name, WIDTHS[0])).usage)
        if actions:
            yield from (f"{name} {action}" for action in actions[1].split(","))


def read_help(verb: str) -> HelpText:
    """Return the help text of a verb, with words as they are in the code."""
    first, *others = (parse(help_of(verb, width)) for width in WIDTHS)
    for number, group in enumerate(first.groups):
        for other in others:
            group.join_words(other.groups[number])
    return first


def help_of(verb: str, width: int) -> str:
    """Return what the command line prints for a verb and --help."""
    from dragoman.cli import run

    # Boxes are drawn in an encoding that has them.
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    environment = {"COLUMNS": str(width), "NO_COLOR": "1"}
    arguments = [*verb.split(), "--help"]
    with (
        patch.dict(os.environ, environment),
        patch("sys.argv", ["dragoman", *arguments]),
        contextlib.redirect_stdout(printed),
    ):
        run(arguments)
    printed.seek(0)
    return printed.read()


def parse(text: str) -> HelpText:
    """Split a help text into its parts.

    Raises:
        ValueError: when it does not look as expected.
    """
    parts = HelpText()
    in_box = False
    for line in text.splitlines():
        if title := TITLE.match(line):
            parts.groups.append(Group(title["title"]))
            in_box = True
        elif line.startswith("╰"):
            in_box = False
        elif in_box:
            parts.groups[-1].add(line.strip("│").rstrip()[1:])
        elif line.startswith("usage:"):
            parts.usage = line.removeprefix("usage:").strip()
        else:
            (parts.closing if parts.groups else parts.description).append(line.rstrip())
    if not parts.usage or not parts.groups:
        raise ValueError(f"not a help text: {text[:200]!r}")
    return parts


def section(verb: str, parts: HelpText) -> str:
    """Return a verb as Markdown: what it does, how it is used, a table for each group of options."""
    lines = [
        f"{'#' * (2 + verb.count(' '))} {verb}",
        "",
        " ".join(parts.description).strip(),
        "",
        "```text",
        parts.usage,
        "```",
        "",
    ]
    for group in parts.groups:
        # Subcommands have sections of their own.
        if group.title == "subcommands":
            continue
        arguments = [(name, description) for name, description in group.arguments if not name.startswith("-h,")]
        if not arguments:
            continue
        heading = f"<strong>{html.escape(group.title.capitalize())}</strong>"
        lines += [f'<p class="group">{heading} {with_code(group.introduction)}</p>', '<table class="options">']
        lines += [
            f"<tr><td><code>{html.escape(name)}</code></td><td>{with_code(description)}</td></tr>"
            for name, description in arguments
        ]
        lines += ["</table>", ""]
    examples = "\n".join(parts.closing).strip()
    if examples:
        heading, _, commands = examples.partition("\n")
        lines += [heading, "", "```sh", *(line.removeprefix("  ") for line in commands.splitlines()), "```", ""]
    return "\n".join(lines)


def with_code(text: str) -> str:
    """Return plain text as HTML; what is in backticks is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text, quote=False))
