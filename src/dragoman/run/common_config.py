"""The settings of a run that do not depend on its task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig
from dragoman.models.registry import ARCHITECTURES, Kind, architecture_named, architectures
from dragoman.settings import PartialSettings, read_partial
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig

# Name of the user's settings in messages.
SOURCE = "the settings"


@dataclass(frozen=True, kw_only=True)
class CommonConfig(ABC):
    """Settings of a run that do not depend on its task.

    Attributes:
        task: What the model is trained for.
        architecture: Architecture of the model, see `models.registry`.
        preset: Preset of the model, a name for its sizes.
        schedule: Learning-rate schedule.
        training: Settings of training.
    """

    task: str
    architecture: str
    preset: str
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    training: TrainingConfig

    @property
    def origin(self) -> str:
        """Where the sizes of the model come from, in words."""
        return f"preset {self.preset}"

    @property
    @abstractmethod
    def batch_tokens(self) -> int:
        """Largest number of tokens in a batch; of pictures, their number."""

    @property
    def unit(self) -> str:
        """What the size of a batch counts."""
        return "tokens"

    @property
    def counted(self) -> str:
        """What the rate of training counts: what the loss is a mean of."""
        return "target tokens"


def read_model_settings(architecture: str, settings: Mapping[str, Any]) -> PartialSettings[ModelConfig]:
    """Check the keys and the types of the [model] table.

    Raises:
        SettingsError: for an unknown key or architecture, or a value of another type.
    """
    return read_partial(architecture_named(architecture).config, settings, SOURCE, place="model")


def read_model_table(architecture: str, settings: Mapping[str, object]) -> PartialSettings[ModelConfig]:
    """Check the [model] table in the settings of a run file; it may be missing.

    Raises:
        SettingsError: if it is not a table, or as in `read_model_settings`.
    """
    model = settings.get("model", {})
    if not isinstance(model, Mapping):
        raise SettingsError(f"model must be a table of settings, not {model!r}")
    return read_model_settings(architecture, model)


def check_architecture(architecture: str, kind: Kind, task: str) -> None:
    """Check that an architecture suits a task.

    Raises:
        SettingsError: if it is of another kind; an unknown architecture is reported elsewhere.
    """
    if architecture in ARCHITECTURES and ARCHITECTURES[architecture].kind != kind:
        raise SettingsError(
            f"architecture {architecture!r} is not one of task {task!r}: choose one of {', '.join(architectures(kind))}"
        )


def check_no_translation_settings(training: TrainingConfig, task: str) -> None:
    """Check that settings of training that only seq2seq models have are not used.

    Raises:
        SettingsError: if one of them is.
    """
    for name in ("subword_sampling", "source_loss"):
        if getattr(training, name):
            raise SettingsError(f"training.{name} is not available for task {task!r}: leave it out")
