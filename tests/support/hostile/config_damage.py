"""Damage to config.json."""

import random
import typing
from collections.abc import Callable
from typing import Any

from dragoman.models.registry import ARCHITECTURES
from tests.support.hostile.folder import CONFIG, Files, Raw, config_of, content_of, json_text, set_config
from tests.support.hostile.values import NUMBERS, TEXTS, any_value, shown


def _random_key(draw: random.Random, config: dict[Any, Any]) -> tuple[dict[Any, Any], str]:
    """Return a table and one of its keys, most often of the model's settings."""
    tables = [config, config["model"], config["model"]]
    digests = config.get("digests")
    tables += [digests] if digests and isinstance(digests, dict) else []
    table = draw.choice(tables)
    return table, draw.choice(list(table))


def value(draw: random.Random, files: Files) -> str:
    config = config_of(files)
    recipes = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        table, key = _random_key(draw, config)
        if isinstance(table[key], dict) and draw.random() < 0.8:
            continue
        table[key] = draw.choice(NUMBERS) if isinstance(table[key], int) and draw.random() < 0.6 else any_value(draw)
        recipes.append(f"{key} = {shown(table[key])}")
        if not isinstance(config.get("model"), dict):
            break
    set_config(files, config)
    return ", ".join(recipes)


def size(draw: random.Random, files: Files) -> str:
    """Change a size to one that may be valid for some model."""
    config = config_of(files)
    sizes = [key for key, size in config["model"].items() if type(size) is int]
    key = draw.choice(sizes)
    old = config["model"][key]
    config["model"][key] = draw.choice([old + 1, max(1, old - 1), 2 * old, max(1, old // 2), 1, 10**4, 10**6, 10**9])
    set_config(files, config)
    return f"{key} = {config['model'][key]}, not {old}"


def choice(draw: random.Random, files: Files) -> str:
    """Change a setting to another valid choice, or a size if there are no choices."""
    config = config_of(files)
    cls = ARCHITECTURES[config["architecture"]].config
    choices = {
        name: [each for each in typing.get_args(hint) if each != config["model"].get(name)]
        for name, hint in typing.get_type_hints(cls).items()
        if typing.get_origin(hint) is typing.Literal
    }
    choices |= {name: [not setting] for name, setting in config["model"].items() if isinstance(setting, bool)}
    if not choices:
        return size(draw, files)
    key = draw.choice(list(choices))
    config["model"][key] = draw.choice(choices[key])
    set_config(files, config)
    return f"{key} = {shown(config['model'][key])}"


def architecture(draw: random.Random, files: Files) -> str:
    config = config_of(files)
    config["architecture"] = draw.choice([*ARCHITECTURES, any_value(draw), ["transformer"], {"a": "transformer"}])
    set_config(files, config)
    return f"architecture = {shown(config['architecture'])}"


def key(draw: random.Random, files: Files) -> str:
    config = config_of(files)
    table, name = _random_key(draw, config)
    change = draw.choice(["missing", "unknown", "twice", "renamed"])
    new: Any = draw.choice([each for each in TEXTS if not isinstance(each, Raw)] + [Raw(r'"\ud800"'), "x" * 10_000])
    if change == "missing":
        del table[name]
    elif change == "unknown":
        table[new] = any_value(draw)
    elif change == "twice":
        table[Raw(json_text(name))] = any_value(draw)
    else:
        table[new] = table.pop(name)
    set_config(files, config)
    return f"{name} {change}" + (f" ({shown(new)})" if change in ("unknown", "renamed") else "")


def text(draw: random.Random, files: Files) -> str:
    """Replace the file by text that is not a JSON object in UTF-8."""
    data = content_of(files, CONFIG)
    changed = {
        "cut": data[: draw.randrange(len(data))],
        "empty": b"",
        "a byte that is not UTF-8": data.replace(b"true", b"\xff").replace(b"transformer", b"trans\xc3former"),
        "UTF-16": data.decode().encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf" + data,
        "a list": b"[" + data + b"]",
        "null": b"null",
        "a number": b"9" * 5000,
        "text": b'"config"',
        "deep lists": b"[" * 200_000,
        "deep objects": b'{"a":' * 100_000,
        "bytes after it": data + bytes(draw.randrange(256) for _ in range(40)),
        "zeros": bytes(1000),
        "two million spaces": data + b" " * 2_000_000,
        "comments": b"// a model\n" + data,
    }
    flipped = bytearray(data)
    for _ in range(draw.choice([1, 1, 3, 30])):
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
    changed["flips"] = bytes(flipped)
    change = draw.choice([*changed, "flips", "flips", "flips", "cut"])
    files[CONFIG] = changed[change]
    return change


# Damages after which config.json is still an object with the settings of a model.
SETTING_DAMAGES: list[Callable[[random.Random, Files], str]] = [size, choice]
CONFIG_DAMAGES = [*[value] * 4, size, *SETTING_DAMAGES, architecture, *[key] * 2, *[text] * 2]
