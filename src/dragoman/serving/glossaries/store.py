"""`GlossaryStore`: glossaries in an SQLite file."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dragoman.errors import StorageError
from dragoman.serving.glossaries.entries import Entries
from dragoman.serving.lines import Pair
from dragoman.serving.request_error import RequestError

MAX_GLOSSARIES = 1000
# The file has at most 1 GiB, in pages of 4 KiB.
_MAX_PAGES = 1 << 18
_VERSION = 1
_APPLICATION = 0x64726167
_BUSY_SECONDS = 5.0

_SCHEMA = """
CREATE TABLE glossary (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    created TEXT NOT NULL,
    size INTEGER NOT NULL
) STRICT;
CREATE INDEX glossary_owner ON glossary (owner, created);
CREATE TABLE entry (
    glossary TEXT NOT NULL REFERENCES glossary (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (glossary, place)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, kw_only=True)
class Glossary:
    """A stored glossary, without its entries.

    Attributes:
        identifier: a random UUID.
        name: its name, which need not be unique.
        pair: codes of the source and the target language.
        created: when it was stored, in UTC.
        size: number of entries.
    """

    identifier: str
    name: str
    pair: Pair
    created: datetime
    size: int


class GlossaryStore:
    """Glossaries in an SQLite file, each of which belongs to one owner.

    The methods block for the time of reading or writing the file, so an event loop calls them in a thread. Several
    threads and processes may use one file at the same time.

    Args:
        path: the file; it is created, with its directory, if it does not exist.

    Raises:
        StorageError: if the file cannot be opened, is damaged, or is not a file of glossaries of this version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as connection:
                self._check(connection)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"{path} cannot be used as a file of glossaries: {error}; move it away, and a new one is created"
            ) from error

    def create(self, owner: str, name: str, pair: Pair, entries: Entries) -> Glossary:
        """Store a glossary and return it.

        Raises:
            RequestError: with status 456 if the owner has `MAX_GLOSSARIES`, or the file is full; as `list`.
        """
        glossary = Glossary(
            identifier=str(uuid.uuid4()), name=name, pair=pair, created=datetime.now(UTC), size=len(entries)
        )
        with self._transaction() as connection:
            [count] = connection.execute("SELECT count(*) FROM glossary WHERE owner = ?", (owner,)).fetchone()
            if count >= MAX_GLOSSARIES:
                raise RequestError(456, f"there are {count:,} glossaries, which is the limit: delete one")
            row = (glossary.identifier, owner, name, *pair, glossary.created.isoformat(), glossary.size)
            connection.execute("INSERT INTO glossary VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            rows = ((glossary.identifier, place, *entry) for place, entry in enumerate(entries))
            connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)
        return glossary

    def list(self, owner: str) -> list[Glossary]:
        """Return the glossaries of an owner, oldest first.

        Raises:
            RequestError: with status 503 if the file is in use for too long, or can no longer be read.
        """
        with self._transaction(write=False) as connection:
            rows = connection.execute(f"{_SELECT} WHERE owner = ? ORDER BY created, id", (owner,)).fetchall()
        return [_glossary(row) for row in rows]

    def get(self, owner: str, identifier: str) -> Glossary:
        """Return a glossary of an owner.

        Raises:
            RequestError: with status 404 if the owner has no such glossary; as `list`.
        """
        with self._transaction(write=False) as connection:
            return _find(connection, owner, identifier)

    def entries(self, owner: str, identifier: str) -> Entries:
        """Return the entries of a glossary of an owner, in the order in which they were given.

        Raises:
            RequestError: as `get`.
        """
        with self._transaction(write=False) as connection:
            _find(connection, owner, identifier)
            rows = connection.execute(
                "SELECT source, target FROM entry WHERE glossary = ? ORDER BY place", (identifier,)
            ).fetchall()
        return tuple((source, target) for source, target in rows)

    def delete(self, owner: str, identifier: str) -> None:
        """Delete a glossary of an owner.

        Raises:
            RequestError: as `get`.
        """
        with self._transaction() as connection:
            _find(connection, owner, identifier)
            connection.execute("DELETE FROM glossary WHERE id = ?", (identifier,))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA max_page_count = {_MAX_PAGES}")
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Create the tables of a new file; check those of an existing one."""
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        [version] = connection.execute("PRAGMA user_version").fetchone()
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [tables] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not (version or application or tables):
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        elif (version, application) != (_VERSION, _APPLICATION):
            raise sqlite3.DatabaseError(f"its schema is not version {_VERSION} of the schema of glossaries")
        connection.execute("COMMIT")
        [report] = connection.execute("PRAGMA quick_check(1)").fetchone()
        if report != "ok":
            raise sqlite3.DatabaseError(f"it is damaged ({' '.join(report.split())})")

    @contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which is rolled back if the block raises."""
        try:
            with closing(self._connect()) as connection:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Errors of the Python module itself have no code.
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise RequestError(456, "there is no space for further glossaries: delete one") from error
            raise RequestError(503, "the glossaries cannot be used now: try again", retry_after=1) from error


_SELECT = "SELECT id, name, source, target, created, size FROM glossary"


def _glossary(row: tuple[str, str, str, str, str, int]) -> Glossary:
    identifier, name, source, target, created, size = row
    return Glossary(
        identifier=identifier, name=name, pair=(source, target), created=datetime.fromisoformat(created), size=size
    )


def _find(connection: sqlite3.Connection, owner: str, identifier: str) -> Glossary:
    row = connection.execute(f"{_SELECT} WHERE owner = ? AND id = ?", (owner, identifier)).fetchone()
    if row is None:
        raise RequestError(404, "there is no glossary with this glossary_id")
    return _glossary(row)
