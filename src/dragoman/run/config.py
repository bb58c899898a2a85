"""All settings of a run file, and their defaults for a corpus and a budget.

A run file is read into `UserSettings`, and each key and type is checked. The defaults that suit the corpus and the
budget are a complete `RunConfig`, in which the user's settings then replace the defaults (`resolve`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from dragoman.data.batching import BatchingConfig
from dragoman.data.cleaning import CleaningConfig
from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig
from dragoman.models.description import LONGEST_TRAINED, ModelDescription, load_description, seq2seq_config
from dragoman.models.registry import architecture_named, preset
from dragoman.run.common_config import (
    SOURCE,
    CommonConfig,
    check_architecture,
    read_model_settings,
    read_model_table,
)
from dragoman.settings import PartialSettings, read_partial
from dragoman.text.tokenizer import TokenizerConfig
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig

# Defaults for a model that is trained already: the learning rate, the epochs, and the least number of updates.
TUNING_RATE, TUNING_EPOCHS, LEAST_TUNING_STEPS = 0.0005, 10, 200


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Settings of the [data] table: which pairs are used.

    Attributes:
        max_length: Longest pair in training, in subwords per side; longer pairs are left out.
        validation_share: Fraction of the pairs that is held out for validation, selected by a hash of the source, if no
            validation corpus is given.
        validation_pairs: Largest number of pairs to validate on.
    """

    max_length: int = 128
    validation_share: float = 0.02
    validation_pairs: int = 1000

    def __post_init__(self) -> None:
        if not 1 <= self.max_length <= LONGEST_TRAINED:
            raise SettingsError(f"max_length must be between 1 and {LONGEST_TRAINED:,}, not {self.max_length}")
        if self.validation_pairs < 1:
            raise SettingsError("validation_pairs must be at least 1")
        if not 0 < self.validation_share < 1:
            raise SettingsError(f"validation_share must be between 0 and 1, not {self.validation_share}")


@dataclass(frozen=True, kw_only=True)
class RunConfig(CommonConfig):
    """Settings of a translation run, except the [model] table, whose defaults are those of the preset.

    Example:
        >>> config = RunConfig(preset="base", training=TrainingConfig(steps=20_000))
        >>> config.batching.batch_tokens
        4096

    Attributes:
        from_model: Model directory of a model of this task, whose weights, subwords and sizes are the initial ones.
            None: random weights, and subwords that are learned from the training pairs.
        source_language: Code of the source language, such as "en".
        target_language: Code of the target language, such as "de"; it determines the tokenizer of BLEU.
        data: Which pairs are used.
        cleaning: Which pairs are removed as damaged.
        tokenizer: Settings of the subword tokenizer.
        batching: Settings of the batches.
    """

    task: Literal["translation"] = "translation"
    architecture: str = "transformer"
    preset: str = "small"
    from_model: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    batching: BatchingConfig = field(default_factory=BatchingConfig)

    def __post_init__(self) -> None:
        check_architecture(self.architecture, "seq2seq", self.task)
        if self.training.source_loss and self.architecture != "decoder-only":
            raise SettingsError(
                f"training.source_loss is available for architecture 'decoder-only' only, not for {self.architecture!r}"
            )

    @property
    def origin(self) -> str:
        """See `CommonConfig.origin`."""
        return super().origin if self.from_model is None else f"from {self.from_model}"

    @property
    def batch_tokens(self) -> int:
        """Largest number of tokens in a batch."""
        return self.batching.batch_tokens


@dataclass(frozen=True, kw_only=True)
class UserSettings:
    """Settings of a run file, whose keys and types have been checked.

    Attributes:
        run: everything except the [model] table.
        model: the [model] table, for the architecture in `run`.
        initial: the model in `from_model`; None if training starts from random weights.
    """

    run: PartialSettings[RunConfig]
    model: PartialSettings[ModelConfig]
    initial: ModelDescription | None = None


@dataclass(frozen=True, kw_only=True)
class CorpusSize:
    """Size of the training corpus, which determines defaults.

    Attributes:
        pairs: number of training pairs.
        characters: number of distinct characters in the training text.
        target_tokens: number of target tokens in the prepared corpus; 0 before it is prepared.
    """

    pairs: int = 0
    characters: int = 0
    target_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class SizeDefaults:
    """Defaults for a corpus of a certain size.

    Attributes:
        preset: preset of the model.
        vocabulary_size: number of subwords.
        batch_tokens: size of a batch.
        accumulate: batches per update.
        pre_norm: apply normalisation before each sub-layer, in architectures that have this setting.
    """

    preset: str
    vocabulary_size: int
    batch_tokens: int
    accumulate: int = 1
    pre_norm: bool = False


@dataclass(frozen=True, kw_only=True)
class RequestedBudget:
    """The budget in the user's settings.

    Attributes:
        steps: number of updates; None if it is not given.
        minutes: wall-clock time; None if it is not given.
        by_clock: True if training.minutes is given.
    """

    steps: int | None = None
    minutes: float | None = None
    by_clock: bool = False


@dataclass(frozen=True, kw_only=True)
class BudgetDefaults:
    """Defaults for a certain budget.

    Attributes:
        schedule: learning-rate schedule.
        training: settings of training.
        batch_tokens: size of a batch; None: as in the defaults for the size of the corpus.
        dropout: dropout of the model; None: as in the preset.
    """

    schedule: ScheduleConfig
    training: TrainingConfig
    batch_tokens: int | None = None
    dropout: float | None = None


@dataclass(frozen=True, kw_only=True)
class ResolvedRun:
    """A run with all settings, except those of the model that depend on its vocabulary, see `model_config`.

    Attributes:
        run: everything except the [model] table.
        model: settings of the model that replace those of the preset, or of the model to start from; later ones
            replace earlier ones.
        initial: see `UserSettings.initial`.
    """

    run: RunConfig
    model: tuple[PartialSettings[ModelConfig], ...]
    initial: ModelDescription | None = None


def read_settings(settings: Mapping[str, object]) -> UserSettings:
    """Check every key and every type in the settings of a run file, and read the description of the initial model.

    Raises:
        SettingsError: for an unknown key, an unknown architecture, a value of another type, or a setting that
            contradicts the initial model.
        ModelError: if the initial model cannot be read, or does not translate.
    """
    run = read_partial(RunConfig, {key: value for key, value in settings.items() if key != "model"}, SOURCE)
    directory = run.get("from_model", RunConfig.from_model)
    if directory is None:
        return UserSettings(run=run, model=read_model_table(run.get("architecture", RunConfig.architecture), settings))
    initial = load_description(Path(directory))
    seq2seq_config(initial, Path(directory))
    for key in ("architecture", "preset", "tokenizer"):
        if run.has(key):
            raise SettingsError(f"{key} is that of the model to start from, {directory}: leave it out")
    model = read_model_table(initial.architecture, settings)
    for key in model.values:
        if not key.endswith("dropout"):
            raise SettingsError(f"model.{key} is that of the model to start from, {directory}: leave it out")
    return UserSettings(run=run, model=model, initial=initial)


def defaults_for_size(pairs: int, characters: int = 0) -> SizeDefaults:
    """Return defaults for a corpus with this number of pairs and of distinct characters.

    Small corpora need small vocabularies and small batches (Sennrich and Zhang, "Revisiting Low-Resource Neural Machine
    Translation", 2019). For them, normalisation is applied before each sub-layer, which does not need the long warm-up
    of normalisation after each sub-layer.
    """
    # In languages such as Chinese, thousands of characters are subwords; the vocabulary needs additional entries for
    # words.
    extra = 1000 * (characters // 1000)
    if pairs < 200_000:
        vocabulary_size = (4000 if pairs < 50_000 else 8000) + extra
        return SizeDefaults(preset="small", vocabulary_size=vocabulary_size, batch_tokens=1024, pre_norm=True)
    if pairs < 2_000_000:
        return SizeDefaults(preset="base", vocabulary_size=16_000 + extra, batch_tokens=8192)
    return SizeDefaults(preset="base", vocabulary_size=37_000, batch_tokens=12_500, accumulate=2)


def defaults_for_budget(pairs: int, updates_per_epoch: int, budget: RequestedBudget) -> BudgetDefaults:
    """Return defaults for a budget. If the user gives none, they include a number of updates.

    With a budget of minutes, the number of updates is unknown. The learning rate then depends on the spent fraction of
    the time and decreases to zero, which improves short runs by several BLEU. With few minutes and a small corpus, Muon
    reaches better metrics than Adam, although it makes fewer updates. With a budget of updates, the paper's schedule is
    used, with a warm-up of at most a tenth of the run. A small corpus, which is seen many times, needs more dropout.

    Args:
        pairs: number of training pairs.
        updates_per_epoch: number of updates in which all training pairs are seen once.
        budget: the budget in the user's settings.
    """
    if budget.by_clock:
        # The user's number of minutes replaces this one.
        training = TrainingConfig(minutes=1, validations=5)
        # The thresholds are measured, see benchmarks/RESULTS.md.
        if budget.minutes is not None and budget.minutes < 20 and pairs < 200_000:
            return BudgetDefaults(
                schedule=ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=0.002),
                training=replace(training, optimizer="muon", validations=3),
                batch_tokens=2048,
            )
        return BudgetDefaults(
            schedule=ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=0.001), training=training
        )
    steps = budget.steps
    if steps is None:
        # More epochs hardly improve a model: 60 for a small corpus, 3 for a very large one.
        epochs = min(60.0, max(3.0, 1_500_000 / max(pairs, 1)))
        steps = max(1000, min(100_000, round(epochs * updates_per_epoch)))
    return BudgetDefaults(
        schedule=ScheduleConfig(kind="paper", warmup=max(1, min(4000, steps // 10))),
        # An invalid number of the user is reported when it replaces this one.
        training=TrainingConfig(steps=max(1, steps)),
        dropout=0.3 if pairs < 50_000 else None,
    )


def defaults_for_tuning(updates_per_epoch: int, budget: RequestedBudget) -> BudgetDefaults:
    """Return defaults for a model that is trained already: a small learning rate, and few epochs.

    Args:
        updates_per_epoch: number of updates in which all training pairs are seen once.
        budget: the budget in the user's settings.
    """
    schedule = ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=TUNING_RATE)
    if budget.by_clock:
        return BudgetDefaults(schedule=schedule, training=TrainingConfig(minutes=1, validations=5))
    steps = budget.steps if budget.steps is not None else max(LEAST_TUNING_STEPS, TUNING_EPOCHS * updates_per_epoch)
    return BudgetDefaults(schedule=schedule, training=TrainingConfig(steps=max(1, steps)))


def resolve(user: UserSettings, corpus: CorpusSize) -> ResolvedRun:
    """Replace the defaults for the corpus and the budget by the user's settings.

    Raises:
        SettingsError: for values that are out of range or contradict each other.
    """
    by_size = defaults_for_size(corpus.pairs, corpus.characters)
    updates, budget = _updates_per_epoch(user, by_size, corpus), _requested_budget(user)
    if user.initial is not None:
        return _resolve_tuning(user, user.initial, by_size, defaults_for_tuning(updates, budget))
    by_budget = defaults_for_budget(corpus.pairs, updates, budget)
    defaults = RunConfig(
        preset=by_size.preset,
        tokenizer=TokenizerConfig(vocabulary_size=by_size.vocabulary_size),
        batching=BatchingConfig(batch_tokens=by_budget.batch_tokens or by_size.batch_tokens),
        schedule=by_budget.schedule,
        training=replace(by_budget.training, accumulate=by_size.accumulate),
    )
    run = user.run.over(defaults)
    return ResolvedRun(run=run, model=(_default_model_settings(run.architecture, by_size, by_budget), user.model))


def _resolve_tuning(
    user: UserSettings, initial: ModelDescription, by_size: SizeDefaults, by_budget: BudgetDefaults
) -> ResolvedRun:
    defaults = RunConfig(
        architecture=initial.architecture,
        source_language=initial.source_language,
        target_language=initial.target_language,
        tokenizer=TokenizerConfig(right_to_left=initial.right_to_left),
        batching=BatchingConfig(batch_tokens=by_size.batch_tokens),
        schedule=by_budget.schedule,
        training=replace(by_budget.training, accumulate=by_size.accumulate),
    )
    return ResolvedRun(run=user.run.over(defaults), model=(user.model,), initial=initial)


def resolve_without_corpus(user: UserSettings) -> RunConfig:
    """Return the run that the settings describe, with defaults as for an empty corpus.

    This checks the settings before a corpus is read, so that a mistake is reported immediately.

    Raises:
        SettingsError: for values that are out of range or contradict each other.
    """
    resolved = resolve(user, CorpusSize())
    model_config(resolved, source_vocabulary=1000, target_vocabulary=1000)
    return resolved.run


def model_config(resolved: ResolvedRun, source_vocabulary: int, target_vocabulary: int) -> ModelConfig:
    """Return the preset for vocabularies of these sizes, with the run's settings of the model in place of its own.

    A model to start from takes the place of the preset, and has its own vocabularies.

    Raises:
        SettingsError: for an unknown preset, or values that contradict each other.
    """
    run = resolved.run
    config: ModelConfig
    if resolved.initial is not None:
        config = resolved.initial.model
    else:
        config = preset(
            run.preset, source_vocabulary, target_vocabulary, joint=run.tokenizer.joint, architecture=run.architecture
        )
    for settings in resolved.model:
        config = settings.over(config)
    return config


def _updates_per_epoch(user: UserSettings, by_size: SizeDefaults, corpus: CorpusSize) -> int:
    batch_tokens = user.run.get("batching.batch_tokens", by_size.batch_tokens)
    accumulate = user.run.get("training.accumulate", by_size.accumulate)
    # Values below 1 are reported later, when the settings are complete.
    return corpus.target_tokens // max(1, batch_tokens * accumulate)


def _requested_budget(user: UserSettings) -> RequestedBudget:
    return RequestedBudget(
        steps=user.run.get("training.steps", TrainingConfig.steps),
        minutes=user.run.get("training.minutes", TrainingConfig.minutes),
        by_clock=user.run.has("training.minutes"),
    )


def _default_model_settings(
    architecture: str, by_size: SizeDefaults, by_budget: BudgetDefaults
) -> PartialSettings[ModelConfig]:
    names = {field.name for field in fields(architecture_named(architecture).config)}
    defaults: dict[str, object] = {}
    if by_size.pre_norm and "norm_placement" in names:
        defaults["norm_placement"] = "pre"
    if by_budget.dropout is not None:
        defaults["dropout"] = by_budget.dropout
    return read_model_settings(architecture, defaults)
