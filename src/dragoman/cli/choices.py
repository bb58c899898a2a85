"""Allowed values of command-line options, read from the tables of the other packages. Nothing here needs torch."""

from collections.abc import Iterable

from tyro.constructors import PrimitiveConstructorSpec

from dragoman.comparison.studies import STUDIES, tasks_with_studies
from dragoman.evaluation.tasks import TASKS
from dragoman.models.registry import ARCHITECTURES, Architecture
from dragoman.models.tasks import KINDS, PICTURE_TASKS
from dragoman.native.engine_selection import EngineName, PrecisionName

__all__ = [
    "EngineName",
    "PrecisionName",
    "architectures",
    "metrics",
    "one_of",
    "picture_architectures",
    "picture_presets",
    "presets",
    "studies",
    "study_tasks",
    "tasks",
]


def one_of(names: Iterable[str]) -> PrimitiveConstructorSpec[str]:
    """Return the annotation of an option that accepts one of these names: `Annotated[str, one_of(names)]`."""
    choices = tuple(names)
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(choices) + "}",
        instance_from_str=lambda arguments: arguments[0],
        is_instance=lambda value: value in choices,
        str_from_instance=lambda value: [value],
        choices=choices,
    )


def architectures() -> list[str]:
    """Return the names of the architectures that `dragoman train` trains."""
    return list(_text_architectures())


def presets() -> list[str]:
    """Return the names of the presets of the same architectures, without repetition."""
    return list(dict.fromkeys(name for architecture in _text_architectures().values() for name in architecture.presets))


def picture_architectures() -> list[str]:
    """Return the names of the architectures that `dragoman images train` trains."""
    return [name for name in ARCHITECTURES if name not in _text_architectures()]


def picture_presets() -> list[str]:
    """Return the names of the presets of these architectures, without repetition."""
    return list(dict.fromkeys(preset for name in picture_architectures() for preset in ARCHITECTURES[name].presets))


def tasks() -> list[str]:
    """Return the names of the tasks of `dragoman train`."""
    return ["translation", *(task for task in KINDS if task not in PICTURE_TASKS)]


def _text_architectures() -> dict[str, Architecture]:
    kinds = {"seq2seq", *(kind for task, kind in KINDS.items() if task not in PICTURE_TASKS)}
    return {name: architecture for name, architecture in ARCHITECTURES.items() if architecture.kind in kinds}


def studies() -> list[str]:
    """Return the names of the studies of `dragoman compare`."""
    return list(STUDIES)


def study_tasks() -> list[str]:
    """Return the tasks of `dragoman compare`."""
    return tasks_with_studies()


def metrics() -> list[str]:
    """Return the values of `dragoman evaluate --metric`."""
    return list(TASKS)
