"""All settings of a run on pictures, and their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from dragoman.data.picture_reading import LARGEST_SIZE
from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig
from dragoman.models.registry import gan_preset, image_preset
from dragoman.models.tasks import DEFAULT_ARCHITECTURES, KINDS
from dragoman.run.common_config import (
    SOURCE,
    CommonConfig,
    check_architecture,
    check_no_translation_settings,
    read_model_table,
)
from dragoman.settings import PartialSettings, read_partial
from dragoman.training.augmentation import AUGMENTATIONS
from dragoman.training.config import TrainingConfig
from dragoman.training.schedule import ScheduleConfig

GENERATE, CLASSIFY = "images", "classify-images"
# Number of epochs of a run without a budget, and the least number of updates.
EPOCHS: Mapping[str, int] = {GENERATE: 100, CLASSIFY: 20}
LEAST_STEPS = 1000
# Settings of the model that follow from the pictures.
FROM_PICTURES = ("size", "image_size", "channels", "labels")


@dataclass(frozen=True, kw_only=True)
class PictureDataConfig:
    """Settings of the [data] table: how pictures are read, and which are held out.

    Attributes:
        size: Height and width to which pictures are scaled, after they are cropped to a square.
        channels: 1 to convert pictures to grey, 3 for colour.
        broken: "refuse" to stop if a picture cannot be read, or "skip" to leave such pictures out; they are then named.
        animated: What to do with a file of several frames or pages: "refuse", "skip", or take its "first frame".
        use_labels: True if the names of subfolders are labels; False to ignore them.
        validation_share: Fraction of the pictures that is held out, selected by a hash of the picture; generated
            pictures are compared with them.
    """

    size: int = 32
    channels: Literal[1, 3] = 3
    broken: Literal["refuse", "skip"] = "refuse"
    animated: Literal["refuse", "skip", "first frame"] = "refuse"
    use_labels: bool = True
    validation_share: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST_SIZE:
            raise SettingsError(f"size must be from 1 to {LARGEST_SIZE}, not {self.size}")
        if not 0 < self.validation_share < 1:
            raise SettingsError(f"validation_share must be between 0 and 1, not {self.validation_share}")


@dataclass(frozen=True, kw_only=True)
class PictureBatchingConfig:
    """Settings of the [batching] table.

    Attributes:
        pictures: Number of pictures in a batch.
        flips: True to mirror half of the pictures at random, for pictures without a left and a right.
    """

    pictures: int = 64
    flips: bool = False

    def __post_init__(self) -> None:
        if self.pictures < 2:
            raise SettingsError(f"pictures must be at least 2, not {self.pictures}")


@dataclass(frozen=True, kw_only=True)
class JudgingConfig:
    """Settings of the [judging] table: how generated pictures are compared with those held out.

    Attributes:
        pictures: Number of pictures that are generated in a validation.
        judge_steps: Updates in the training of the classifier whose features are compared.
    """

    pictures: int = 500
    judge_steps: int = 400

    def __post_init__(self) -> None:
        if self.pictures < 2:
            raise SettingsError(f"pictures must be at least 2, not {self.pictures}")
        if self.judge_steps < 1:
            raise SettingsError(f"judge_steps must be at least 1, not {self.judge_steps}")


@dataclass(frozen=True, kw_only=True)
class PictureRunConfig(CommonConfig):
    """Settings of a run on pictures, except the [model] table: its defaults are those of the preset.

    Attributes:
        augmentations: Random changes of the pictures that make a small training set last longer: "color",
            "translation" and "cutout", see `training.augmentation`. Those of a GAN also change generated pictures.
        data: How pictures are read, and which are held out.
        batching: Settings of the batches.
    """

    augmentations: tuple[str, ...] = ()
    data: PictureDataConfig = field(default_factory=PictureDataConfig)
    batching: PictureBatchingConfig = field(default_factory=PictureBatchingConfig)

    def __post_init__(self) -> None:
        check_architecture(self.architecture, KINDS[self.task], self.task)
        check_no_translation_settings(self.training, self.task)
        for name in self.augmentations:
            if name not in AUGMENTATIONS:
                raise SettingsError(f"augmentations must be some of {', '.join(AUGMENTATIONS)}, not {name!r}")

    @property
    def batch_tokens(self) -> int:
        """Number of pictures in a batch."""
        return self.batching.pictures

    @property
    def unit(self) -> str:
        """See `CommonConfig.unit`."""
        return "pictures"

    @property
    def counted(self) -> str:
        """See `CommonConfig.counted`."""
        return "pictures"


@dataclass(frozen=True, kw_only=True)
class GanRunConfig(PictureRunConfig):
    """Settings of the training of a GAN: those of `PictureRunConfig`, and the comparison with real pictures.

    Attributes:
        judging: How generated pictures are compared with those held out.
    """

    judging: JudgingConfig = field(default_factory=JudgingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.optimizer != "two-time-scale":
            raise SettingsError(
                f"training.optimizer of a GAN must be 'two-time-scale', not {self.training.optimizer!r}"
            )


# Class of the settings of each task.
PICTURE_CONFIGS: Mapping[str, type[PictureRunConfig]] = {GENERATE: GanRunConfig, CLASSIFY: PictureRunConfig}


@dataclass(frozen=True, kw_only=True)
class UserPictureSettings:
    """Settings of a run file, whose keys and types have been checked.

    Attributes:
        task: the task.
        run: everything except the [model] table.
        model: the [model] table.
    """

    task: str
    run: PartialSettings[PictureRunConfig]
    model: PartialSettings[ModelConfig]

    def resolve(self, pictures: int) -> PictureRunConfig:
        """Replace the defaults by the user's settings.

        Args:
            pictures: number of pictures to train on; 0 before they are read.

        Raises:
            SettingsError: for values that are out of range or contradict each other.
        """
        return self.run.over(self._gan(pictures) if self.task == GENERATE else self._classifier(pictures))

    def _gan(self, pictures: int) -> GanRunConfig:
        return GanRunConfig(
            task=self.task,
            architecture=DEFAULT_ARCHITECTURES[self.task],
            preset="mini",
            # Few pictures are soon learned by heart by the discriminator.
            augmentations=("color", "translation") if 0 < pictures < 10_000 else (),
            schedule=ScheduleConfig(kind="constant", warmup=1, peak_learning_rate=1e-4),
            training=self._budget(
                TrainingConfig(
                    minutes=1,
                    label_smoothing=0.0,
                    optimizer="two-time-scale",
                    adam_betas=(0.0, 0.9),
                    adam_epsilon=1e-8,
                    clip_norm=0.0,
                    ema_decay=0.999,
                    best_by="frechet_distance",
                ),
                pictures,
            ),
        )

    def _classifier(self, pictures: int) -> PictureRunConfig:
        return PictureRunConfig(
            task=self.task,
            architecture=DEFAULT_ARCHITECTURES[self.task],
            preset="mini",
            augmentations=("translation",),
            schedule=ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=0.001),
            training=self._budget(TrainingConfig(minutes=1, best_by="accuracy", validations=5), pictures),
        )

    def _budget(self, training: TrainingConfig, pictures: int) -> TrainingConfig:
        """Return the settings with a number of updates, unless the user's budget is a time."""
        if self.run.has("training.minutes"):
            return training
        batch = self.run.get("batching.pictures", PictureBatchingConfig.pictures)
        updates = EPOCHS[self.task] * pictures // max(1, batch)
        steps = self.run.get("training.steps", None) or max(LEAST_STEPS, updates)
        return replace(training, minutes=None, steps=max(1, steps))

    def model_config(self, config: PictureRunConfig, labels: tuple[str, ...]) -> ModelConfig:
        """Return the settings of the model.

        Args:
            config: the run.
            labels: names of the labels; empty without labels.

        Raises:
            SettingsError: for an unknown preset, or values that contradict each other.
        """
        for key in FROM_PICTURES:
            if key in self.model.values:
                raise SettingsError(f"model.{key} follows from the pictures: use data.size, channels or use_labels")
        data = config.data
        base: ModelConfig
        if self.task == GENERATE:
            base = gan_preset(config.preset, data.size, data.channels, labels, architecture=config.architecture)
        else:
            base = image_preset(
                config.preset, labels, image_size=data.size, channels=data.channels, architecture=config.architecture
            )
        return self.model.over(base)


def read_picture_settings(task: str, settings: Mapping[str, object]) -> UserPictureSettings:
    """Check every key and every type in the settings of a run file.

    Raises:
        SettingsError: for an unknown key, an unknown architecture, or a value of another type.
    """
    run = read_partial(PICTURE_CONFIGS[task], {key: value for key, value in settings.items() if key != "model"}, SOURCE)
    architecture = run.get("architecture", DEFAULT_ARCHITECTURES[task])
    check_architecture(architecture, KINDS[task], task)
    return UserPictureSettings(task=task, run=run, model=read_model_table(architecture, settings))
