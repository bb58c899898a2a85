"""Events for TensorBoard, an optional extra."""

from pathlib import Path

from dragoman.errors import SettingsError
from dragoman.training.validation import Validation


class TensorBoard:
    """Writes every log line as scalars into `directory`.

    Raises:
        SettingsError: when tensorboard is not installed.
    """

    def __init__(self, directory: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SettingsError(
                "training.tensorboard is on, but tensorboard is not installed: pip install 'dragoman[tensorboard]'"
            ) from None
        self._writer = SummaryWriter(str(directory))

    def step(self, step: int, progress: float, figures: dict[str, float], seconds_left: float | None) -> None:
        """Write the figures of LOG_EVERY updates."""
        for name, value in figures.items():
            self._writer.add_scalar(f"training/{name}", value, step)

    def validation(self, step: int, seconds: float, validation: Validation, best: bool) -> None:
        """Write a validation, with its samples as text."""
        for name, value in validation.values().items():
            self._writer.add_scalar(f"validation/{name}", value, step)
        for number, sample in enumerate(validation.samples):
            text = f"{sample.given}\n\n→ {sample.output}\n\n({sample.expected})"
            self._writer.add_text(f"sample/{number}", text, step)
        self._writer.flush()

    def trouble(self, step: int, message: str) -> None:
        """Write what went wrong, as text."""
        self._writer.add_text("trouble", message, step)
