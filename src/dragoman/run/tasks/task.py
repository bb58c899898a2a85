"""The interface of a task: what a model is trained for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from dragoman.device import Precision
from dragoman.models.description import ModelDescription
from dragoman.run.common_config import CommonConfig
from dragoman.run.plan import Plan
from dragoman.training.objective import Objective
from dragoman.training.validation import Validation


@dataclass(frozen=True, kw_only=True)
class OpenedRun:
    """What training needs of a prepared run.

    Attributes:
        objective: the objective.
        description: contents of config.json.
        validated: number of pairs or tokens of a validation, for metrics.json: {"pairs": 300}.
        model_card: returns the model card for the number of parameters, the updates and a validation.
    """

    objective: Objective[Any, Any]
    description: ModelDescription
    validated: Mapping[str, int]
    model_card: Callable[[int, int, Validation], str]


class Task(ABC):
    """Prepares runs of one task, and opens them for training."""

    @abstractmethod
    def files(self, corpora: Sequence[str]) -> list[str]:
        """Return the paths of the files that corpora name, without opening them.

        Raises:
            CorpusError: for a corpus in an unknown format.
        """

    @abstractmethod
    def check_settings(self, settings: Mapping[str, Any]) -> CommonConfig:
        """Return the run that the settings of a run file describe, with defaults as for an empty corpus.

        Raises:
            SettingsError: for an invalid setting.
        """

    @abstractmethod
    def prepare(self, request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
        """Read the corpora, learn and save the vocabulary, prepare the corpora, and determine all settings.

        Args:
            request: from `plan.make_request`.
            out: the model directory, which receives the vocabulary.
            run: the directory run/.
            console: shows the progress.

        Raises:
            SettingsError: for an invalid setting, before any corpus is read.
            CorpusError: for an invalid corpus.
        """

    @abstractmethod
    def open(self, plan: Plan, out: Path, precision: Precision) -> OpenedRun:
        """Open a prepared run.

        Raises:
            ModelError: if the vocabulary is not that of the prepared corpus.
            StorageError: if a prepared file is damaged.
        """

    def initialise(self, plan: Plan, model: nn.Module) -> None:  # noqa: B027
        """Set the initial weights of a new model where they are not random; by default, all are.

        Called before training starts or is resumed.

        Raises:
            ModelError: if the model from which the weights are copied cannot be read.
        """

    @abstractmethod
    def start_lines(self, plan: Plan) -> tuple[str, str]:
        """Return the sizes of the corpus, and of the vocabulary if there is one, for the summary before training."""

    @abstractmethod
    def next_commands(self, model: str) -> list[str]:
        """Return the commands that use a trained model, for the summary after training."""
