"""Pages of HTML that contain all that they need: templates, text, data for scripts. Nothing from input is executed."""

import html
import json
import re
from collections.abc import Mapping

# Characters that could end the element with the data or start another element.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with each `{{name}}` replaced by the part of this name.

    All names are replaced in one pass, so that "{{style}}" in a part is not replaced.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def as_html(text: str) -> str:
    """Return a text as HTML for the content of an element or the value of a quoted attribute."""
    # Character references for all non-ASCII characters: a lone surrogate cannot be encoded as UTF-8.
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode()


def as_script_data(values: object) -> str:
    """Return values as JSON for the content of an element `script` of the type application/json.

    Raises:
        ValueError: if a number is not finite, which JSON does not have.
    """
    return json.dumps(values, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)
