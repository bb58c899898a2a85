"""The page: one self-contained file in which every head can be seen.

The page draws what it shows itself, from numbers that it holds as compressed float16. Its parts are in `static`: files
by concept, put together here in the order of `SCRIPTS`.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
import zlib
from collections.abc import Sequence
from importlib import resources

import numpy as np
from jaxtyping import Float

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.attention_page.data import AttentionData
from dragoman.attention_page.kinds import Kind
from dragoman.attention_page.statistics import BROAD_FROM, NAMED_FROM, HeadStatistics, measure
from dragoman.errors import CorpusError
from dragoman.text.words import Words

# Longer sentences make a page of tens of megabytes, in which nothing can be made out.
LONGEST = 160
SCRIPTS = (
    "data",
    "colours",
    "tokens",
    "controls",
    "weight_table",
    "heads",
    "overview",
    "query_key",
    "graph",
    "translation",
    "what_if",
    "main",
)
# What could end the element that holds the payload, or begin another.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_STATIC = resources.files("dragoman.attention_page") / "static"


def build_page(attention: AttentionData, *, live: bool = False) -> str:
    """A page that needs neither network nor server.

    A live one is for `serving.attention`: it asks what it comes from, and nothing else, what the model says without
    several heads.

    Raises:
        CorpusError: when there are more than `LONGEST` tokens on either side.
    """
    for side, tokens in (("text", attention.source), ("translation", attention.target)):
        if len(tokens) > LONGEST:
            raise CorpusError(
                f"the {side} has {len(tokens)} tokens, and a page shows at most {LONGEST}: give a shorter sentence, or "
                "save the numbers alone (.npz, .json)"
            )
    parts = {
        "title": _as_html(attention.text[:80]),
        "style": _read("style.css"),
        "d3": f"/*\n{_read('vendor/d3.LICENSE')}*/\n{_read('vendor/d3.min.js')}",
        "connect": "'self'" if live else "'none'",
        "payload": _payload(attention, live).translate(_ESCAPES),
        "script": "\n".join(_read(f"{name}.js") for name in (*(("live",) if live else ()), *SCRIPTS)),
    }
    # In one go: what a part says is never taken for the name of another.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html"))


def _payload(attention: AttentionData, live: bool) -> str:
    numbers = _Numbers()
    values = {
        "live": live,
        "text": attention.text,
        "translation": attention.translation,
        "logProbability": _finite(attention.log_probability),
        "rows": {
            "source": _row(attention.source, right_to_left=False),
            "target": _row(attention.target, right_to_left=attention.right_to_left),
            "predicted": _row(attention.predicted, right_to_left=attention.right_to_left),
        },
        "rightToLeft": attention.right_to_left,
        "kinds": {kind: _described(attention, kind, arrays, numbers) for kind, arrays in attention.kinds()},
        "roles": {"namedFrom": NAMED_FROM, "broadFrom": BROAD_FROM},
        "candidates": [[[each.token, _finite(each.probability)] for each in some] for some in attention.candidates],
        "withAll": attention.with_all,
        "without": [
            {
                **each.head._asdict(),
                "translation": each.translation,
                "logProbability": _finite(each.log_probability),
            }
            for each in attention.without
        ],
        "numbers": numbers.packed(),
    }
    return json.dumps(values, allow_nan=False, separators=(",", ":"))


def _row(tokens: Sequence[str], *, right_to_left: bool) -> dict[str, object]:
    words = Words.of(tokens, right_to_left=right_to_left)
    return {"tokens": list(tokens), "words": list(words.texts), "starts": list(words.starts)}


def _described(attention: AttentionData, kind: Kind, arrays: AttentionArrays, numbers: _Numbers) -> dict[str, object]:
    causal = kind == "decoder_self"

    def half(array: Float[np.ndarray, "N H T S"]) -> Float[np.ndarray, "N H ..."]:
        # A causal query sees only the keys up to itself: [N, H, T, T] -> [N, H, T(T + 1)/2]
        return array[:, :, *np.tril_indices(array.shape[-1])] if causal else array

    details = arrays.details
    layers, heads, _, _ = arrays.weights.shape
    return {
        "layers": layers,
        "heads": heads,
        "weights": numbers.add(half(arrays.weights)),
        "width": None if details is None else details.query.shape[-1],
        "query": None if details is None else numbers.add(details.query),
        "key": None if details is None else numbers.add(details.key),
        "bias": None if details is None or details.bias is None else numbers.add(half(details.bias)),
        "statistics": [
            _figures(each)
            for each in measure(arrays.weights, kind, attention.keys(kind), right_to_left=attention.right_to_left)
        ],
    }


def _figures(statistics: HeadStatistics) -> dict[str, object]:
    role, figure = statistics.role
    return {
        "role": role,
        "figure": _finite(figure),
        **{name: _finite(getattr(statistics, name)) for name in ("entropy", "distance", "confidence")},
    }


class _Numbers:
    """Arrays as one run of float16, each with all its high bytes before its low ones, which compresses better."""

    def __init__(self) -> None:
        self._bytes: list[bytes] = []
        self._count = 0

    def add(self, array: Float[np.ndarray, ...]) -> tuple[int, int]:
        """Put an array in; returns the number of its first value, and of values."""
        # A broken model's numbers may lie beyond what float16 holds.
        limit = float(np.finfo(np.float16).max)
        # [n] -> [n, 2] bytes, the low one first
        halves = np.clip(array, -limit, limit).astype("<f2").reshape(-1, 1).view(np.uint8)
        self._bytes += [halves[:, 1].tobytes(), halves[:, 0].tobytes()]
        place = (self._count, len(halves))
        self._count += len(halves)
        return place

    def packed(self) -> str:
        """All of them, as zlib's deflate in base64."""
        return base64.b64encode(zlib.compress(b"".join(self._bytes))).decode()


def _finite(number: float) -> float | None:
    """JSON knows neither infinity nor NaN."""
    return round(number, 6) if math.isfinite(number) else None


def _as_html(text: str) -> str:
    # References in place of other characters: half a surrogate pair could not be written as UTF-8.
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode()


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
