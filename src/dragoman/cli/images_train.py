"""dragoman images train"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.choices import one_of, picture_architectures, picture_presets
from dragoman.cli.examples import Example
from dragoman.cli.fetching import CORPORA, described, with_status
from dragoman.cli.options import Flag, OptionalCount, OutDirectory, RunFileOptions
from dragoman.errors import SettingsError
from dragoman.printing import print_message, printable

# Names of the tasks on the command line, and in run files.
_TASKS = {"generate": "images", "classify": "classify-images"}


@dataclass(frozen=True, kw_only=True)
class TrainImages:
    """Train a model that makes pictures like those of a folder, or one that gives labels to pictures."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Learn to make handwritten digits, in twenty minutes",
            "dragoman images train mnist-5k --grey --out models/digits --minutes 20",
        ),
        Example(
            "Learn to tell apart the subfolders of a folder",
            "dragoman images train pictures --task classify --out models/classes --minutes 5",
        ),
    )

    folder: Annotated[Positional[str], arg(metavar="FOLDER")]
    """Folder of pictures (PNG, JPEG, GIF, WebP, BMP, TIFF). If it has subfolders, their names are labels. The name of a
    corpus of pictures (`dragoman corpus list`) that is not a folder is fetched into corpora/NAME."""
    out: OutDirectory
    """Model directory to write. Repeat the command to resume an interrupted run."""
    task: Annotated[str, one_of(_TASKS)] = "generate"
    """generate: a self-attention GAN, which makes pictures; classify: a model that gives labels to pictures."""
    model: Annotated[str | None, one_of(picture_architectures()), arg(help_behavior_hint="")] = None
    """Architecture; sagan to generate, and by default vision (a vision Transformer) to classify."""
    validation: Annotated[str | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """Folder of pictures to validate on; by default valid/ of a fetched corpus, or a share of the pictures."""
    size: OptionalCount = None
    """Height and width of the pictures, 32 by default; 16, 32, 64 or 128 to generate."""
    grey: Flag = False
    """Convert the pictures to grey."""
    minutes: Annotated[float | None, arg(metavar="MINUTES", help_behavior_hint="")] = None
    """Training time. By default training ends by number of updates."""
    preset: Annotated[str | None, one_of(picture_presets()), arg(help_behavior_hint="")] = None
    """Size of the model; mini by default."""
    run_file: RunFileOptions = RunFileOptions()

    def settings(self) -> dict[str, Any]:
        """Return the settings of the run file, overridden by the options, overridden by --set."""
        from dragoman.cli.run_file import read_run_file, with_minutes
        from dragoman.settings import apply_overrides, merge

        options = {"task": _TASKS[self.task], "architecture": self.model, "preset": self.preset}
        settings = read_run_file(self.run_file.config, options)
        data = {"size": self.size, "channels": 1 if self.grey else None}
        given = {key: value for key, value in data.items() if value is not None}
        # A value that is not a table is reported when the settings are read.
        if given and isinstance(settings.get("data", {}), dict):
            settings = merge(settings, {"data": given})
        return apply_overrides(with_minutes(settings, self.minutes), self.run_file.set_)

    def run(self) -> None:
        """Train, then print the result and the next commands."""
        from dragoman.cli.training import train_and_report

        settings = self.settings()
        folder, validation = self._folders(settings)
        train_and_report([folder], self.out, validation, settings)

    def _folders(self, settings: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the folders to train and to validate on; fetch them if the name is that of a corpus.

        Raises:
            SettingsError: if there is neither a folder nor a corpus of this name, or a setting is invalid.
            CorpusError: if the corpus cannot be fetched.
        """
        if Path(self.folder).is_dir():
            return self.folder, self.validation
        from dragoman.corpora import fetch_pictures, list_corpora
        from dragoman.run.tasks.table import task_named

        names = [source.name for source in list_corpora() if source.kind == "pictures"]
        if self.folder not in names:
            raise SettingsError(
                f"{printable(self.folder)}: there is no such folder, and no corpus of pictures of this name: give a "
                f"folder of pictures, or one of {', '.join(names)}"
            )
        # Before the download.
        task_named(settings["task"]).check_settings(settings)
        files = with_status(lambda report: fetch_pictures(self.folder, CORPORA, on_progress=report))
        print_message(described(files))
        return str(files.train), self.validation or str(files.valid)
