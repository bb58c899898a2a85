"""All settings of the training of a classifier or a tagger, and their defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig
from dragoman.models.config.labelled import LabelledConfig
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.registry import architecture_named, text_preset
from dragoman.models.tasks import DEFAULT_ARCHITECTURES, KINDS
from dragoman.run.common_config import (
    SOURCE,
    CommonConfig,
    check_architecture,
    check_no_translation_settings,
    read_model_table,
)
from dragoman.run.text_config import TextBatchingConfig
from dragoman.settings import PartialSettings, read_partial
from dragoman.text.vocabulary import VocabularyConfig
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig

# Number of epochs by default, and the least number of updates.
EPOCHS, LEAST_STEPS = 10, 200


@dataclass(frozen=True, kw_only=True)
class LabelledDataConfig:
    """Settings of the [data] table: which texts are held out.

    Attributes:
        validation_share: Fraction of the texts that is held out for validation, selected by a hash of the text, if no
            validation corpus is given.
    """

    validation_share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.validation_share < 1:
            raise SettingsError(f"validation_share must be between 0 and 1, not {self.validation_share}")


@dataclass(frozen=True, kw_only=True)
class LabelledRunConfig(CommonConfig):
    """Settings of the training of a classifier or a tagger, except the [model] table.

    Attributes:
        from_model: Model directory of an encoder, whose weights and vocabulary are the initial ones. None: random
            weights, and a vocabulary that is learned from the training texts.
        frozen: Train only the linear map to the labels; the encoder of `from_model` remains as it is.
        data: Which texts are held out.
        tokenizer: Settings of the vocabulary, without `from_model`.
        batching: Settings of the batches.
    """

    from_model: str | None = None
    frozen: bool = False
    data: LabelledDataConfig = field(default_factory=LabelledDataConfig)
    tokenizer: VocabularyConfig = field(default_factory=VocabularyConfig)
    batching: TextBatchingConfig = field(default_factory=TextBatchingConfig)

    def __post_init__(self) -> None:
        check_architecture(self.architecture, KINDS[self.task], self.task)
        if self.frozen and self.from_model is None:
            raise SettingsError("frozen needs from_model: the states of a random encoder are of no use")
        check_no_translation_settings(self.training, self.task)

    @property
    def origin(self) -> str:
        """See `CommonConfig.origin`."""
        return super().origin if self.from_model is None else f"from {self.from_model}"

    @property
    def batch_tokens(self) -> int:
        """Largest number of tokens in a batch."""
        return self.batching.batch_tokens


# Class of the settings of each task.
LABELLED_CONFIGS: Mapping[str, type[LabelledRunConfig]] = {"classify": LabelledRunConfig, "tag": LabelledRunConfig}


@dataclass(frozen=True, kw_only=True)
class UserLabelledSettings:
    """Settings of a run file, whose keys and types have been checked.

    Attributes:
        task: the task.
        run: everything except the [model] table.
        model: the [model] table.
    """

    task: str
    run: PartialSettings[LabelledRunConfig]
    model: PartialSettings[ModelConfig]

    def resolve(self, tokens: int, encoder: MaskedConfig | None = None) -> LabelledRunConfig:
        """Replace the defaults by the user's settings.

        Args:
            tokens: number of tokens of the training texts; 0 before they are prepared.
            encoder: settings of the encoder of `from_model`; None before it is read, or for random weights.

        Raises:
            SettingsError: for values that are out of range or contradict each other.
        """
        # A linear map alone is learned with larger steps; the trained weights of a wide encoder are changed with
        # smaller ones: 0.0016 for a width of 192 and 0.0001 for one of 768.
        tuned = min(0.002, 60 / encoder.d_model**2) if encoder is not None else 0.001
        peak = 0.01 if self.run.get("frozen", False) else tuned
        batch_tokens = self.run.get("batching.batch_tokens", TextBatchingConfig.batch_tokens)
        accumulate = self.run.get("training.accumulate", TrainingConfig.accumulate)
        updates = EPOCHS * (tokens // max(1, batch_tokens * accumulate))
        training = TrainingConfig(minutes=1, label_smoothing=0.0, best_by="accuracy", optimizer="adam", validations=5)
        if not self.run.has("training.minutes"):
            steps = self.run.get("training.steps", None) or max(LEAST_STEPS, updates)
            training = replace(training, minutes=None, steps=max(1, steps))
        defaults = LabelledRunConfig(
            task=self.task,
            architecture=DEFAULT_ARCHITECTURES[self.task],
            preset="mini",
            schedule=ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=peak),
            tokenizer=VocabularyConfig(vocabulary_size=2000),
            training=training,
        )
        return self.run.over(defaults)

    def model_config(self, encoder: MaskedConfig | None, vocabulary: int, labels: Sequence[str]) -> LabelledConfig:
        """Return the settings of the model.

        Args:
            encoder: settings of the encoder from which the weights are copied; None for those of the preset.
            vocabulary: number of tokens in the vocabulary.
            labels: the labels, sorted.

        Raises:
            SettingsError: for an unknown preset, or values that contradict each other.
        """
        if encoder is None:
            base = text_preset(self.run.get("preset", "mini"), vocabulary, architecture="masked")
            assert isinstance(base, MaskedConfig)
            encoder = base
        bare = replace(encoder, prediction_head=False, next_sentence=False, pooler=False)
        if "labels" in self.model.values:
            raise SettingsError("model.labels are those of the corpus: leave them out")
        default: ModelConfig = architecture_named(DEFAULT_ARCHITECTURES[self.task]).config(
            encoder=bare, labels=tuple(labels)
        )
        config = self.model.over(default)
        assert isinstance(config, LabelledConfig)
        if self.run.get("from_model", None) is not None and list(config.encoder.tensors()) != list(bare.tensors()):
            raise SettingsError(
                "model.encoder changes the shapes of the weights of from_model: leave those settings out"
            )
        return config


def read_labelled_settings(task: str, settings: Mapping[str, object]) -> UserLabelledSettings:
    """Check every key and every type in the settings of a run file.

    Raises:
        SettingsError: for an unknown key, an unknown architecture, or a value of another type.
    """
    run = read_partial(LabelledRunConfig, {key: value for key, value in settings.items() if key != "model"}, SOURCE)
    architecture = run.get("architecture", DEFAULT_ARCHITECTURES[task])
    check_architecture(architecture, KINDS[task], task)
    return UserLabelledSettings(task=task, run=run, model=read_model_table(architecture, settings))
