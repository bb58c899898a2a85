"""Rules for the tests themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import REPOSITORY

TESTS = sorted((REPOSITORY / "tests").rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_tests_import_other_tests_only_from_support() -> None:
    imports = {(path, name) for path in TESTS for name in imported(path) if name.split(".")[0] == "tests"}
    assert len(imports) > 50
    assert {(path, name) for path, name in imports if not name.startswith("tests.support")} == set()


def test_support_has_helpers_and_no_tests() -> None:
    """Pytest does not collect tests from tests/support."""
    support = [path for path in TESTS if path.is_relative_to(REPOSITORY / "tests/support")]
    assert len(support) > 5
    for path in support:
        functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
        assert [function.name for function in functions if function.name.startswith("test_")] == [], path
