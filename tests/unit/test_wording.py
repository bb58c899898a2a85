"""Words that CONTRIBUTING.md replaces by plainer ones do not come back."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import REPOSITORY

# A pattern, and what to write instead.
REPLACED = {
    r"\bso many\b": "the number of …, at most N …",
    r"\bfor each in\b": "the name of the thing",
    r"\b(says|hears|is told)\b": "returns, prints, reports, receives",
    r"\b(goes|gone|go) on with\b": "resumes",
    r"\bnot to be had\b": "is not available",
    r"\blearnt\b": "learned",
    r"\bcompiled engine\b": "native engine",
    r'^\s*("""|#|//) ?Of ': "the subject first",
}
FILES = [
    path
    for folder, suffixes in (
        ("src", (".py", ".hpp", ".cpp", ".js")),
        ("benchmarks", (".py", ".md")),
        ("docs", (".md",)),
    )
    for path in sorted((REPOSITORY / folder).rglob("*"))
    if path.suffix in suffixes and "vendor" not in path.parts and "build" not in path.parts
]


def problems(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for pattern, instead in REPLACED.items():
            if match := re.search(pattern, line):
                yield f"{path.relative_to(REPOSITORY)}:{number}: {match[0]!r}; write {instead}"


def test_plain_words() -> None:
    assert len(FILES) > 200
    assert [problem for path in FILES for problem in problems(path)] == []
