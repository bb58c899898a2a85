"""The task masked: an encoder is trained to predict masked tokens of running text."""

from dragoman.data.masking import MaskedStream, Masking
from dragoman.device import Precision
from dragoman.errors import SettingsError
from dragoman.models.config import TextModelConfig
from dragoman.models.config.masked import MaskedConfig
from dragoman.run.masked_validator import MaskedValidator
from dragoman.run.tasks.running_text import PreparedText, RunningText
from dragoman.run.text_config import MaskedRunConfig, TextRunConfig
from dragoman.training.masked_objective import ACCURACY, NEXT_SENTENCE, MaskedObjective
from dragoman.training.text_stream import TextStream


class Masked(RunningText):
    """Prediction of masked tokens from the tokens around them."""

    name = "masked"

    def check(self, config: TextRunConfig, model: TextModelConfig) -> None:
        """See `RunningText.check`."""
        assert isinstance(config, MaskedRunConfig)
        assert isinstance(model, MaskedConfig)
        if not model.prediction_head:
            raise SettingsError("task masked needs model.prediction_head = true")
        if config.masking.next_sentence and not model.next_sentence:
            raise SettingsError(
                "masking.next_sentence needs a model with such a head: set model.next_sentence = true, "
                "model.pooler = true and model.segments = 2"
            )
        if model.context <= config.masking.symbols + 1:
            raise SettingsError(f"model.context is {model.context}; it must be at least {config.masking.symbols + 2}")

    def objective(self, text: PreparedText, precision: Precision) -> MaskedObjective:
        """See `RunningText.objective`."""
        config, context = text.config, text.model.context
        assert isinstance(config, MaskedRunConfig)
        masking = Masking.of(config.masking, text.vocabulary.texts(range(text.vocabulary.size)), config.training.seed)
        # The windows of text leave room for the symbols that are added to them.
        length = context - config.masking.symbols
        batch_tokens = length * max(1, config.batch_tokens // context)
        windows = TextStream(text.training, length, batch_tokens, config.training.seed, shifted=config.masking.dynamic)
        validator = MaskedValidator(
            text.validation,
            masking,
            length=length,
            batch_tokens=batch_tokens,
            most_tokens=config.data.validation_tokens,
            precision=precision,
        )
        metrics = (ACCURACY, NEXT_SENTENCE) if config.masking.next_sentence else (ACCURACY,)
        return MaskedObjective(MaskedStream(windows, masking), validator, metrics)

    def next_commands(self, model: str) -> list[str]:
        """See `Task.next_commands`."""
        return [
            f'dragoman embed {model} "A text" --out vectors.npy',
            f"dragoman train --task classify --from {model} TEXTS.tsv --out DIR",
        ]
