"""Settings: reading back what was written, and error messages that name the source and the key."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ModelError, SettingsError, UserError
from dragoman.settings import (
    PartialSettings,
    apply_overrides,
    differences,
    from_mapping,
    load_toml,
    merge,
    read_partial,
    to_mapping,
)


@dataclass(frozen=True, kw_only=True)
class Clip:
    norm: float = 1.0

    def __post_init__(self) -> None:
        if self.norm <= 0:
            raise ValueError(f"norm must be above 0, not {self.norm}")


@dataclass(frozen=True, kw_only=True)
class Training:
    steps: int = 1000
    rate: float = 0.5
    compile: bool = False
    kind: Literal["paper", "cosine"] = "paper"
    scale: Literal["sqrt", "none"] | float = "sqrt"
    betas: tuple[float, ...] = (0.9, 0.98)
    window: tuple[int, float] = (1, 2.0)
    minutes: float | None = None
    clip: Clip | None = Clip()


@dataclass(frozen=True, kw_only=True)
class Run:
    name: str
    out: Path | None = None
    training: Training = field(default_factory=Training)
    clips: tuple[Clip, ...] = ()


def read(text: str) -> Run:
    return from_mapping(Run, apply_overrides({"name": "x"}, text.split("\n")), "run.toml")


def test_every_type_is_read() -> None:
    mapping = {
        "name": "demo",
        "out": "models/demo",
        "training": {
            "steps": 20,
            "rate": 1,
            "compile": True,
            "kind": "cosine",
            "betas": [0.8, 1],
            "minutes": 5,
            "clip": {"norm": 2.5},
        },
        "clips": [{"norm": 1.0}, {}],
    }
    run = from_mapping(Run, mapping, "run.toml")
    assert run == Run(
        name="demo",
        out=Path("models/demo"),
        training=Training(
            steps=20,
            rate=1.0,
            compile=True,
            kind="cosine",
            betas=(0.8, 1.0),
            minutes=5.0,
            clip=Clip(norm=2.5),
        ),
        clips=(Clip(), Clip()),
    )
    assert isinstance(run.training.rate, float)
    assert isinstance(run.training.betas[1], float)


finite = st.floats(allow_nan=False, allow_infinity=False)
clips = st.builds(Clip, norm=finite.filter(lambda x: x > 0))
trainings = st.builds(
    Training,
    steps=st.integers(),
    rate=finite,
    compile=st.booleans(),
    kind=st.sampled_from(["paper", "cosine"]),
    betas=st.lists(finite).map(tuple),
    window=st.tuples(st.integers(), finite),
    minutes=st.none() | finite,
    clip=st.none() | clips,
)
paths = st.text("ab/.", min_size=1).map(Path)
runs = st.builds(
    Run,
    name=st.text(),
    out=st.none() | paths,
    training=trainings,
    clips=st.lists(clips, max_size=2).map(tuple),
)


@given(runs)
def test_settings_are_unchanged_by_a_json_round_trip(run: Run) -> None:
    mapping = json.loads(json.dumps(to_mapping(run), allow_nan=False))
    assert from_mapping(Run, mapping, "config.json") == run
    assert differences(to_mapping(run), mapping) == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "training.stpes=1",
            "unknown key training.stpes in run.toml: did you mean training.steps?",
        ),
        ("trainning.steps=1", "unknown key trainning in run.toml: did you mean training?"),
        ("steps=1", "unknown key steps in run.toml: did you mean training.steps?"),
        ("training.clip.nrom=1", "did you mean training.clip.norm?"),
        ("training.clip.xyz=1", "known keys: training.clip.norm"),
        ("training=5", "training in run.toml: expected a table of settings, got 5"),
        ("training.steps=1.0", "training.steps in run.toml: expected a whole number, got 1.0"),
        ("training.steps=true", "expected a whole number, got True"),
        ("training.steps=none", "expected a whole number, got 'none'"),
        ("training.rate=false", "training.rate in run.toml: expected a finite number, got False"),
        ("training.rate=nan", "expected a finite number, got nan"),
        ("training.rate=-inf", "expected a finite number, got -inf"),
        ("training.rate=1" + "0" * 400, "expected a finite number, got 1000"),
        ("training.rate=fast", "expected a finite number, got 'fast'"),
        ("training.compile=1", "training.compile in run.toml: expected true or false, got 1"),
        ("training.kind=linear", "expected one of 'paper', 'cosine', got 'linear'"),
        ("training.scale=root", "expected one of 'sqrt', 'none', or a finite number, got 'root'"),
        ("training.scale=true", "expected one of 'sqrt', 'none', or a finite number, got True"),
        ("training.scale=nan", "training.scale in run.toml: expected a finite number, got nan"),
        ("training.betas=0.9", "training.betas in run.toml: expected a list, got 0.9"),
        ("training.betas=[0.9, 'x']", "training.betas[1] in run.toml: expected a finite number"),
        ("training.window=[1]", "training.window in run.toml: expected a list of 2, got [1]"),
        ("training.window=[1.0, 2]", "training.window[0] in run.toml: expected a whole number"),
        ("training.minutes=true", "training.minutes in run.toml: expected a finite number"),
        ("name=5", "name in run.toml: expected text in quotes, got 5"),
        ("out=5", "out in run.toml: expected a path in quotes, got 5"),
        ("training.clip.norm=0", "training.clip in run.toml: norm must be above 0, not 0.0"),
        ("clips=[{norm = -1}]", "clips[0] in run.toml: norm must be above 0"),
    ],
)
def test_an_error_names_source_and_key(override: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        read(override)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(UserError, match=r"^name is missing in run\.toml$"):
        from_mapping(Run, {}, "run.toml")


def test_an_error_of_the_outermost_settings_names_the_file() -> None:
    with pytest.raises(UserError, match=r"^run\.toml: norm must be above 0"):
        from_mapping(Clip, {"norm": -1}, "run.toml")


def test_an_unsupported_field_type_is_a_type_error() -> None:
    @dataclass(frozen=True)
    class Odd:
        value: complex

    with pytest.raises(TypeError, match="complex"):
        from_mapping(Odd, {"value": 1}, "run.toml")


@pytest.mark.parametrize(("text", "scale"), [("none", "none"), ("sqrt", "sqrt"), ("0.5", 0.5), ("2", 2.0)])
def test_a_choice_or_a_number(text: str, scale: object) -> None:
    read_scale = read(f"training.scale={text}").training.scale
    assert read_scale == scale
    assert type(read_scale) is type(scale)


def test_the_text_none_means_null() -> None:
    run = read("training.clip=none\ntraining.minutes=none\nout=none")
    assert run == Run(name="x", training=Training(clip=None))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2000", 2000),
        (" 2000 ", 2000),
        ("1e-4", 1e-4),
        ("true", True),
        ('"2000"', "2000"),
        ("[1, 2]", [1, 2]),
        ("", ""),
        ("plain words", "plain words"),
        ("a=b", "a=b"),
        ("007", "007"),
        ("2024-01-31", "2024-01-31"),
        ("12:30:00", "12:30:00"),
        ("1\nname = 2", "1\nname = 2"),
        ("'open", "'open"),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_an_override_is_a_toml_value_or_text(text: str, value: object) -> None:
    mapping = apply_overrides({}, [f"a.b={text}"])
    assert mapping == {"a": {"b": value}}
    assert type(mapping["a"]["b"]) is type(value)  # type: ignore[index]


def test_overrides_do_not_change_the_original_mapping() -> None:
    mapping = {"training": {"steps": 1, "rate": 2}}
    changed = apply_overrides(mapping, ["training.steps=3", "training.steps=4", "name=y"])
    assert changed == {"training": {"steps": 4, "rate": 2}, "name": "y"}
    assert mapping == {"training": {"steps": 1, "rate": 2}}


@pytest.mark.parametrize("override", ["training.steps", "=3", "training.=3", ".steps=3", ""])
def test_an_override_without_key_or_value_is_refused(override: str) -> None:
    with pytest.raises(UserError, match="expected KEY=VALUE"):
        apply_overrides({}, [override])


def test_an_override_below_a_value_is_refused() -> None:
    with pytest.raises(UserError, match=r"training\.steps is 5, not a table"):
        apply_overrides({"training": {"steps": 5}}, ["training.steps.more=1"])


def test_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b'\xef\xbb\xbfname = "\xc3\xbc"\r\n[training]\r\nsteps = 5\r\n')
    assert load_toml(path) == {"name": "ü", "training": {"steps": 5}}


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a = 1\nb = \nc = 2\n", 2),
        (b"a = 1\r\n\r\nb = \r\nc = 2\r\n", 3),
        (b"a = 1\na = 2\n", 2),
        (b"a = 1\nb = [1,\n", 2),
        (b"a = 1\nb = 'caf\xe9'\n", 2),
        (b"a = 1\n\n\x00", 3),
        (b"a = " + b"[" * 100_000, 1),
        (b"a = " + b"9" * 5000, 1),
    ],
)
def test_a_bad_toml_file_names_file_and_line(tmp_path: Path, data: bytes, line: int) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(data)
    with pytest.raises(UserError, match=re.escape(f"{path}:{line}: not ")):
        load_toml(path)


def test_a_missing_toml_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"run\.toml: cannot be read: No such file"):
        load_toml(tmp_path / "run.toml")


def test_differences_name_key_and_both_values() -> None:
    old = to_mapping(Run(name="x", training=Training(clip=None)))
    new = to_mapping(Run(name="y", training=Training(steps=5)))
    assert differences(old, new) == [
        "name: x -> y",
        "training.steps: 1000 -> 5",
        "training.clip: None -> {'norm': 1.0}",
    ]
    assert differences({"gone": 1}, {"new": 2}) == ["gone: 1 -> (absent)", "new: (absent) -> 2"]


def test_later_run_files_replace_earlier_ones_key_by_key() -> None:
    assert merge({"a": {"x": 1, "y": 2}, "b": 1}, {"a": {"y": 3}}, {"b": {"z": 4}}) == {
        "a": {"x": 1, "y": 3},
        "b": {"z": 4},
    }


def partial(text: str) -> PartialSettings[Run]:
    return read_partial(Run, apply_overrides({}, text.split("\n") if text else []), "run.toml")


def test_partial_settings_report_which_keys_have_values() -> None:
    settings = partial("training.steps=5\ntraining.minutes=none\ntraining.clip=none")
    assert settings.get("training.steps", 0) == 5
    assert settings.get("training.minutes", 3.0) is None
    assert settings.get("training.rate", 0.25) == settings.get("training.clip.norm", 0.25) == 0.25
    assert settings.get("name", "unnamed") == "unnamed"
    assert settings.has("training.minutes")
    assert settings.has("training")
    assert not settings.has("training.rate")
    assert not settings.has("out")
    with pytest.raises(AssertionError, match="Training has no field stpes"):
        settings.has("training.stpes")


def test_partial_settings_replace_those_of_a_base_recursively() -> None:
    base = Run(name="base", training=Training(steps=7, rate=0.1, clip=Clip(norm=3.0)), clips=(Clip(),))
    assert partial("").over(base) == base
    changed = partial("training.steps=8\ntraining.clip.norm=2\nclips=[{norm = 5}, {}]").over(base)
    assert changed == Run(
        name="base", training=Training(steps=8, rate=0.1, clip=Clip(norm=2.0)), clips=(Clip(norm=5.0), Clip())
    )
    assert partial("training.clip=none").over(base).training.clip is None
    without = Run(name="base", training=Training(clip=None))
    assert partial("training.clip.norm=2").over(without).training.clip == Clip(norm=2.0)
    assert base == Run(name="base", training=Training(steps=7, rate=0.1, clip=Clip(norm=3.0)), clips=(Clip(),))


def test_partial_settings_may_hold_a_dataclass_that_is_built_already() -> None:
    built = Training(steps=3)
    settings = read_partial(Run, {"name": "x", "training": built}, "run.toml")
    assert settings.build().training is built
    assert settings.over(Run(name="y", training=Training(rate=0.9))).training is built


def test_an_error_in_partial_settings_names_source_and_key() -> None:
    bad = partial("name=x\ntraining.clip.norm=-1")
    for finish in (bad.build, lambda: bad.over(Run(name="y"))):
        with pytest.raises(SettingsError, match=r"^training\.clip in run\.toml: norm must be above 0, not -1\.0$"):
            finish()
    with pytest.raises(SettingsError, match=r"^name is missing in run\.toml$"):
        partial("training.steps=1").build()


@pytest.mark.parametrize(
    "mapping",
    [{"nmae": "x"}, {}, {"name": 5}, {"name": "x", "training": {"clip": {"norm": 0}}}, {"name": "x", "clips": 1}],
)
def test_the_caller_chooses_the_class_of_errors(mapping: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        from_mapping(Run, mapping, "run.toml")
    with pytest.raises(ModelError):
        from_mapping(Run, mapping, "config.json", error=ModelError)
