"""Docstrings as mkdocstrings reads them: the code under "Example:" is displayed as code."""

import re
import textwrap
from typing import Any

import griffe

# The heading, and all lines that are indented below it.
EXAMPLE = re.compile(r"^(?P<indent> *)Example:\n(?P<body>(?:(?P=indent) +\S.*\n?| *\n)+)", re.MULTILINE)


class Examples(griffe.Extension):
    """Extension of griffe that turns "Example:" into a section of code blocks."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(section, obj.docstring.value + "\n").rstrip()


def section(match: re.Match[str]) -> str:
    """Return a section that griffe reads: prompts are code to it, anything else has to be indented as code."""
    body = textwrap.dedent(match["body"]).strip("\n")
    if ">>>" not in body and "```" not in body:
        body = textwrap.indent(body, "    ")
    return f"{match['indent']}Examples:\n{textwrap.indent(body, match['indent'] + '    ')}\n\n"
