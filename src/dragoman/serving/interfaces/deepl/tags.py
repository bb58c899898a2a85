"""The parameters of DeepL's interface for tags."""

from __future__ import annotations

import re
from typing import Literal

from dragoman.errors import quoted
from dragoman.serving.interfaces.parameters import Parameters
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.markup.tag_options import TagOptions

_NAME = re.compile(r"""[^\s<>/&"'=]+""")


def text_format(parameters: Parameters) -> Literal["text", "html", "xml"]:
    """Return the format that tag_handling names.

    Raises:
        RequestError: with status 400 if there is no such format.
    """
    if parameters.optional_text("tag_handling") is None:
        return "text"
    return "xml" if parameters.choice("tag_handling", "html", "xml") == "xml" else "html"


def tag_options(parameters: Parameters) -> TagOptions:
    """Return the options for tags. Without tag_handling they have no effect, as for DeepL.

    Raises:
        RequestError: with status 400 if a parameter is malformed.
    """
    in_html = text_format(parameters) == "html"
    return TagOptions(
        ignored=_names(parameters, "ignore_tags", lower=in_html),
        splitting=_names(parameters, "splitting_tags"),
        non_splitting=_names(parameters, "non_splitting_tags"),
        outline=parameters.choice("outline_detection", "1", "0", "true", "false") in ("1", "true"),
    )


def _names(parameters: Parameters, parameter: str, *, lower: bool = False) -> frozenset[str]:
    """Return names of elements, given as a list or separated by commas."""
    names = {name.strip() for value in parameters.texts(parameter) for name in value.split(",")} - {""}
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise RequestError(400, f"{parameter} contains {quoted(name)}: give names of elements, without brackets")
    return frozenset(name.lower() for name in names) if lower else frozenset(names)
