"""Everything that a run file can say, and what is chosen where it is silent."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dragoman.data.batching import BatchingConfig
from dragoman.data.cleaning import CleaningConfig
from dragoman.errors import UserError
from dragoman.models.config import ARCHITECTURES, ModelConfig, read_model_config
from dragoman.models.presets import preset
from dragoman.settings import to_mapping
from dragoman.text.tokenizer import TokenizerConfig
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which pairs are used.

    max_length          pairs with more subwords than this on a side are left out of training
    validation_share    split off when no validation corpus is given, by a hash of the source
    validation_pairs    at most so many pairs are validated on
    """

    max_length: int = 128
    validation_share: float = 0.02
    validation_pairs: int = 1000

    def __post_init__(self) -> None:
        if self.max_length < 1 or self.validation_pairs < 1:
            raise ValueError("max_length and validation_pairs must be at least 1")
        if not 0 < self.validation_share < 1:
            raise ValueError(f"validation_share must be between 0 and 1, not {self.validation_share}")


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


def choose_by_size(pairs: int, characters: int = 0, architecture: object = "transformer") -> dict[str, Any]:
    """Settings that suit a corpus of so many pairs, with so many different characters.

    Small corpora want small vocabularies and small batches (Sennrich and Zhang, "Revisiting Low-Resource
    Neural Machine Translation", 2019). Pre-norm spares them the long warm-up that post-norm needs.
    """
    # Of Chinese, thousands of characters are subwords of their own: words need room beside them.
    room = 1000 * (characters // 1000)
    if pairs < 200_000:
        return {
            "preset": "small",
            "model": {"norm_placement": "pre"} if _has_setting(architecture, "norm_placement") else {},
            "tokenizer": {"vocabulary_size": (4000 if pairs < 50_000 else 8000) + room},
            "batching": {"batch_tokens": 1024},
        }
    if pairs < 2_000_000:
        return {
            "preset": "base",
            "tokenizer": {"vocabulary_size": 16_000 + room},
            "batching": {"batch_tokens": 8192},
        }
    return {
        "preset": "base",
        "tokenizer": {"vocabulary_size": 37_000},
        "batching": {"batch_tokens": 12_500},
        "training": {"accumulate": 2},
    }


def choose_by_budget(pairs: int, updates_per_epoch: int, training: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that suit the budget; without one, a number of updates is chosen.

    By the clock, the number of updates is unknown: the learning rate follows the time and falls to zero,
    which is worth several BLEU to a short run. Where few minutes meet a small corpus, Muon's updates are worth
    more than the greater number of Adam's. Otherwise it is the paper's schedule, its warm-up cut to a
    tenth of a run that is short for it. Who sees a small corpus many times needs more dropout.
    """
    if "minutes" in training:
        # As measured: benchmarks/RESULTS.md.
        if isinstance(training["minutes"], int | float) and training["minutes"] < 20 and pairs < 200_000:
            return {
                "batching": {"batch_tokens": 2048},
                "schedule": {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.002},
                "training": {"optimizer": "muon", "validations": 3},
            }
        return {
            "schedule": {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.001},
            "training": {"validations": 5},
        }
    steps = training.get("steps")
    if steps is None:
        # About as many epochs as pay: 60 of a small corpus, 3 of a huge one.
        epochs = min(60.0, max(3.0, 1_500_000 / max(pairs, 1)))
        steps = max(1000, min(100_000, round(epochs * updates_per_epoch)))
    return {
        "model": {"dropout": 0.3} if pairs < 50_000 else {},
        "schedule": {"kind": "paper", "warmup": max(1, min(4000, int(steps) // 10))},
        "training": {"steps": steps},
    }


def _has_setting(architecture: object, name: str) -> bool:
    """Whether the model has such a setting; not if the architecture is unknown, which is reported elsewhere."""
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        return False
    return name in {each.name for each in fields(ARCHITECTURES[architecture])}


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Lay mappings over each other, tables key by key; the last one wins."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            if isinstance(value, Mapping) and isinstance(below, Mapping):
                merged[key] = merge(below, value)
            else:
                merged[key] = value
    return merged


def model_config(config: RunConfig, overrides: object, source_vocabulary: int, target_vocabulary: int) -> ModelConfig:
    """The preset for vocabularies of these sizes, with the [model] table of the run file over it.

    Raises:
        UserError: for an unknown architecture or preset, an unknown key, or values that contradict each other.
    """
    if not isinstance(overrides, Mapping):
        raise UserError(f"model must be a table of settings, not {overrides!r}")
    start = preset(
        config.preset,
        source_vocabulary,
        target_vocabulary,
        joint=config.tokenizer.joint,
        architecture=config.architecture,
    )
    return read_model_config(config.architecture, {**to_mapping(start), **overrides}, "the settings")
