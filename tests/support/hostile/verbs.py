"""Commands of the command line, run on the model directory "model" in the working directory."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from dragoman.cli.align import Align
from dragoman.cli.attention import Attention
from dragoman.cli.evaluate import Evaluate, Score
from dragoman.cli.quantize import Quantize
from dragoman.cli.shortlist import LearnShortlist
from dragoman.cli.translate import Translate
from tests.support.hostile.folder import SECRET

MODEL, LINES, PAIRS = Path("model"), Path("lines.txt"), Path("pairs.tsv")
PAIR_LINES = "the lamp is on\tTHE LAMP IS ON\nthe door\tTHE DOOR\nturn off the light\tTURN OFF THE LIGHT\n"

Settings = Mapping[str, Any]
Verb = Callable[[Settings], None]
V = TypeVar("V", Translate, Evaluate, Attention)


def _translate(settings: Settings, **options: Any) -> None:
    usual = {"beam": 2, "max_length_factor": 0.5, "max_length_offset": 6, "threads": 1}
    _with(Translate(model=MODEL, text=LINES), {**usual, **options, **settings}).run()


def _with(verb: V, options: Settings) -> V:
    """Return the verb with these options, in whichever group each is."""
    groups = {field.name: getattr(verb, field.name) for field in fields(verb)}
    for name, value in options.items():
        owner = next((key for key, group in groups.items() if is_dataclass(group) and hasattr(group, name)), None)
        if owner is None:
            groups[name] = value
        else:
            groups[owner] = replace(groups[owner], **{name: value})
    return replace(verb, **groups)


def _native(precision: str) -> Verb:
    return lambda settings: _translate(settings, engine="native", precision=precision)


def _quantize(settings: Settings) -> None:
    """Quantize, check that no file from outside was copied, and translate with the copy."""
    copy = Path("copy")
    Quantize(model=MODEL, out=copy).run()
    assert all(file.read_bytes() != SECRET for file in copy.rglob("*") if file.is_file()), (
        "a symbolic link was followed"
    )
    shutil.rmtree(MODEL)
    copy.rename(MODEL)
    _translate(settings)


def _ensemble(settings: Settings) -> None:
    _translate({**settings, "threads": None}, ensemble=(Path("other"),))


def _align(settings: Settings) -> None:
    Align(model=MODEL, corpus=str(PAIRS)).run()
    _translate(settings, alignment=True)


def _learn_shortlist(settings: Settings) -> None:
    LearnShortlist(model=MODEL, corpus=(str(PAIRS),), likely=5, frequent=50).run()
    _translate(settings, shortlist=True, engine="native")


VERBS: dict[str, Verb] = {
    "native int8": _native("int8"),
    "native bf16": _native("bf16"),
    "native fp32": _native("fp32"),
    "torch": lambda settings: _translate(settings, engine="torch"),
    "with a shortlist": lambda settings: _translate(settings, engine="native", shortlist=True),
    "with alignment": lambda settings: _translate(settings, alignment=True),
    "quantize": _quantize,
    "score": lambda _: Score(model=MODEL, corpus=str(PAIRS)).run(),
    "evaluate": lambda _: _with(Evaluate(model=MODEL, test=str(PAIRS)), {"beam": 2}).run(),
    "ensemble": _ensemble,
    "attention": lambda _: _with(
        Attention(model=MODEL, text="the lamp", out=Path("numbers.json")), {"target": "THE"}
    ).run(),
    "align": _align,
    "shortlist": _learn_shortlist,
}
COMPILED = ["native int8", "native bf16", "native fp32"]
IN_TURN = ["quantize", "score", "with a shortlist", "evaluate", "with alignment", "ensemble", "attention", "align"]
IN_TURN += ["shortlist"]
NEED_NATIVE = {*COMPILED, "with a shortlist", "shortlist"}

# Commands that print one line per line of text, and commands that print no output of the model.
LINE_BY_LINE = {*COMPILED, "torch", "with a shortlist", "with alignment", "ensemble"}
NUMBERS_ONLY = {"score", "evaluate"}


def verbs_for(number: int, kind: str, compiled: bool) -> list[str]:
    """Return the commands for a case: each engine, and one of the other commands in turn."""
    engine = COMPILED[number % 3]
    if kind in ("settings", "text"):
        chosen = [engine, "torch"]
    elif kind == "shortlist":
        chosen = ["with a shortlist", "quantize", "shortlist"]
    elif kind == "alignment":
        chosen = ["with alignment", engine]
    else:
        chosen = [engine, "torch", IN_TURN[number // 3 % len(IN_TURN)]]
    return [verb for verb in chosen if compiled or verb not in NEED_NATIVE]


def warm_up() -> None:
    """Import the modules that the commands import when they run, before processes are forked."""
    import dragoman.alignment.head_ranking
    import dragoman.attention_page.map
    import dragoman.attention_page.page
    import dragoman.attention_page.report
    import dragoman.evaluation.tasks
    import dragoman.inspection.capture
    import dragoman.models.convolutional
    import dragoman.models.recurrent
    import dragoman.models.transformer
    import dragoman.models.universal
    import dragoman.search.torch_backend
    import dragoman.translation.evaluation
    import dragoman.translation.shortlist_learning
    import dragoman.translation.translator
    import dragoman.translation.two_directions  # noqa: F401
