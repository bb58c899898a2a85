"""Every file, class and function that the pages in docs/ name in the form `file.py` (`Name`, `Name.method`) exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY

PAGES = ["formulas.md", "architectures.md", "attention.md", "training-speed.md", "decoding-speed.md", "training-gpu.md"]
_PATH = r"`(?P<path>[\w/-]+\.(?:py|hpp|cpp|toml))`"
_NAME = r"`[A-Za-z_][\w.]*`"
REFERENCE = re.compile(rf"{_PATH}(?:\s\((?P<names>{_NAME}(?:(?:,|\sand)\s{_NAME})*)\))?")


def located(path: str) -> Path:
    """Return the file of this path in the repository or in the package."""
    return next(
        (root / path for root in (REPOSITORY, REPOSITORY / "src/dragoman") if (root / path).is_file()),
        REPOSITORY / path,
    )


def defined(nodes: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the names of classes, functions, methods and module constants."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign):
            names = (name for target in node.targets for name in ast.walk(target))
            yield from (prefix + name.id for name in names if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id


@pytest.mark.parametrize("page", PAGES)
def test_files_and_names_on_a_page_exist(page: str) -> None:
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    for match in REFERENCE.finditer(text):
        file = located(match["path"])
        assert file.is_file(), f"{page} names {match['path']}, which does not exist"
        names = {name.strip("`") for name in re.findall(_NAME, match["names"] or "")}
        if file.suffix == ".py":
            missing = names - set(defined(ast.parse(file.read_text(encoding="utf-8")).body))
        else:
            missing = {name for name in names if not re.search(rf"\b{name}\b", file.read_text(encoding="utf-8"))}
        assert not missing, f"{page}: {match['path']} does not define {sorted(missing)}"


def test_each_group_of_equations_names_its_code() -> None:
    text = (REPOSITORY / "docs/formulas.md").read_text(encoding="utf-8")
    groups = [group for group in re.split(r"^(?=## |\*\*)", text, flags=re.MULTILINE) if "$$" in group]
    assert len(groups) > 20
    for group in groups:
        assert any(match["names"] for match in REFERENCE.finditer(group)), group.splitlines()[0]


def test_quoted_code_is_that_of_the_named_file() -> None:
    """A block of Python in the formulas contains lines of the file that the text before it names last."""
    text = (REPOSITORY / "docs/formulas.md").read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 4
    for block in blocks:
        *_, reference = REFERENCE.finditer(text[: block.start()])
        lines = {line.strip() for line in located(reference["path"]).read_text(encoding="utf-8").splitlines()}
        assert set(block[1].splitlines()) <= lines, reference["path"]
