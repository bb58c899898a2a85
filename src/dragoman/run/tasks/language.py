"""The task language: a language model is trained on running text."""

from dragoman.device import Precision
from dragoman.run.language_validator import LanguageValidator
from dragoman.run.tasks.running_text import PreparedText, RunningText
from dragoman.training.language_objective import LanguageObjective
from dragoman.training.text_stream import TextStream


class Language(RunningText):
    """Prediction of the next token of a text."""

    name = "language"

    def objective(self, text: PreparedText, precision: Precision) -> LanguageObjective:
        """See `RunningText.objective`."""
        config, context = text.config, text.model.context
        validator = LanguageValidator(
            text.validation,
            context=context,
            batch_tokens=config.batch_tokens,
            most_tokens=config.data.validation_tokens,
            precision=precision,
        )
        return LanguageObjective(
            config.training.label_smoothing,
            TextStream(text.training, context, config.batch_tokens, config.training.seed),
            validator,
            metrics=("bits_per_character",),
        )

    def next_commands(self, model: str) -> list[str]:
        """See `Task.next_commands`."""
        return [f'dragoman generate {model} "The beginning of a text"', f"dragoman evaluate {model} TEST.txt"]
