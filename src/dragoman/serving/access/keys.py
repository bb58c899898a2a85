"""API keys: their file, and their comparison in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.errors import SettingsError, quoted
from dragoman.settings import from_mapping, load_toml

SHORTEST_KEY = 16


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key with limits of its own, as a table [[keys]] of the file of keys.

    Attributes:
        name: Name in messages and counts; unique.
        key: The key itself, of at least 16 characters; or `sha256`.
        sha256: SHA-256 of the key in UTF-8, as 64 hexadecimal digits.
        requests_per_minute: Requests in a minute; None for that of the server.
        characters_per_minute: Characters in a minute; None for that of the server.
        quota: Characters in a calendar month (UTC); None for no such limit.
    """

    name: str
    key: str | None = field(default=None, repr=False)
    sha256: str | None = field(default=None, repr=False)
    requests_per_minute: int | None = None
    characters_per_minute: int | None = None
    quota: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise SettingsError("the name is empty")
        if (self.key is None) == (self.sha256 is None):
            raise SettingsError(f"{quoted(self.name)} must have either key or sha256")
        if self.key is not None and len(self.key) < SHORTEST_KEY:
            raise SettingsError(f"the key of {quoted(self.name)} must have at least {SHORTEST_KEY} characters")
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", self.sha256):
            raise SettingsError(f"sha256 of {quoted(self.name)} must be 64 hexadecimal digits")
        for name in ("requests_per_minute", "characters_per_minute", "quota"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(f"{name} of {quoted(self.name)} must be at least 1, not {value}")

    @property
    def digest(self) -> bytes:
        """SHA-256 of the key."""
        return bytes.fromhex(self.sha256) if self.sha256 is not None else _digest(self.key or "")


@dataclass(frozen=True, kw_only=True)
class _KeyFile:
    keys: tuple[Key, ...]


class KeyRing:
    """The keys that a server accepts.

    Args:
        keys: the keys; their names and digests must be unique.

    Raises:
        SettingsError: if a name or a key occurs twice.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = [(key.digest, key) for key in keys]
        names: set[str] = set()
        digests: set[bytes] = set()
        for digest, key in self._keys:
            if key.name in names:
                raise SettingsError(f"the name {quoted(key.name)} occurs twice")
            if digest in digests:
                raise SettingsError(f"the key of {quoted(key.name)} occurs twice")
            names.add(key.name)
            digests.add(digest)

    def find(self, presented: str) -> Key | None:
        """Return the key that a client sent, or None; the time does not depend on how much of a key is right."""
        digest = _digest(presented)
        found = None
        for known, key in self._keys:
            if hmac.compare_digest(known, digest):
                found = key
        return found


def read_keys(path: Path) -> KeyRing:
    """Read a file of keys in TOML: a table [[keys]] for each key, see `Key`.

    Raises:
        SettingsError: if the file cannot be read, is not valid, or contains no key.
    """
    keys = from_mapping(_KeyFile, load_toml(path), str(path), secret=True).keys
    if not keys:
        raise SettingsError(f"{path} contains no key: add a table [[keys]] with name and key")
    try:
        return KeyRing(keys)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
