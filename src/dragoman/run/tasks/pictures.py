"""What the tasks on pictures share: reading, holding out, and storing the pictures of a folder."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console
from rich.text import Text

from dragoman.data.picture_batches import PictureStream
from dragoman.data.picture_reading import PictureSet, read_pictures
from dragoman.data.picture_store import open_pictures, save_pictures, split_pictures
from dragoman.device import Precision
from dragoman.errors import CorpusError
from dragoman.models.config import ModelConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import architecture_of
from dragoman.run.model_card import picture_model_card
from dragoman.run.picture_config import PictureRunConfig, read_picture_settings
from dragoman.run.plan import Plan, write_plan
from dragoman.run.tasks.task import OpenedRun, Task
from dragoman.run.text_preparation import TRAINING, VALIDATION
from dragoman.training.objective import Objective
from dragoman.training.validation import Validation


@dataclass(frozen=True)
class PreparedPictures:
    """A prepared run.

    Attributes:
        run: the directory run/.
        config: settings of the run.
        model: settings of the model.
        training: the pictures to train on.
        validation: the pictures that are held out.
    """

    run: Path
    config: PictureRunConfig
    model: ModelConfig
    training: PictureSet
    validation: PictureSet

    def stream(self) -> PictureStream:
        """Return the training batches."""
        batching = self.config.batching
        return PictureStream(
            pictures=self.training,
            batch_size=batching.pictures,
            seed=self.config.training.seed,
            flips=batching.flips,
        )


class Pictures(Task):
    """Base class of the tasks on pictures.

    Attributes:
        name: name of the task.
    """

    name: ClassVar[str]

    @abstractmethod
    def objective(self, pictures: PreparedPictures, precision: Precision) -> Objective[Any, Any]:
        """Return the training objective of a prepared run."""

    @abstractmethod
    def check_labels(self, labels: tuple[str, ...], folder: str) -> None:
        """Check the labels of the training pictures.

        Raises:
            CorpusError: if the task cannot be learned from them.
        """

    def files(self, corpora: Sequence[str]) -> list[str]:
        """See `Task.files`."""
        return [str(path) for folder in corpora for path in sorted(Path(folder).rglob("*")) if path.is_file()]

    def check_settings(self, settings: Mapping[str, Any]) -> PictureRunConfig:
        """See `Task.check_settings`."""
        user = read_picture_settings(self.name, settings)
        checked = user.resolve(pictures=0)
        user.model_config(checked, ("?",))
        return checked

    def prepare(self, request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
        """See `Task.prepare`."""
        user = read_picture_settings(self.name, request["settings"])
        checked = self.check_settings(request["settings"])
        if len(request["corpora"]) != 1:
            raise CorpusError(f"give one folder of pictures, not {len(request['corpora'])}")
        [folder] = request["corpora"]
        with console.status("reading the pictures"):
            training = _read(folder, checked, console)
            self.check_labels(training.label_names, folder)
            if request["validation"] is None:
                training, validation = split_pictures(training, checked.data.validation_share)
            else:
                validation = _read(request["validation"], checked, console, training.label_names)
        for part, name in ((training, "train on"), (validation, "validate on")):
            if len(part) < 2:
                raise CorpusError(f"fewer than two pictures are left to {name} in {folder}: give more pictures")
        save_pictures(training, run / TRAINING)
        save_pictures(validation, run / VALIDATION)
        config = user.resolve(len(training))
        plan = Plan(
            request=request,
            config=config,
            model=user.model_config(config, training.label_names),
            training_size=len(training),
            validation_size=len(validation),
            trained_length=1,
        )
        return write_plan(run, plan)

    def open(self, plan: Plan, out: Path, precision: Precision) -> OpenedRun:
        """See `Task.open`."""
        config, run = plan.config, out / "run"
        assert isinstance(config, PictureRunConfig)
        pictures = PreparedPictures(
            run, config, plan.model, open_pictures(run / TRAINING), open_pictures(run / VALIDATION)
        )
        description = ModelDescription(
            architecture=architecture_of(plan.model), model=plan.model, trained_length=plan.trained_length
        )

        def card(parameters: int, step: int, validation: Validation) -> str:
            return picture_model_card(
                description,
                corpora=plan.request["corpora"],
                training_pictures=plan.training_size,
                parameters=parameters,
                step=step,
                validation=validation,
            )

        return OpenedRun(
            objective=self.objective(pictures, precision),
            description=description,
            validated={"pictures": plan.validation_size},
            model_card=card,
        )

    def start_lines(self, plan: Plan) -> tuple[str, str]:
        """See `Task.start_lines`."""
        return f"{plan.training_size:,} pictures to train on, {plan.validation_size:,} to validate on", ""


def _read(folder: str, config: PictureRunConfig, console: Console, labels: Sequence[str] = ()) -> PictureSet:
    """Read the pictures of a folder; `labels` are the labels of the training pictures, if these have been read."""
    data = config.data
    pictures = read_pictures(
        Path(folder),
        data.size,
        channels=data.channels,
        broken=data.broken,
        animated=data.animated,
        labels=labels or None,
    )
    if pictures.report.skipped:
        console.print(Text(pictures.report.table()))
    return pictures if data.use_labels else replace(pictures, labels=None, label_names=())
