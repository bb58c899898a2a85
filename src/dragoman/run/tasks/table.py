"""The table of tasks."""

from collections.abc import Mapping

from dragoman.errors import SettingsError
from dragoman.run.tasks.labelled import Classify, Tag
from dragoman.run.tasks.language import Language
from dragoman.run.tasks.masked import Masked
from dragoman.run.tasks.picture_classes import PictureClasses
from dragoman.run.tasks.picture_generation import PictureGeneration
from dragoman.run.tasks.task import Task
from dragoman.run.tasks.translation import Translation

DEFAULT_TASK = "translation"
# By the value of the setting `task` and of `dragoman train --task`.
TASKS: Mapping[str, Task] = {
    DEFAULT_TASK: Translation(),
    "language": Language(),
    "masked": Masked(),
    "classify": Classify(),
    "tag": Tag(),
    "images": PictureGeneration(),
    "classify-images": PictureClasses(),
}


def task_named(name: object) -> Task:
    """Return the task of this name.

    Raises:
        SettingsError: if the name is unknown.
    """
    if not isinstance(name, str) or name not in TASKS:
        raise SettingsError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    return TASKS[name]
