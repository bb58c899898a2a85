"""Conversion of settings between frozen dataclasses and plain mappings (TOML run files, `--set`, JSON).

In messages, settings are named by dotted keys such as "training.steps".
"""

import codecs
import copy
import dataclasses
import difflib
import functools
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union

from dragoman.errors import SettingsError, UserError, quoted

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Unknown keys of up to this many characters are shown in full.
LONGEST_KEY = 80

Config = TypeVar("Config", bound="DataclassInstance")
Value = TypeVar("Value")

# Type of a field: (accepted types of the value, its name in messages). A bool is not accepted for an int or a float,
# although Python's bool is a subclass of int.
_SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a finite number"),
    str: ((str,), "text in quotes"),
    Path: ((str,), "a path in quotes"),
}


def from_mapping(
    cls: type[Config],
    mapping: Mapping[str, object],
    where: str,
    place: str = "",
    *,
    error: type[UserError] = SettingsError,
    secret: bool = False,
) -> Config:
    """Build the dataclass `cls` from `mapping` after checking every key and every type.

    Fields may have the types bool, int, float, str, Path, Literal, Literal | float, tuple[X, ...], tuple[X, Y],
    Mapping[str, X], X | None, or a dataclass. A whole number is accepted for a float; nothing else is converted. TOML
    has no null, so the text "none" means None for a field of type X | None. A value that is already an instance of the
    field's dataclass is used unchanged.

    Args:
        cls: the dataclass.
        mapping: values by field name; nested mappings for fields that are dataclasses.
        where: name of the source in messages, such as "run.toml".
        place: dotted key of `mapping` within the source, such as "model"; "" for the whole source.
        error: class of the errors raised.
        secret: True to leave the values out of messages.

    Raises:
        error: for an unknown key (the message names the nearest known key), a missing key, a value of another type, or
            a value that `__post_init__` of the dataclass rejects.

    Example:
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Training:
        ...     steps: int = 1000
        >>> from_mapping(Training, {"steps": 2000}, "run.toml")
        Training(steps=2000)
    """
    return _read_table(cls, mapping, place, _Source(where, cls, error, secret)).build()


def read_partial(
    cls: type[Config],
    mapping: Mapping[str, object],
    where: str,
    place: str = "",
    *,
    error: type[UserError] = SettingsError,
) -> "PartialSettings[Config]":
    """Check every key and every type of `mapping`, which may omit any field of the dataclass `cls`.

    Arguments and errors are those of `from_mapping`, except that missing keys and values that `__post_init__` rejects
    are reported later, by `PartialSettings.build` or `PartialSettings.over`.
    """
    return typing.cast("PartialSettings[Config]", _read_table(cls, mapping, place, _Source(where, cls, error)))


@dataclass(frozen=True, kw_only=True)
class PartialSettings(Generic[Config]):
    """Checked values for some fields of a dataclass, made by `read_partial`.

    Attributes:
        cls: the dataclass.
        values: values by field name; the value of a dataclass field is itself a `PartialSettings`.
        where: name of the source in messages.
        place: dotted key of this table within the source; "" for the whole source.
        error: class of the errors raised.
    """

    cls: type[Config]
    values: Mapping[str, Any]
    where: str
    place: str = ""
    error: type[UserError] = SettingsError

    def get(self, key: str, default: Value) -> Value:
        """Return the value of a dotted key such as "training.steps", or `default` if it has no value."""
        name, _, rest = key.partition(".")
        assert name in _fields(self.cls), f"{self.cls.__name__} has no field {name}"
        if name not in self.values:
            return default
        value = self.values[name]
        if not rest:
            return typing.cast(Value, value)
        return value.get(rest, default) if isinstance(value, PartialSettings) else default

    def has(self, key: str) -> bool:
        """Return whether a dotted key has a value."""
        absent = object()
        return self.get(key, absent) is not absent

    def build(self) -> Config:
        """Return an instance of the dataclass; fields without a value get their defaults.

        Raises:
            error: if a field has neither a value nor a default, or `__post_init__` rejects a value.
        """
        for name, field in _fields(self.cls).items():
            required = field.default is field.default_factory is dataclasses.MISSING
            if required and name not in self.values:
                raise self.error(f"{_join(self.place, name)} is missing in {self.where}")
        values = {name: _built(value) for name, value in self.values.items()}
        with self._naming_place():
            return self.cls(**values)

    def over(self, base: Config) -> Config:
        """Return a copy of `base` in which these values replace its own, recursively for nested dataclasses.

        Raises:
            error: if `__post_init__` rejects a value.
        """
        values = {
            name: value.over(current)
            if isinstance(value, PartialSettings) and isinstance(current, value.cls)
            else _built(value)
            for name, value in self.values.items()
            for current in (getattr(base, name),)
        }
        with self._naming_place():
            return dataclasses.replace(base, **values)

    @contextmanager
    def _naming_place(self) -> Iterator[None]:
        """Add source and table to the message of a ValueError that `__post_init__` raises."""
        try:
            yield
        except ValueError as error:
            raise self.error(f"{f'{self.place} in ' if self.place else ''}{self.where}: {error}") from error


def to_mapping(config: "DataclassInstance") -> dict[str, object]:
    """Return the settings as plain JSON values: a Path becomes text, a tuple becomes a list."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config) if f.init}


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recursive merge of several mappings; for a key with several values, the last one is used."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            earlier = merged.get(key)
            if isinstance(value, Mapping) and isinstance(earlier, Mapping):
                merged[key] = merge(earlier, value)
            else:
                merged[key] = value
    return merged


def apply_overrides(mapping: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """Return a copy of `mapping` with each override "a.b=value" applied; a value that is not valid TOML is text.

    Raises:
        SettingsError: if an override has no "=" or an empty key, or its key is below a value that is not a table.

    Example:
        >>> apply_overrides({"training": {"steps": 1000}}, ["training.steps=2000", "name=demo"])
        {'training': {'steps': 2000}, 'name': 'demo'}
    """
    result = copy.deepcopy(dict(mapping))
    for override in overrides:
        key, equals, text = override.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise SettingsError(f"--set {override!r}: expected KEY=VALUE, such as training.steps=2000")
        table: dict[str, object] = result
        for depth, name in enumerate(names[:-1], start=1):
            nested = table.setdefault(name, {})
            if not isinstance(nested, dict):
                place = ".".join(names[:depth])
                raise SettingsError(f"--set {override!r}: {place} is {nested!r}, not a table of settings")
            table = nested
        table[names[-1]] = _toml_value(text.strip())
    return result


def load_toml(path: Path) -> dict[str, object]:
    """Return the content of a TOML file.

    Raises:
        SettingsError: if the file cannot be read or is not valid TOML; the message names file and line.
    """
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:  # the message of tomllib's error contains the line
        match = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(match[1]) if match else data.rstrip(b"\n").count(b"\n") + 1
        raise SettingsError(f"{path}:{line}: not valid TOML: {error}") from error


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Return a line for each dotted key whose value differs, such as "training.steps: 1000 -> 2000"."""
    lines = []
    for key in [*old, *(key for key in new if key not in old)]:
        before, after = old.get(key, "(absent)"), new.get(key, "(absent)")
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += [f"{key}.{line}" for line in differences(before, after)]
        elif before != after:
            lines.append(f"{key}: {before} -> {after}")
    return lines


@dataclass(frozen=True)
class _Source:
    """Source of settings: its name, the outermost dataclass (to suggest keys of other tables), the class of errors."""

    where: str
    outermost: Any
    error: type[UserError]
    secret: bool = False

    def instead_of(self, expected: str, value: object) -> str:
        return f"expected {expected}" if self.secret else f"expected {expected}, got {quoted(value)}"


def _fields(cls: Any) -> dict[str, "dataclasses.Field[Any]"]:
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    """Return the types of the fields of a dataclass; the server reads one for every line that it translates."""
    return typing.get_type_hints(cls)


def _read_table(cls: Any, value: object, place: str, source: _Source) -> PartialSettings[Any]:
    if not isinstance(value, Mapping):
        raise source.error(f"{place} in {source.where}: {source.instead_of('a table of settings', value)}")
    names = list(_fields(cls))
    hints = _hints(cls)
    for key in value:
        if key not in names:
            advice = _nearest(key, place, names, source.outermost)
            named = key if key.isidentifier() and len(key) <= LONGEST_KEY else quoted(key)
            raise source.error(f"unknown key {_join(place, named)} in {source.where}: {advice}")
    values = {key: _read(hints[key], x, _join(place, key), source) for key, x in value.items()}
    return PartialSettings(cls=cls, values=values, where=source.where, place=place, error=source.error)


def _built(value: Any) -> Any:
    """Return the value of a field, with each `PartialSettings` in it built."""
    if isinstance(value, PartialSettings):
        return value.build()
    return tuple(map(_built, value)) if isinstance(value, tuple) else value


def _read(hint: Any, value: object, place: str, source: _Source) -> object:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(value) and isinstance(value, hint):
        return value
    if dataclasses.is_dataclass(hint):
        return _read_table(hint, value, place, source)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and types.NoneType in arguments:
        if value is None or value == "none":
            return None
        present = arguments[0] if arguments[1] is types.NoneType else arguments[1]
        return _read(present, value, place, source)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and typing.get_origin(arguments[0]) is Literal:
        # A choice or a number: Literal["sqrt", "none"] | float
        choices = typing.get_args(arguments[0])
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _read(arguments[1], value, place, source)
        expected = "one of " + ", ".join(repr(choice) for choice in choices) + f", or {_SCALARS[arguments[1]][1]}"
        if isinstance(value, str) and value in choices:
            return value
    elif origin is tuple:
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
    elif origin is Mapping:
        expected = "a table"
        if isinstance(value, Mapping):
            return {key: _read(arguments[1], x, _join(place, quoted(key)), source) for key, x in value.items()}
    elif hint in _SCALARS:
        accepted, expected = _SCALARS[hint]
        fits = isinstance(value, accepted) and isinstance(value, bool) == (hint is bool)
        if fits and (hint is not float or abs(typing.cast(float, value)) <= sys.float_info.max):
            return hint(value)
    else:
        raise TypeError(f"{place}: settings of type {hint} are not supported")
    raise source.error(f"{place} in {source.where}: {source.instead_of(expected, value)}")


def _nearest(key: str, place: str, siblings: Sequence[str], outermost: Any) -> str:
    """Return advice about an unknown key: the nearest sibling, a similar key in another table, or all siblings."""
    if close := difflib.get_close_matches(key, siblings, n=1):
        return f"did you mean {_join(place, close[0])}?"
    elsewhere = {dotted.rpartition(".")[2]: dotted for dotted in _dotted_keys(outermost)}
    if close := difflib.get_close_matches(key, elsewhere, n=1, cutoff=0.8):
        return f"did you mean {elsewhere[close[0]]}?"
    return f"known keys: {', '.join(_join(place, name) for name in siblings)}"


def _dotted_keys(cls: Any) -> Iterator[str]:
    for name, hint in _hints(cls).items():
        yield name
        for inner in filter(dataclasses.is_dataclass, (hint, *typing.get_args(hint))):
            yield from (f"{name}.{key}" for key in _dotted_keys(inner))


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _toml_value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = parsed.pop("value")
    # Text of several lines may parse as more than one key. No setting is a date, but a name may look like one.
    return text if parsed or isinstance(value, date | time) else value


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_mapping(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
