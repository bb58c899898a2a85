"""Events for TensorBoard, which is an optional dependency."""

from pathlib import Path

from dragoman.errors import SettingsError
from dragoman.training.validation import Validation


class TensorBoard:
    """Observer that writes events for TensorBoard.

    Args:
        directory: directory for the event files.

    Raises:
        SettingsError: if tensorboard is not installed.
    """

    def __init__(self, directory: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SettingsError(
                "training.tensorboard is on, but tensorboard is not installed: pip install 'dragoman[tensorboard]'"
            ) from None
        self._writer = SummaryWriter(str(directory))

    def on_step(self, step: int, progress: float, values: dict[str, float], seconds_left: float | None) -> None:
        """Write the values as scalars."""
        for name, value in values.items():
            self._writer.add_scalar(f"training/{name}", value, step)

    def on_validation(self, step: int, seconds: float, validation: Validation, best: bool) -> None:
        """Write the metrics of a validation as scalars, and its samples as text."""
        for name, value in validation.values().items():
            self._writer.add_scalar(f"validation/{name}", value, step)
        for number, sample in enumerate(validation.samples):
            text = f"{sample.source}\n\n→ {sample.output}\n\n({sample.reference})"
            self._writer.add_text(f"sample/{number}", text, step)
        self._writer.flush()

    def on_warning(self, step: int, message: str) -> None:
        """Write a warning as text."""
        self._writer.add_text("warning", message, step)
