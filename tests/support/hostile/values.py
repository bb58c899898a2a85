"""Unexpected values for settings and headers."""

import random
from typing import Any

from tests.support.hostile.folder import Raw

NUMBERS: list[Any] = [
    *(0, -1, 1, 2, 3, 5, 255, 2**15, 2**16, 10**6, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30),
    *(-(2**31), -(2**63), 0.5, -0.0, 1.0, 1e308, 5e-324),
    *(Raw(text) for text in ("NaN", "Infinity", "-Infinity", "1e999", "1E400", "9" * 5000, "-" + "9" * 400)),
]
TEXTS: list[Any] = [
    "",
    "none",
    "relu",
    "a\nb",
    "\x1b[31mred\x1b[0m\r\x07",
    "\0",
    "../../etc/passwd",
    "x" * 100_000,
    "\u202etxet",
    "\u2028",
    "{name}%s%n",
    Raw(r'"\ud800"'),
    Raw(r'"\udcff\ud834"'),
]
OTHERS: list[Any] = [
    *(None, True, False, [], {}, [[]], [1, 2], {"a": 1}, ["transformer"], {"transformer": {}}, [None] * 10_000),
    Raw("[" * 500 + "]" * 500),
    Raw("[" * 100_000 + "]" * 100_000),
    Raw('{"a":' * 50_000 + "1" + "}" * 50_000),
]


def any_value(draw: random.Random) -> Any:
    return draw.choice(draw.choice([NUMBERS, NUMBERS, TEXTS, OTHERS]))


def shown(value: Any) -> str:
    """Return a value as shown in a recipe: shortened if it is long."""
    text = value.text if isinstance(value, Raw) else repr(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"
