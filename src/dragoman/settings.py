"""Settings: frozen dataclasses to and from plain mappings (TOML run files, `--set`, JSON)."""

import codecs
import copy
import dataclasses
import difflib
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

from dragoman.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")

# Type of the field: (types of the value, how to say it). bool is an int to Python, but not to us.
_SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a finite number"),
    str: ((str,), "text in quotes"),
    Path: ((str,), "a path in quotes"),
}


def from_mapping(cls: type[Config], mapping: Mapping[str, object], where: str, place: str = "") -> Config:
    """Build the dataclass `cls` from `mapping`, checking every key and every type.

    Fields may be bool, int, float, str, Path, Literal, tuple[X, ...], tuple[X, Y], X | None, or dataclasses.
    A whole number may stand for a float; nothing else is converted. TOML has no null, so the word "none"
    stands for it where a field is X | None. A dataclass that is built already is taken as it is. In messages,
    `where` names the source ("run.toml"), and `place` the table in it that `mapping` is ("model").

    Raises UserError for an unknown key (naming the nearest known one), a missing key, a value of
    another type, and for what the dataclass's own __post_init__ rejects.
    """
    return typing.cast(Config, _read_dataclass(cls, mapping, place, (where, cls)))


def to_mapping(config: "DataclassInstance") -> dict[str, object]:
    """The settings as plain JSON values: Path becomes text, a tuple becomes a list."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config) if f.init}


def apply_overrides(mapping: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """A copy of `mapping` with each "a.b=value" set; what is not a TOML value is taken as text.

    Raises UserError for a missing "=", an empty key, or a key below something that is not a table.
    """
    result = copy.deepcopy(dict(mapping))
    for override in overrides:
        key, equals, text = override.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise UserError(f"--set {override!r}: write a.b=value, such as training.steps=2000")
        table: dict[str, object] = result
        for depth, name in enumerate(names[:-1], start=1):
            below = table.setdefault(name, {})
            if not isinstance(below, dict):
                place = ".".join(names[:depth])
                raise UserError(f"--set {override!r}: {place} is {below!r}, not a table of settings")
            table = below
        table[names[-1]] = _toml_value(text.strip())
    return result


def load_toml(path: Path) -> dict[str, object]:
    """Read a TOML file. Raises UserError with file and line when it cannot be read."""
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:  # tomllib's own error tells the line in its text
        found = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(found[1]) if found else data.rstrip(b"\n").count(b"\n") + 1
        raise UserError(f"{path}:{line}: not valid TOML: {error}") from error


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """One line per dotted key whose value differs, such as "training.steps: 1000 -> 2000"."""
    lines = []
    for key in [*old, *(key for key in new if key not in old)]:
        before, after = old.get(key, "(absent)"), new.get(key, "(absent)")
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += [f"{key}.{line}" for line in differences(before, after)]
        elif before != after:
            lines.append(f"{key}: {before} -> {after}")
    return lines


def _read_dataclass(cls: Any, value: object, place: str, source: tuple[str, Any]) -> object:
    """`source`: where the settings come from, and the outermost dataclass (for misplaced keys)."""
    where, outermost = source
    if not isinstance(value, Mapping):
        raise UserError(f"{place} in {where}: expected a table of settings, got {value!r}")
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    hints = typing.get_type_hints(cls)
    for key in value:
        if key not in fields:
            advice = _nearest(key, place, list(fields), outermost)
            raise UserError(f"unknown key {_join(place, key)} in {where}: {advice}")
    for key, field in fields.items():
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and key not in value:
            raise UserError(f"{_join(place, key)} is missing in {where}")
    values = {key: _read(hints[key], x, _join(place, key), source) for key, x in value.items()}
    try:
        return cls(**values)
    except ValueError as error:  # from __post_init__, which does not know its place
        raise UserError(f"{f'{place} in ' if place else ''}{where}: {error}") from error


def _read(hint: Any, value: object, place: str, source: tuple[str, Any]) -> object:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(value) and isinstance(value, hint):
        return value
    if dataclasses.is_dataclass(hint):
        return _read_dataclass(hint, value, place, source)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and types.NoneType in arguments:
        if value is None or value == "none":
            return None
        present = arguments[0] if arguments[1] is types.NoneType else arguments[1]
        return _read(present, value, place, source)
    if origin is tuple:
        any_length = arguments[-1] is Ellipsis
        expected = "a list" if any_length else f"a list of {len(arguments)}"
        if isinstance(value, list | tuple) and (any_length or len(value) == len(arguments)):
            inner = [arguments[0]] * len(value) if any_length else arguments
            items = enumerate(zip(inner, value, strict=True))
            return tuple(_read(kind, x, f"{place}[{i}]", source) for i, (kind, x) in items)
    elif origin is Literal:
        expected = "one of " + ", ".join(repr(choice) for choice in arguments)
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
    elif hint in _SCALARS:
        accepted, expected = _SCALARS[hint]
        fits = isinstance(value, accepted) and isinstance(value, bool) == (hint is bool)
        if fits and (hint is not float or abs(typing.cast(float, value)) <= sys.float_info.max):
            return hint(value)
    else:
        raise TypeError(f"{place}: settings of type {hint} are not supported")
    raise UserError(f"{place} in {source[0]}: expected {expected}, got {value!r}")


def _nearest(key: str, place: str, siblings: Sequence[str], outermost: Any) -> str:
    """What to type instead: the nearest sibling, or that name in another table, or all siblings."""
    if close := difflib.get_close_matches(key, siblings, n=1):
        return f"did you mean {_join(place, close[0])}?"
    elsewhere = {dotted.rpartition(".")[2]: dotted for dotted in _dotted_keys(outermost)}
    if close := difflib.get_close_matches(key, elsewhere, n=1, cutoff=0.8):
        return f"did you mean {elsewhere[close[0]]}?"
    return f"known keys: {', '.join(_join(place, name) for name in siblings)}"


def _dotted_keys(cls: Any) -> Iterator[str]:
    for name, hint in typing.get_type_hints(cls).items():
        yield name
        for inner in filter(dataclasses.is_dataclass, (hint, *typing.get_args(hint))):
            yield from (f"{name}.{below}" for below in _dotted_keys(inner))


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _toml_value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = parsed.pop("value")
    # More than one key: text of several lines. No setting is a date, but a name may look like one.
    return text if parsed or isinstance(value, date | time) else value


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_mapping(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
