"""The interface of what depends on the task in a study."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.comparison.studies import Variant
from dragoman.comparison.trial import Measurement, Trial
from dragoman.models.config import ModelConfig
from dragoman.run.plan import Plan

# Settings that a variant of another architecture takes from the reference, if it has them. Its sizes are those of its
# own preset.
SHARED_SETTINGS = ("dropout", "norm_placement", "norm", "activation", "tied_embeddings")


class StudyTask(ABC):
    """Settings, tests and report of the studies of one task.

    Attributes:
        defaults: Defaults of all studies, which a run file can change.
        shared: Names of the settings that a variant of another architecture takes from the reference, if it has them.
        tokens: Name of the tokens that are counted in training.
        speed: Name of the speed of a test.
        held_out: Name of the data on which models are tested without a test corpus.
        metrics: Metrics of a test, the columns of the table.
        curves: Metrics of validations that are drawn, each with the label of its axis.
        condition: A condition of all tests, for the report.
    """

    defaults: ClassVar[Mapping[str, Any]]
    shared: ClassVar[tuple[str, ...]] = SHARED_SETTINGS
    tokens: ClassVar[str]
    speed: ClassVar[str]
    held_out: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    curves: ClassVar[Mapping[str, str]]
    condition: ClassVar[str]

    @abstractmethod
    def check(self, variants: Sequence[Variant], settings: Mapping[str, Any]) -> None:
        """Check the settings of the reference, and that there is a preset of their name for every variant.

        Raises:
            SettingsError: for an invalid setting.
        """

    @abstractmethod
    def preset(self, architecture: str, reference: Plan) -> ModelConfig:
        """Return the settings of the reference's preset for another architecture."""

    @abstractmethod
    def test(self, trial: Trial, plan: Plan) -> Measurement:
        """Measure the trained model of a trial.

        Raises:
            CorpusError: for an invalid test corpus.
        """
