"""Studies of language models."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rich.console import Console

from dragoman.comparison.studies import Variant
from dragoman.comparison.study_task import SHARED_SETTINGS, StudyTask
from dragoman.comparison.trial import Measurement, Trial
from dragoman.data.texts import Part, find_texts, read_texts
from dragoman.errors import SettingsError
from dragoman.generation.generator import Generator
from dragoman.models.config import ModelConfig, TextModelConfig
from dragoman.models.config.transformer_xl import TransformerXLConfig
from dragoman.models.registry import text_preset
from dragoman.run.plan import Plan
from dragoman.run.tasks.running_text import text_config
from dragoman.run.text_config import read_text_settings, resolve_text
from dragoman.run.text_preparation import TextSource
from dragoman.training.validation import Validation


class LanguageStudy(StudyTask):
    """Studies whose models predict the test text, as `dragoman evaluate` does.

    All variants are trained on windows of the same length. A Transformer-XL reads each window in two segments, with a
    memory of one segment, so that a token is predicted from about as many tokens as in the other models.
    """

    # As in translation: there are enough validations for a learning curve, but on few tokens.
    defaults: ClassVar[Mapping[str, Any]] = {
        "schedule": {"kind": "linear", "warmup": 0.1, "peak_learning_rate": 0.002},
        "training": {"optimizer": "adam", "validations": 6},
        "data": {"validation_tokens": 20_000},
    }
    shared = (*SHARED_SETTINGS, "context")
    tokens = "tokens"
    speed = "evaluation tokens/s"
    held_out = "validation text"
    metrics = ("loss", "bits_per_character", "perplexity")
    curves: ClassVar[Mapping[str, str]] = {"loss": "validation loss (nats per token)"}
    condition = (
        "Loss and perplexity are those of a token. Models with recurrence carry their state through each document; it "
        "is evaluated in one batch row, unlike windows. All variants are evaluated with the torch engine, since the "
        "native engine supports only some."
    )

    def check(self, variants: Sequence[Variant], settings: Mapping[str, Any]) -> None:
        """See `StudyTask.check`."""
        resolved = resolve_text("language", read_text_settings("language", settings), characters=0, tokens=0)
        context = resolved.model_config(vocabulary=1000).context
        for variant in variants:
            _with_context(text_preset(resolved.run.preset, 1000, architecture=variant.architecture), context)

    def preset(self, architecture: str, reference: Plan) -> ModelConfig:
        """See `StudyTask.preset`."""
        assert isinstance(reference.model, TextModelConfig)
        own = text_preset(reference.config.preset, reference.model.vocabulary, architecture=architecture)
        return _with_context(own, reference.model.context)

    def test(self, trial: Trial, plan: Plan) -> Measurement:
        """See `StudyTask.test`."""
        config = text_config(plan)
        generator = Generator.load(trial.directory, engine="torch", device=config.training.device)
        if trial.test is not None:
            text = read_texts(find_texts([trial.test]), config.data.documents)
        else:
            source = TextSource(trial.directory / "run", config.data, trial.validation is not None, Console())
            text = _beginning(source.held_out(), config.data.validation_tokens)
        evaluation = generator.evaluate(text)
        measured = Validation(
            loss=evaluation.nats_per_token, metrics={"bits_per_character": evaluation.bits_per_character}
        ).values()
        return Measurement(
            metrics={name: measured[name] for name in self.metrics},
            tokens_per_second=evaluation.tokens_per_second,
            method="with the state of the model"
            if evaluation.context is None
            else f"in windows of {evaluation.context:,} tokens with stride {evaluation.stride:,}",
        )


def _with_context(config: TextModelConfig, context: int) -> TextModelConfig:
    """Return the settings for windows of `context` tokens in training.

    Raises:
        SettingsError: if a Transformer-XL cannot read such a window in two segments.
    """
    if not isinstance(config, TransformerXLConfig):
        return config
    if context % 2:
        raise SettingsError(f"model.context is {context}: in this study it must be even, for two segments of a window")
    return replace(config, context=context, segment=context // 2, memory=context // 2)


def _beginning(parts: Iterator[Part], characters: int) -> Iterator[Part]:
    """Yield parts of documents until there are this many characters."""
    for part in parts:
        if len(part.text) >= characters:
            yield Part(part.text[:characters], ends=True)
            return
        characters -= len(part.text)
        yield part
