"""Entries of a glossary as tab-separated or comma-separated values."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from dragoman.errors import quoted
from dragoman.serving.request_error import RequestError

# Pairs of a source term and a target term, in the order in which they were given.
Entries = tuple[tuple[str, str], ...]

MAX_ENTRIES = 10_000
MAX_TERM_BYTES = 1024
# C0 and C1 control characters, and the line breaks of Unicode.
CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def parse_entries(text: str, entries_format: str) -> Entries:
    """Return the entries in a text.

    Args:
        text: one entry in each line; empty lines are skipped.
        entries_format: "tsv", or "csv"; rows of csv may have two further columns with the codes of the languages, which
            are not read.

    Raises:
        RequestError: with status 400 for an unknown format; for no entry or more than `MAX_ENTRIES`; for a row without
            two terms; for a term that is empty, longer than `MAX_TERM_BYTES`, or contains a control character; and for
            a source term that is given twice.
    """
    if entries_format == "tsv":
        rows = _tsv_rows(text)
    elif entries_format == "csv":
        rows = _csv_rows(text)
    else:
        raise RequestError(400, f"entries_format must be tsv or csv, not {quoted(entries_format)}")
    entries: dict[str, str] = {}
    for number, row in rows:
        source, target = (_term(term, number) for term in row)
        if source in entries:
            raise RequestError(400, f"entries, line {number}: the source term {quoted(source)} is given twice")
        if len(entries) == MAX_ENTRIES:
            raise RequestError(400, f"entries must contain at most {MAX_ENTRIES:,} entries")
        entries[source] = target
    if not entries:
        raise RequestError(400, "entries must contain at least one entry")
    return tuple(entries.items())


def to_tsv(entries: Entries) -> str:
    """Return the entries as tab-separated values, one entry in each line."""
    return "\n".join(f"{source}\t{target}" for source, target in entries)


def _tsv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip(" \r"):
            row = line.removesuffix("\r").split("\t")
            if len(row) != 2:
                raise RequestError(400, f"entries, line {number}: expected two terms with one tab between them")
            yield number, row


def _csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                if len(row) not in (2, 4):
                    raise RequestError(400, f"entries, line {reader.line_num}: expected 2 or 4 columns")
                yield reader.line_num, row[:2]
    except csv.Error as error:
        raise RequestError(400, f"entries, line {reader.line_num}: {error}") from error


def _term(term: str, number: int) -> str:
    term = term.strip(" ")
    if not term.strip():
        raise RequestError(400, f"entries, line {number}: a term is empty")
    if CONTROL_CHARACTER.search(term):
        raise RequestError(400, f"entries, line {number}: the term {quoted(term)} contains a control character")
    if len(term.encode()) > MAX_TERM_BYTES:
        raise RequestError(400, f"entries, line {number}: a term has more than {MAX_TERM_BYTES:,} bytes")
    return term
