"""Everything that a run file can say, and what is chosen where it says nothing.

A run file is read once, into `UserSettings`: each key and type is checked. What is chosen for the corpus and the budget
is a complete `RunConfig`, and the user's settings are laid over it (`resolve`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dragoman.data.batching import BatchingConfig
from dragoman.data.cleaning import CleaningConfig
from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig
from dragoman.models.description import LONGEST_TRAINED
from dragoman.models.registry import architecture_named, preset
from dragoman.settings import Partial, read_partial
from dragoman.text.tokenizer import TokenizerConfig
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig

# What messages call the user's settings.
SOURCE = "the settings"


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which pairs are used.

    max_length          pairs with more subwords than this on a side are left out of training
    validation_share    split off when no validation corpus is given, by a hash of the source
    validation_pairs    the largest number of pairs to validate on
    """

    max_length: int = 128
    validation_share: float = 0.02
    validation_pairs: int = 1000

    def __post_init__(self) -> None:
        if not 1 <= self.max_length <= LONGEST_TRAINED:
            raise SettingsError(f"max_length must lie between 1 and {LONGEST_TRAINED:,}, not {self.max_length}")
        if self.validation_pairs < 1:
            raise SettingsError("validation_pairs must be at least 1")
        if not 0 < self.validation_share < 1:
            raise SettingsError(f"validation_share must be between 0 and 1, not {self.validation_share}")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run, but for the model's own settings: those start from the preset, see `model_config`."""

    architecture: str = "transformer"
    preset: str = "small"
    source_language: str | None = None
    target_language: str | None = None
    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    training: TrainingConfig


@dataclass(frozen=True, kw_only=True)
class UserSettings:
    """What a run file says, each key and type checked.

    run     everything but the [model] table
    model   the [model] table, of the architecture that `run` names
    """

    run: Partial[RunConfig]
    model: Partial[ModelConfig]


@dataclass(frozen=True, kw_only=True)
class CorpusSize:
    """What the choices depend on.

    pairs           to train on
    characters      distinct characters of the training text
    target_tokens   of the prepared corpus; 0 before it is prepared
    """

    pairs: int = 0
    characters: int = 0
    target_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class SizeDefaults:
    """Settings that suit the size of a corpus.

    pre_norm   put the norm before each sub-layer, in models that have that setting
    """

    preset: str
    vocabulary_size: int
    batch_tokens: int
    accumulate: int = 1
    pre_norm: bool = False


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget that the user gave; `by_clock`: as minutes, not as updates."""

    steps: int | None = None
    minutes: float | None = None
    by_clock: bool = False


@dataclass(frozen=True, kw_only=True)
class BudgetDefaults:
    """Settings that suit a budget.

    batch_tokens   in place of those that suit the size; None: those
    dropout        of the model; None: the preset's
    """

    schedule: ScheduleConfig
    training: TrainingConfig
    batch_tokens: int | None = None
    dropout: float | None = None


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A run with every choice made but those of the model that need its vocabulary, see `model_config`.

    model   settings of the model that replace those of the preset, later ones those of earlier ones
    """

    run: RunConfig
    model: tuple[Partial[ModelConfig], ...]


def read_settings(settings: Mapping[str, object]) -> UserSettings:
    """Check each key and each type of what a run file says.

    Raises:
        SettingsError: for an unknown key, an unknown architecture, or a value of another type.
    """
    run = read_partial(RunConfig, {key: value for key, value in settings.items() if key != "model"}, SOURCE)
    model = settings.get("model", {})
    if not isinstance(model, Mapping):
        raise SettingsError(f"model must be a table of settings, not {model!r}")
    return UserSettings(run=run, model=_model_settings(run.get("architecture", RunConfig.architecture), model))


def defaults_for_size(pairs: int, characters: int = 0) -> SizeDefaults:
    """Return settings that suit a corpus with this number of pairs and of distinct characters.

    Small corpora want small vocabularies and small batches (Sennrich and Zhang, "Revisiting Low-Resource
    Neural Machine Translation", 2019). Pre-norm spares them the long warm-up that post-norm needs.
    """
    # Of Chinese, thousands of characters are subwords of their own: words need room beside them.
    room = 1000 * (characters // 1000)
    if pairs < 200_000:
        vocabulary_size = (4000 if pairs < 50_000 else 8000) + room
        return SizeDefaults(preset="small", vocabulary_size=vocabulary_size, batch_tokens=1024, pre_norm=True)
    if pairs < 2_000_000:
        return SizeDefaults(preset="base", vocabulary_size=16_000 + room, batch_tokens=8192)
    return SizeDefaults(preset="base", vocabulary_size=37_000, batch_tokens=12_500, accumulate=2)


def defaults_for_budget(pairs: int, updates_per_epoch: int, budget: Budget) -> BudgetDefaults:
    """Return settings that suit the budget; without one, a number of updates is chosen.

    By the clock, the number of updates is unknown: the learning rate follows the time and falls to zero,
    which is worth several BLEU to a short run. Where few minutes meet a small corpus, Muon's updates are worth
    more than the greater number of Adam's. Otherwise it is the paper's schedule, its warm-up cut to a
    tenth of a run that is short for it. Who sees a small corpus many times needs more dropout.
    """
    if budget.by_clock:
        # The user's own number replaces this one.
        training = TrainingConfig(minutes=1, validations=5)
        # As measured: benchmarks/RESULTS.md.
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
        # About as many epochs as pay: 60 of a small corpus, 3 of a huge one.
        epochs = min(60.0, max(3.0, 1_500_000 / max(pairs, 1)))
        steps = max(1000, min(100_000, round(epochs * updates_per_epoch)))
    return BudgetDefaults(
        schedule=ScheduleConfig(kind="paper", warmup=max(1, min(4000, steps // 10))),
        # What is wrong with the user's own number is reported when it is laid over this.
        training=TrainingConfig(steps=max(1, steps)),
        dropout=0.3 if pairs < 50_000 else None,
    )


def resolve(user: UserSettings, corpus: CorpusSize) -> Resolved:
    """Lay the user's settings over what suits the corpus and the budget.

    Raises:
        SettingsError: for values that are out of range or contradict each other.
    """
    by_size = defaults_for_size(corpus.pairs, corpus.characters)
    by_budget = defaults_for_budget(corpus.pairs, _updates_per_epoch(user, by_size, corpus), _budget(user))
    chosen = RunConfig(
        preset=by_size.preset,
        tokenizer=TokenizerConfig(vocabulary_size=by_size.vocabulary_size),
        batching=BatchingConfig(batch_tokens=by_budget.batch_tokens or by_size.batch_tokens),
        schedule=by_budget.schedule,
        training=replace(by_budget.training, accumulate=by_size.accumulate),
    )
    run = user.run.over(chosen)
    return Resolved(run=run, model=(_chosen_model(run.architecture, by_size, by_budget), user.model))


def draft(user: UserSettings) -> RunConfig:
    """Check the settings before any corpus is read (a mistake must not cost minutes); return the run they describe.

    What depends on the corpus is chosen as for an empty one.

    Raises:
        SettingsError: for values that are out of range or contradict each other.
    """
    resolved = resolve(user, CorpusSize())
    model_config(resolved, source_vocabulary=1000, target_vocabulary=1000)
    return resolved.run


def model_config(resolved: Resolved, source_vocabulary: int, target_vocabulary: int) -> ModelConfig:
    """Return the preset for vocabularies of these sizes, with the run's settings of the model over it.

    Raises:
        SettingsError: for an unknown preset, or values that contradict each other.
    """
    run = resolved.run
    config = preset(
        run.preset, source_vocabulary, target_vocabulary, joint=run.tokenizer.joint, architecture=run.architecture
    )
    for settings in resolved.model:
        config = settings.over(config)
    return config


def _updates_per_epoch(user: UserSettings, by_size: SizeDefaults, corpus: CorpusSize) -> int:
    batch_tokens = user.run.get("batching.batch_tokens", by_size.batch_tokens)
    accumulate = user.run.get("training.accumulate", by_size.accumulate)
    # Neither may be below 1, which is reported when the settings are complete.
    return corpus.target_tokens // max(1, batch_tokens * accumulate)


def _budget(user: UserSettings) -> Budget:
    return Budget(
        steps=user.run.get("training.steps", TrainingConfig.steps),
        minutes=user.run.get("training.minutes", TrainingConfig.minutes),
        by_clock=user.run.has("training.minutes"),
    )


def _chosen_model(architecture: str, by_size: SizeDefaults, by_budget: BudgetDefaults) -> Partial[ModelConfig]:
    chosen: dict[str, object] = {}
    if by_size.pre_norm and "norm_placement" in {each.name for each in fields(architecture_named(architecture).config)}:
        chosen["norm_placement"] = "pre"
    if by_budget.dropout is not None:
        chosen["dropout"] = by_budget.dropout
    return _model_settings(architecture, chosen)


def _model_settings(architecture: str, settings: Mapping[str, Any]) -> Partial[ModelConfig]:
    return read_partial(architecture_named(architecture).config, settings, SOURCE, place="model")
