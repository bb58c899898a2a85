"""`TagOptions`: what the tags of a text mean for its translation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TagOptions:
    """What the tags of HTML or XML mean.

    Names of elements are as they are written, with their prefix; in HTML, in lower case. The last three are for XML.

    Attributes:
        ignored: elements whose content is not translated.
        splitting: elements that separate texts, wherever they are.
        non_splitting: elements that do not separate texts, unless they are `splitting`, too.
        outline: True if an element separates texts unless it is inside an element that directly contains text.
    """

    ignored: frozenset[str] = frozenset()
    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    outline: bool = True
