"""Rendering of matplotlib figures to reproducible bytes, with text in any script."""

import io
import warnings
from pathlib import Path
from typing import Literal

from matplotlib import font_manager, rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text

Format = Literal["png", "svg"]
# The font that matplotlib contains.
FONT = "DejaVu Sans"


def render(figure: Figure, form: Format) -> bytes:
    """Return a figure as PNG or SVG; equal figures give equal bytes.

    Text is drawn in installed fonts that cover its characters. A character that is in no font is drawn as a box.
    """
    texts = [artist for artist in figure.findobj(Text) if isinstance(artist, Text)]
    fonts = _fonts("".join(text.get_text() for text in texts))
    data = io.BytesIO()
    # A fixed hash salt makes the output reproducible; text in an SVG stays text, which can be searched and copied.
    with rc_context({"svg.hashsalt": "dragoman", "svg.fonttype": "none"}), warnings.catch_warnings():
        # A character that is in no font of this machine is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        for text in texts:
            text.set_fontfamily(fonts)
        figure.savefig(data, format=form, metadata={"Software": None} if form == "png" else {"Date": None})
    return data.getvalue()


def _fonts(texts: str) -> list[str]:
    """Return matplotlib's font, followed by installed fonts that cover the remaining characters of `texts`.

    At each step, the font that covers most of the remaining characters is added.
    """
    fonts = [FONT]
    missing = {ord(character) for character in texts} - _characters(font_manager.findfont(FONT))
    missing -= {ord("\n")}
    if missing:
        by_name = {entry.name: entry.fname for entry in font_manager.fontManager.ttflist if entry.style == "normal"}
        while missing:
            covered = {name: len(missing & _characters(path)) for name, path in sorted(by_name.items())}
            best = max(covered, key=lambda name: covered[name], default=None)
            if best is None or not covered[best]:
                break
            fonts.append(best)
            missing -= _characters(by_name.pop(best))
    return fonts


def _characters(path: str | Path) -> set[int]:
    try:
        return set(font_manager.get_font(str(path)).get_charmap())
    except (OSError, RuntimeError):
        return set()
