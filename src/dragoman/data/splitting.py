"""Validation split off by a hash of the folded source.

"Delete 3 files?" and "Delete 7 files!" are one sentence for this purpose: a model that has seen one
in training has all but seen the other. So the split looks at the *folded* source, and every pair
with that folded source goes to the same side.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable

# {name}, {{ name }}, %{name}, %(name)s, %1$s, %s, %d: what stands for something else in a message.
PLACEHOLDER = re.compile(r"%?\{+[^{}]*\}+|%\([^()]*\)[a-z]|%(?:\d+\$)?[sdif@]\b", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")


def fold(text: str) -> str:
    """Fold away case, compatibility forms, values of numbers, punctuation and placeholders.

    Placeholders go, every run of digits becomes one "0", punctuation and symbols become spaces,
    white space is collapsed and trimmed. The result may be empty ("..." or "{name}").
    """
    text = unicodedata.normalize("NFKC", PLACEHOLDER.sub(" ", text)).casefold()
    text = _DIGITS.sub("0", text)
    # Categories: P punctuation, S symbols, Z separators, C control. Letters, marks, numbers stay.
    kept = (" " if unicodedata.category(letter)[0] in "PSZC" else letter for letter in text)
    return " ".join("".join(kept).split())


def is_validation(source: str, share: float, seed: int = 0) -> bool:
    """Whether the pair with this source belongs to validation, of which `share` (0 to 1) is wanted.

    A pure function of (fold(source), share, seed). A larger share contains every smaller one.
    """
    return is_selected(fold(source), share, seed)


def is_selected(text: str, share: float, seed: int = 0) -> bool:
    """Return whether a text is among the `share` (0 to 1) of all texts that its hash selects."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(digest, "little") < share * 2**64


def count_keys(sources: Iterable[str], limit: int) -> int:
    """Return the number of different folded sources, or `limit` if there are at least that many."""
    keys: set[str] = set()
    for source in sources:
        keys.add(fold(source))
        if len(keys) == limit:
            break
    return len(keys)
