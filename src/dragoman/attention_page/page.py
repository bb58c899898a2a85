"""The attention page: one self-contained HTML file that shows all heads.

The page contains the weights as compressed float16 and draws all pictures with its own scripts. Its parts are in
`static`; the scripts are concatenated in the order of `SCRIPTS`.
"""

from __future__ import annotations

import base64
import hashlib
import math
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
from dragoman.html_page import as_html, as_script_data, fill_template
from dragoman.text.words import Words

# Largest number of tokens on either side. Pages of longer sentences would have tens of megabytes and be unreadable.
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
    "candidates",
    "translation",
    "prediction",
    "what_if",
    "main",
)
_STATIC = resources.files("dragoman.attention_page") / "static"


def build_page(attention: AttentionData, *, live: bool = False) -> str:
    """Return the page as HTML.

    Args:
        attention: the data to show.
        live: False for a page that needs neither network nor server. True for a page served by
            `serving.attention_server`: it may send requests to its own server, to switch several heads off.

    Raises:
        CorpusError: one of the sides has more than `LONGEST` tokens.
    """
    text = attention.source or attention.target
    for side, tokens in (("text", text), ("translation", () if attention.is_text else attention.target)):
        if len(tokens) > LONGEST:
            raise CorpusError(
                f"the {side} has {len(tokens)} tokens, and a page shows at most {LONGEST}: use a shorter sentence, or "
                "save the numbers only (.npz, .json)"
            )
    parts = {
        "title": as_html(attention.text[:80]),
        **_fixed_parts(live=live),
        "connect": "'self'" if live else "'none'",
        "payload": _payload(attention, live),
    }
    return fill_template(_read("page.html"), parts)


def content_hashes() -> tuple[list[str], list[str]]:
    """Return the hashes of the scripts and of the styles of a page that is not live, for a content security policy.

    A server whose policy permits no inline scripts permits exactly those of the page by their hashes.
    """
    scripts = _fixed_parts(live=False)
    return [_hash(scripts["d3"]), _hash(scripts["script"])], [_hash(scripts["style"])]


def _hash(part: str) -> str:
    # The template has a line feed on either side of each part.
    digest = hashlib.sha256(f"\n{part}\n".encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _fixed_parts(*, live: bool) -> dict[str, str]:
    """Return the styles and scripts, which are the same in every page."""
    return {
        "style": _read("style.css"),
        "d3": f"/*\n{_read('vendor/d3.LICENSE')}*/\n{_read('vendor/d3.min.js')}",
        "script": "\n".join(_read(f"{name}.js") for name in (*(("live",) if live else ()), *SCRIPTS)),
    }


def _payload(attention: AttentionData, live: bool) -> str:
    numbers = _Numbers()
    values = {
        "live": live,
        "isText": attention.is_text,
        "translates": attention.decoder_only or not attention.is_text,
        "text": attention.text,
        "translation": attention.translation,
        "logProbability": _finite(attention.log_probability),
        "rows": {
            "source": _row(attention.source, right_to_left=False),
            "target": _row(attention.target, right_to_left=attention.right_to_left),
            "predicted": _row(attention.predicted, right_to_left=attention.right_to_left),
        },
        "rightToLeft": attention.right_to_left,
        "kinds": {kind: _kind_entry(attention, kind, arrays, numbers) for kind, arrays in attention.kinds()},
        "roles": {"namedFrom": NAMED_FROM, "broadFrom": BROAD_FROM},
        "candidates": [
            [[candidate.token, _finite(candidate.probability)] for candidate in candidates]
            for candidates in attention.candidates
        ],
        "withAll": attention.with_all,
        "without": [
            {
                **result.head._asdict(),
                "translation": result.translation,
                "logProbability": _finite(result.log_probability),
            }
            for result in attention.without
        ],
        "numbers": numbers.packed(),
    }
    return as_script_data(values)


def _row(tokens: Sequence[str], *, right_to_left: bool) -> dict[str, object]:
    words = Words.from_tokens(tokens, right_to_left=right_to_left)
    return {"tokens": list(tokens), "words": list(words.texts), "starts": list(words.starts)}


def _kind_entry(attention: AttentionData, kind: Kind, arrays: AttentionArrays, numbers: _Numbers) -> dict[str, object]:
    causal = kind == "decoder_self"

    def visible(array: Float[np.ndarray, "N H T S"]) -> Float[np.ndarray, "N H ..."]:
        # A causal query attends only to keys up to its own position: [N, H, T, T] -> [N, H, T(T + 1)/2]
        return array[:, :, *np.tril_indices(array.shape[-1])] if causal else array

    details = arrays.details
    layers, heads, _, _ = arrays.weights.shape
    return {
        "layers": layers,
        "heads": heads,
        "weights": numbers.add(visible(arrays.weights)),
        "width": None if details is None else details.query.shape[-1],
        "scale": None if details is None else details.scale,
        "query": None if details is None else numbers.add(details.query),
        "key": None if details is None else numbers.add(details.key),
        "bias": None if details is None or details.bias is None else numbers.add(visible(details.bias)),
        "statistics": [
            _statistics_entry(statistics)
            for statistics in measure(arrays.weights, kind, attention.keys(kind), right_to_left=attention.right_to_left)
        ],
    }


def _statistics_entry(statistics: HeadStatistics) -> dict[str, object]:
    role, value = statistics.role
    return {
        "role": role,
        "roleValue": _finite(value),
        **{name: _finite(getattr(statistics, name)) for name in ("entropy", "distance", "confidence")},
    }


class _Numbers:
    """A sequence of arrays as float16; in each array, all high bytes precede the low bytes, which compresses better."""

    def __init__(self) -> None:
        self._bytes: list[bytes] = []
        self._count = 0

    def add(self, array: Float[np.ndarray, ...]) -> tuple[int, int]:
        """Append an array; return the index of its first value in the sequence, and its number of values."""
        # The values of a broken model may exceed the range of float16.
        limit = float(np.finfo(np.float16).max)
        # [n] -> [n, 2] bytes, the low one first
        halves = np.clip(array, -limit, limit).astype("<f2").reshape(-1, 1).view(np.uint8)
        self._bytes += [halves[:, 1].tobytes(), halves[:, 0].tobytes()]
        span = (self._count, len(halves))
        self._count += len(halves)
        return span

    def packed(self) -> str:
        """Return all arrays, compressed by zlib and encoded in base64."""
        return base64.b64encode(zlib.compress(b"".join(self._bytes))).decode()


def _finite(number: float | None) -> float | None:
    """Return a rounded number, or None for no number, infinity and NaN, which JSON does not have."""
    return round(number, 6) if number is not None and math.isfinite(number) else None


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
