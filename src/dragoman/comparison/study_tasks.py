"""The table of tasks that have studies."""

from collections.abc import Mapping

from dragoman.comparison.language_study import LanguageStudy
from dragoman.comparison.study_task import StudyTask
from dragoman.comparison.translation_study import TranslationStudy

STUDY_TASKS: Mapping[str, StudyTask] = {"translation": TranslationStudy(), "language": LanguageStudy()}


def study_task(name: str) -> StudyTask:
    """Return what the studies of a task have in common; the task is one of `studies.tasks_with_studies`."""
    return STUDY_TASKS[name]
