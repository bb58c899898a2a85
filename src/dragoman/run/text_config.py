"""All settings of a run on running text (language models, encoders), and their defaults for a text and a budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dragoman.data.masking import MaskingConfig
from dragoman.data.texts import DocumentUnit
from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig, TextModelConfig
from dragoman.models.registry import text_preset
from dragoman.models.tasks import DEFAULT_ARCHITECTURES, KINDS
from dragoman.run.common_config import (
    SOURCE,
    CommonConfig,
    check_architecture,
    check_no_translation_settings,
    read_model_table,
)
from dragoman.settings import PartialSettings, read_partial
from dragoman.text.vocabulary import VocabularyConfig
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TextDataConfig:
    """Settings of the [data] table: what a document is, and which text is held out.

    Attributes:
        documents: What one document of a plain file is: the whole "file", a "paragraph" (paragraphs are separated by
            blank lines) or a "line". Each line of a JSONL file is one document.
        validation_share: Fraction of the text that is held out for validation, if no validation text is given: the end
            of the text; of a thousand documents or more, documents that are selected by a hash of their text.
        validation_tokens: Largest number of tokens to validate on, from the beginning of the validation text.
    """

    documents: DocumentUnit = "file"
    validation_share: float = 0.1
    validation_tokens: int = 200_000

    def __post_init__(self) -> None:
        if not 0 < self.validation_share < 1:
            raise SettingsError(f"validation_share must be between 0 and 1, not {self.validation_share}")
        if self.validation_tokens < 1:
            raise SettingsError(f"validation_tokens must be at least 1, not {self.validation_tokens}")


@dataclass(frozen=True, kw_only=True)
class TextBatchingConfig:
    """Settings of the [batching] table.

    Attributes:
        batch_tokens: Number of tokens in a batch, rounded down to whole windows of `model.context` tokens; at least one
            window.
    """

    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise SettingsError(f"batch_tokens must be at least 1, not {self.batch_tokens}")


@dataclass(frozen=True, kw_only=True)
class TextRunConfig(CommonConfig):
    """Settings of a run on running text, except the [model] table: its defaults are those of the preset.

    Attributes:
        data: What a document is, and which text is held out.
        tokenizer: Settings of the vocabulary.
        batching: Settings of the batches.
    """

    data: TextDataConfig = field(default_factory=TextDataConfig)
    tokenizer: VocabularyConfig = field(default_factory=VocabularyConfig)
    batching: TextBatchingConfig = field(default_factory=TextBatchingConfig)

    def __post_init__(self) -> None:
        check_architecture(self.architecture, KINDS[self.task], self.task)
        check_no_translation_settings(self.training, self.task)

    @property
    def batch_tokens(self) -> int:
        """Largest number of tokens in a batch."""
        return self.batching.batch_tokens


@dataclass(frozen=True, kw_only=True)
class MaskedRunConfig(TextRunConfig):
    """Settings of the training of an encoder by masking: those of `TextRunConfig`, and the masks.

    Attributes:
        masking: Which tokens are predicted.
    """

    masking: MaskingConfig = field(default_factory=MaskingConfig)


# Class of the settings of each task.
CONFIGS: Mapping[str, type[TextRunConfig]] = {"language": TextRunConfig, "masked": MaskedRunConfig}
# Number of epochs by default. An encoder learns from 15 % of the tokens of an epoch only.
EPOCHS = {"language": 10, "masked": 40}


@dataclass(frozen=True, kw_only=True)
class UserTextSettings:
    """Settings of a run file, whose keys and types have been checked.

    Attributes:
        run: everything except the [model] table.
        model: the [model] table, for the architecture in `run`.
    """

    run: PartialSettings[TextRunConfig]
    model: PartialSettings[ModelConfig]


@dataclass(frozen=True, kw_only=True)
class ResolvedTextRun:
    """A run with all settings, except those of the model that depend on its vocabulary, see `model_config`.

    Attributes:
        run: everything except the [model] table.
        model: settings of the model that replace those of the preset.
    """

    run: TextRunConfig
    model: PartialSettings[ModelConfig]

    def model_config(self, vocabulary: int) -> TextModelConfig:
        """Return the settings of the model for a vocabulary of this size.

        Raises:
            SettingsError: for an unknown preset, or values that contradict each other.
        """
        base: ModelConfig = text_preset(self.run.preset, vocabulary, architecture=self.run.architecture)
        config = self.model.over(base)
        assert isinstance(config, TextModelConfig)
        return config


def read_text_settings(task: str, settings: Mapping[str, object]) -> UserTextSettings:
    """Check every key and every type in the settings of a run file.

    Raises:
        SettingsError: for an unknown key, an unknown architecture, or a value of another type.
    """
    run = read_partial(CONFIGS[task], {key: value for key, value in settings.items() if key != "model"}, SOURCE)
    architecture = run.get("architecture", DEFAULT_ARCHITECTURES[task])
    check_architecture(architecture, KINDS[task], task)
    return UserTextSettings(run=run, model=read_model_table(architecture, settings))


def resolve_text(task: str, user: UserTextSettings, characters: int, tokens: int) -> ResolvedTextRun:
    """Replace the defaults for a text and a budget by the user's settings.

    Args:
        task: the task.
        user: the user's settings.
        characters: number of characters of the training text; 0 before it is read.
        tokens: number of tokens of the training text; 0 before it is prepared.

    Raises:
        SettingsError: for values that are out of range or contradict each other.
    """
    batch_tokens = user.run.get("batching.batch_tokens", TextBatchingConfig.batch_tokens)
    accumulate = user.run.get("training.accumulate", TrainingConfig.accumulate)
    # Values below 1 are reported when the settings are complete.
    updates_per_epoch = tokens // max(1, batch_tokens * accumulate)
    schedule, training = _budget_defaults(user, EPOCHS[task] * updates_per_epoch)
    preset, vocabulary = _size_defaults(task, characters)
    defaults = CONFIGS[task](
        task=task,
        architecture=DEFAULT_ARCHITECTURES[task],
        preset=preset,
        tokenizer=vocabulary,
        schedule=schedule,
        training=training,
    )
    return ResolvedTextRun(run=user.run.over(defaults), model=user.model)


def _size_defaults(task: str, characters: int) -> tuple[str, VocabularyConfig]:
    """Return preset and vocabulary for a text of this size."""
    small, medium = {"language": ("nano", "mini"), "masked": ("mini", "small")}[task]
    if characters < 3_000_000:
        return small, VocabularyConfig(vocabulary_size=1000)
    if characters < 50_000_000:
        return medium, VocabularyConfig(vocabulary_size=4000)
    return medium, VocabularyConfig(vocabulary_size=16_000)


def _budget_defaults(user: UserTextSettings, updates: int) -> tuple[ScheduleConfig, TrainingConfig]:
    """Return schedule and training for the user's budget; without one, for about this number of updates."""
    schedule = ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=0.002)
    training = TrainingConfig(minutes=1, label_smoothing=0.0, best_by="loss", optimizer="muon", weight_decay=0.1)
    if user.run.has("training.minutes"):
        # The user's number of minutes replaces this one.
        return schedule, training
    steps = user.run.get("training.steps", None) or max(1000, min(100_000, updates))
    return schedule, replace(training, minutes=None, steps=max(1, steps))
