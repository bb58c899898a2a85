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
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union

from dragoman.errors import SettingsError, UserError, quoted

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# An unknown key is shown as it is up to this many letters.
LONGEST_KEY = 80

Config = TypeVar("Config", bound="DataclassInstance")
Value = TypeVar("Value")

# Type of the field: (types of the value, how to say it). bool is an int to Python, but not to us.
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
) -> Config:
    """Build the dataclass `cls` from `mapping`, checking every key and every type.

    Fields may be bool, int, float, str, Path, Literal, tuple[X, ...], tuple[X, Y], Mapping[str, X], X | None,
    or dataclasses.
    A whole number may stand for a float; nothing else is converted. TOML has no null, so the word "none"
    stands for it where a field is X | None. A dataclass that is built already is taken as it is. In messages,
    `where` names the source ("run.toml"), and `place` the table in it that `mapping` is ("model").

    Raises `error` for an unknown key (naming the nearest known one), a missing key, a value of
    another type, and for what the dataclass's own __post_init__ rejects.
    """
    return read_partial(cls, mapping, where, place, error=error).build()


def read_partial(
    cls: type[Config],
    mapping: Mapping[str, object],
    where: str,
    place: str = "",
    *,
    error: type[UserError] = SettingsError,
) -> "Partial[Config]":
    """Check every key and every type of `mapping`, which may leave out any field of the dataclass `cls`.

    Arguments and errors are those of `from_mapping`; what is missing, and what __post_init__ rejects, is reported when
    the settings are completed.
    """
    return typing.cast("Partial[Config]", _read_table(cls, mapping, place, _Source(where, cls, error)))


@dataclass(frozen=True, kw_only=True)
class Partial(Generic[Config]):
    """Some settings of a dataclass, each of a known key and of its type; made by `read_partial`.

    cls      the dataclass
    values   by name of the field; a table of settings within is a `Partial` too
    where    names the source in messages
    place    the table in the source that this is; "" for the source itself
    error    the class of what is raised
    """

    cls: type[Config]
    values: Mapping[str, Any]
    where: str
    place: str = ""
    error: type[UserError] = SettingsError

    def get(self, key: str, default: Value) -> Value:
        """Return the value of a dotted key such as "training.steps", or `default` where it is not given."""
        name, _, below = key.partition(".")
        assert name in _fields(self.cls), f"{self.cls.__name__} has no field {name}"
        if name not in self.values:
            return default
        value = self.values[name]
        if not below:
            return typing.cast(Value, value)
        return value.get(below, default) if isinstance(value, Partial) else default

    def has(self, key: str) -> bool:
        """Return whether a dotted key is given."""
        absent = object()
        return self.get(key, absent) is not absent

    def build(self) -> Config:
        """Return the dataclass; its defaults are used for what is not given.

        Raises `error` for a field that is missing and has no default, and for what __post_init__ rejects.
        """
        for name, field in _fields(self.cls).items():
            required = field.default is field.default_factory is dataclasses.MISSING
            if required and name not in self.values:
                raise self.error(f"{_join(self.place, name)} is missing in {self.where}")
        values = {name: _built(value) for name, value in self.values.items()}
        with self._naming_place():
            return self.cls(**values)

    def over(self, base: Config) -> Config:
        """Return `base` with these settings in place of its own, table by table.

        Raises `error` for what __post_init__ rejects.
        """
        values = {
            name: value.over(below) if isinstance(value, Partial) and isinstance(below, value.cls) else _built(value)
            for name, value in self.values.items()
            for below in (getattr(base, name),)
        }
        with self._naming_place():
            return dataclasses.replace(base, **values)

    @contextmanager
    def _naming_place(self) -> Iterator[None]:
        """Name the place of what __post_init__ rejects, which does not know it."""
        try:
            yield
        except ValueError as error:
            raise self.error(f"{f'{self.place} in ' if self.place else ''}{self.where}: {error}") from error


def to_mapping(config: "DataclassInstance") -> dict[str, object]:
    """The settings as plain JSON values: Path becomes text, a tuple becomes a list."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config) if f.init}


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what run files say together, tables key by key; the last one wins."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            if isinstance(value, Mapping) and isinstance(below, Mapping):
                merged[key] = merge(below, value)
            else:
                merged[key] = value
    return merged


def apply_overrides(mapping: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """A copy of `mapping` with each "a.b=value" set; what is not a TOML value is taken as text.

    Raises SettingsError for a missing "=", an empty key, or a key below something that is not a table.
    """
    result = copy.deepcopy(dict(mapping))
    for override in overrides:
        key, equals, text = override.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise SettingsError(f"--set {override!r}: write a.b=value, such as training.steps=2000")
        table: dict[str, object] = result
        for depth, name in enumerate(names[:-1], start=1):
            below = table.setdefault(name, {})
            if not isinstance(below, dict):
                place = ".".join(names[:depth])
                raise SettingsError(f"--set {override!r}: {place} is {below!r}, not a table of settings")
            table = below
        table[names[-1]] = _toml_value(text.strip())
    return result


def load_toml(path: Path) -> dict[str, object]:
    """Read a TOML file. Raises SettingsError with file and line when it cannot be read."""
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:  # tomllib's own error tells the line in its text
        found = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(found[1]) if found else data.rstrip(b"\n").count(b"\n") + 1
        raise SettingsError(f"{path}:{line}: not valid TOML: {error}") from error


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


@dataclass(frozen=True)
class _Source:
    """Where settings come from: its name, the outermost dataclass (for misplaced keys), the class of errors."""

    where: str
    outermost: Any
    error: type[UserError]


def _fields(cls: Any) -> dict[str, "dataclasses.Field[Any]"]:
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


def _read_table(cls: Any, value: object, place: str, source: _Source) -> Partial[Any]:
    if not isinstance(value, Mapping):
        raise source.error(f"{place} in {source.where}: expected a table of settings, got {quoted(value)}")
    names = list(_fields(cls))
    hints = typing.get_type_hints(cls)
    for key in value:
        if key not in names:
            advice = _nearest(key, place, names, source.outermost)
            named = key if key.isidentifier() and len(key) <= LONGEST_KEY else quoted(key)
            raise source.error(f"unknown key {_join(place, named)} in {source.where}: {advice}")
    values = {key: _read(hints[key], x, _join(place, key), source) for key, x in value.items()}
    return Partial(cls=cls, values=values, where=source.where, place=place, error=source.error)


def _built(value: Any) -> Any:
    """The value of a field: what is still partial is built."""
    if isinstance(value, Partial):
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
    raise source.error(f"{place} in {source.where}: expected {expected}, got {quoted(value)}")


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
