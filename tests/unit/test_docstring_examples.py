"""The examples in docstrings run, and the names that users call have one.

An example is a `>>>` session, which this file runs, or, where it takes too long or needs files, a code block.
"""

import doctest
import importlib
import io
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dragoman
from tests.support.example_directory import make_example_directory
from tests.support.paths import REPOSITORY

SOURCES = REPOSITORY / "src"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Packages that an installation may lack; the modules that need one are then skipped.
OPTIONAL_PACKAGES = ("rouge_score", "tensorboard")

# Names that users call and whose docstrings need an example: in the packages translation and alignment,
TRANSLATION_NAMES = (
    "alignment.heads.AlignmentHead",
    "translation.distillation.distill",
    "translation.evaluation.Evaluation.against",
    "translation.evaluation.evaluate",
    "translation.results.Translation",
    "translation.translator.Translator",
    "translation.translator.Translator.align",
    "translation.translator.Translator.alignments_by_head",
    "translation.translator.Translator.attention",
    "translation.translator.Translator.fits",
    "translation.translator.Translator.from_parts",
    "translation.translator.Translator.load",
    "translation.translator.Translator.measure_heads",
    "translation.translator.Translator.scorable",
    "translation.translator.Translator.score",
    "translation.translator.Translator.token_statistics",
    "translation.translator.Translator.translate",
    "translation.translator.Translator.translate_stream",
    "translation.translator.Translator.translate_without",
)
# and in other packages.
OTHER_NAMES = (
    "generation.generator.Generator",
    "generation.generator.Generator.evaluate",
    "generation.generator.Generator.from_parts",
    "generation.generator.Generator.generate",
    "generation.generator.Generator.load",
    "generation.generator.Generator.score",
    "generation.generator.Generator.stream",
    "generation.results.Evaluation",
    "generation.results.Generation",
    "attention.naive_attention",
    "attention_page.map.AttentionMap",
    "attention_page.map.AttentionMap.save",
    "data.cleaning.clean",
    "data.picture_reading.read_pictures",
    "data.readers.parse_corpus",
    "data.readers.read_pairs",
    "data.texts.find_texts",
    "data.texts.read_texts",
    "evaluation.alignment.alignment_metrics",
    "evaluation.error_rates.symbol_metrics",
    "evaluation.metrics.translation_metrics",
    "evaluation.nearest_neighbours.copying_test",
    "evaluation.nearest_neighbours.nearest_neighbours",
    "evaluation.picture_distances.frechet_distance",
    "evaluation.picture_distances.kernel_distance",
    "evaluation.picture_distances.precision_and_recall",
    "evaluation.picture_scores.score_pictures",
    "evaluation.rouge.summary_metrics",
    "evaluation.significance.paired_bootstrap",
    "models.registry.build_model",
    "models.registry.preset",
    "models.storage.load_model",
    "picture_page.grid.picture_grid",
    "picture_page.page.build_picture_page",
    "run.train.train",
    "search.config.ContinuationConfig",
    "search.config.SamplingConfig",
    "search.config.SearchConfig",
    "text.tokenizer.Tokenizer",
    "text.tokenizer.train_tokenizer",
    "text.vocabulary.Vocabulary",
    "text.vocabulary.train_vocabulary",
)


def modules_with_examples() -> Iterator[ModuleType]:
    """Import the modules whose source contains `>>>`: the others need not be imported to collect tests."""
    for found in pkgutil.walk_packages([str(SOURCES / "dragoman")], "dragoman."):
        path = SOURCES / found.name.replace(".", "/")
        path = path / "__init__.py" if found.ispkg else path.with_suffix(".py")
        if not path.exists() or ">>>" not in path.read_text(encoding="utf-8"):
            continue
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if not str(error.name).startswith(OPTIONAL_PACKAGES):
                raise


def examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in [dragoman, *modules_with_examples()]:
        yield from (test for test in finder.find(module) if test.examples)


def has_example(docstring: str | None) -> bool:
    """Return True if a docstring has a section `Example:` with a session or an indented code block."""
    return re.search(r"^\s*Examples?:\n+(\s+>>> |.*::\n|\s+```|\s+\S)", docstring or "", re.MULTILINE) is not None


@pytest.fixture(scope="session")
def example_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_example_directory(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("example", [pytest.param(example, id=example.name) for example in examples()])
def test_example(example: doctest.DocTest, example_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example_directory)
    report = io.StringIO()
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=report.write, clear_globs=False)
    assert result.failed == 0, report.getvalue()


@pytest.mark.parametrize("name", [*TRANSLATION_NAMES, *OTHER_NAMES])
def test_names_that_users_call_have_an_example(name: str) -> None:
    parts = name.split(".")
    while not (SOURCES / "dragoman" / "/".join(parts)).with_suffix(".py").exists():
        parts.pop()
    value: object = importlib.import_module("dragoman." + ".".join(parts))
    for attribute in name.split(".")[len(parts) :]:
        value = getattr(value, attribute)
    assert has_example(value.__doc__), f"dragoman.{name} has no section 'Example:' in its docstring"


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (None, False),
        ("Return it.", False),
        ("Return it.\n\n    Example:\n        >>> it()\n", True),
        ("Return it.\n\n    Example:\n\n        train('a.tsv')\n", True),
        ("Return it.\n\n    Example: none\n", False),
    ],
)
def test_examples_are_recognised(docstring: str | None, expected: bool) -> None:
    assert has_example(docstring) is expected
