"""Generation of cases: an undamaged directory, damage to it, lines of text, and search settings."""

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.hostile import other_damage
from tests.support.hostile.bases import COMPILED
from tests.support.hostile.config_damage import CONFIG_DAMAGES, SETTING_DAMAGES
from tests.support.hostile.folder import (
    ALIGNMENT,
    SHORTLIST,
    TOKENIZERS,
    Files,
    as_format_1,
    config_of,
    read_folder,
    set_config,
)
from tests.support.hostile.tokenizer_damage import TOKENIZER_DAMAGES
from tests.support.hostile.weights_damage import BODY_DAMAGES, HEADER_DAMAGES, TENSOR_DAMAGES

Damage = Callable[[random.Random, Files], str]
# For each kind of case: lists of damages, of which one per list is applied, and the percentage of cases of this kind.
DAMAGES: dict[str, tuple[list[list[Damage]], int]] = {
    "config": ([CONFIG_DAMAGES], 22),
    "header": ([HEADER_DAMAGES], 13),
    "tensors": ([TENSOR_DAMAGES], 19),
    "body": ([BODY_DAMAGES], 8),
    "tokenizer": ([TOKENIZER_DAMAGES], 14),
    "shortlist": ([other_damage.SHORTLIST_DAMAGES], 5),
    "alignment": ([other_damage.ALIGNMENT_DAMAGES], 3),
    "files": ([other_damage.FILE_DAMAGES], 5),
    "two at once": ([[*TENSOR_DAMAGES, *TOKENIZER_DAMAGES], SETTING_DAMAGES], 5),
}
SETTINGS, TEXT = "settings", "text"
KINDS = {**{kind: share for kind, (_, share) in DAMAGES.items()}, SETTINGS: 4, TEXT: 2}
# Share of directories in the format of older versions.
OLD = 0.15

LINES = "the lamp is on\nturn off the light, please\n\n Straße 漢字 12\n".encode()


@dataclass
class Case:
    """A test case.

    Attributes:
        number: the number from which the case was generated.
        kind: a key of `KINDS`.
        base: name of the undamaged directory.
        recipe: description of the damage.
        files: the damaged model directory.
        lines: the text to translate.
        settings: search settings that differ from the defaults.
    """

    number: int
    kind: str
    base: str
    recipe: str
    files: Files
    lines: bytes = LINES
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_bases(folder: Path) -> dict[str, Files]:
    """Read the directories of `write_bases`; complete the digests in config.json if it has digests."""
    bases = {directory.name: read_folder(directory) for directory in sorted(folder.iterdir())}
    for files in bases.values():
        config = config_of(files)
        if "digests" in config:
            for name in {*TOKENIZERS, SHORTLIST, ALIGNMENT} & files.keys():
                content = files[name]
                assert isinstance(content, bytes)
                config["digests"][name] = hashlib.sha256(content).hexdigest()
            set_config(files, config)
    return bases


def make_case(number: int, seed: int, bases: Mapping[str, Files]) -> Case:
    """Return the case with a number; the same number and seed give the same case."""
    draw = random.Random(f"{seed} {number}")
    [kind] = draw.choices(list(KINDS), list(KINDS.values()))
    names = list(bases)
    compiled = [name for name in names if name in COMPILED]
    base = draw.choice(compiled if kind == "shortlist" else [*names, *compiled])
    case = Case(number, kind, base, "", dict(bases[base]))
    if kind == SETTINGS:
        case.settings = other_damage.settings(draw)
        case.recipe = ", ".join(f"{name}={value}" for name, value in case.settings.items())
    elif kind == TEXT:
        case.lines = other_damage.text(draw)
        case.recipe = f"{len(case.lines)} bytes of text: {case.lines[:40]!r}"
    else:
        old = draw.random() < OLD
        if old:
            as_format_1(case.files)
        recipes = [draw.choice(damages)(draw, case.files) for damages in DAMAGES[kind][0]]
        case.recipe = "; ".join(recipes) + (" (format 1)" if old else "")
    return case
