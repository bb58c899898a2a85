"""Errors caused by the user: every one belongs to one of four classes, which a program can distinguish."""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman
from dragoman import errors
from dragoman.data.batching import BatchingConfig
from dragoman.errors import CorpusError, ModelError, SettingsError, StorageError, UserError
from dragoman.models.config.transformer import TransformerConfig
from dragoman.run.config import DataConfig
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.settings import from_mapping
from dragoman.text.tokenizer import TokenizerConfig
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig

FAMILY = (CorpusError, SettingsError, ModelError, StorageError)
PACKAGE = Path(dragoman.__file__).parent


def test_the_four_classes_have_one_base_class() -> None:
    classes = {value for value in vars(errors).values() if isinstance(value, type)}
    assert classes == {UserError, *FAMILY}
    assert all(cls.__bases__ == (UserError,) for cls in FAMILY)
    assert UserError.__bases__ == (ValueError,)
    assert all(cls.__doc__ for cls in classes)


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (TransformerConfig, {"source_vocabulary": 9, "target_vocabulary": 9, "heads": 3}, "heads must divide d_model"),
        (TrainingConfig, {}, "give a budget"),
        (TrainingConfig, {"steps": 1, "validations": 0}, "validations must be at least 1"),
        (ScheduleConfig, {"kind": "linear"}, "give peak_learning_rate"),
        (BatchingConfig, {"batch_tokens": 0}, "batch_tokens and window must be at least 1"),
        (DataConfig, {"validation_share": 1.0}, "validation_share must be between 0 and 1"),
        (TokenizerConfig, {"vocabulary_size": 3}, "vocabulary_size is 3"),
        (SearchConfig, {"beam": 0}, "beam must lie between 1 and 200"),
        (SamplingConfig, {"temperature": 0.0}, "temperature must be a number of at least 1e-06"),
    ],
)
def test_contradictory_settings_raise_an_error_that_names_the_source(
    cls: "type[TransformerConfig]", settings: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=f"^table in run.toml: {message}"):
        from_mapping(cls, settings, "run.toml", place="table")
    with pytest.raises(ModelError, match=f"^config.json: {message}"):
        from_mapping(cls, settings, "config.json", error=ModelError)
    # A dataclass made in Python raises a ValueError.
    with pytest.raises(ValueError, match=message):
        cls(**settings)  # type: ignore[arg-type]


def raised(name: str) -> Iterator[str]:
    """Yield the places where the package raises the class `name` itself, as file:line."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Raise):
                continue
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(error, ast.Name) and error.id == name:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}"


def test_the_base_class_is_never_raised_itself() -> None:
    assert list(raised("UserError")) == []


def test_the_search_for_raised_errors_finds_them() -> None:
    assert any(place.startswith("settings.py:") for place in raised("SettingsError"))


def test_every_field_of_user_settings_can_be_read() -> None:
    """Only this test finds a field of a type that `from_mapping` does not support."""
    for cls in (DataConfig, BatchingConfig, TokenizerConfig, ScheduleConfig, SearchConfig, SamplingConfig):
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}
        if cls is not ScheduleConfig:
            assert from_mapping(cls, defaults, "test") == cls()
