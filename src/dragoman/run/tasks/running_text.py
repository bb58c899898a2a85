"""What the tasks on running text share: a model of texts is trained on windows of a text."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from dragoman.data.texts import find_texts
from dragoman.data.token_stream import TokenStream
from dragoman.device import Precision, return_freed_memory
from dragoman.errors import ModelError
from dragoman.models.config import TextModelConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import architecture_of
from dragoman.run.model_card import text_model_card
from dragoman.run.plan import Plan, write_plan
from dragoman.run.tasks.task import OpenedRun, Task
from dragoman.run.text_config import TextRunConfig, read_text_settings, resolve_text
from dragoman.run.text_preparation import TRAINING, VALIDATION, TextSource
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.objective import Objective
from dragoman.training.validation import Validation


@dataclass(frozen=True, kw_only=True)
class PreparedText:
    """A prepared run on running text.

    Attributes:
        config: all settings of the run.
        model: all settings of the model.
        vocabulary: the vocabulary.
        training: the training text.
        validation: the validation text.
    """

    config: TextRunConfig
    model: TextModelConfig
    vocabulary: Vocabulary
    training: TokenStream
    validation: TokenStream


class RunningText(Task):
    """A task on running text.

    Attributes:
        name: name of the task.
    """

    name: ClassVar[str]

    @abstractmethod
    def objective(self, text: PreparedText, precision: Precision) -> Objective[Any, Any]:
        """Return the objective of a prepared run."""

    def check(self, config: TextRunConfig, model: TextModelConfig) -> None:
        """Check that the settings of the run and of the model agree; by default, they do.

        Raises:
            SettingsError: if they do not.
        """

    def files(self, corpora: Sequence[str]) -> list[str]:
        """See `Task.files`."""
        return [file.path for file in find_texts(corpora)]

    def check_settings(self, settings: Mapping[str, Any]) -> TextRunConfig:
        """See `Task.check_settings`."""
        checked = resolve_text(self.name, read_text_settings(self.name, settings), characters=0, tokens=0)
        self.check(checked.run, checked.model_config(vocabulary=1000))
        return checked.run

    def prepare(self, request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
        """See `Task.prepare`."""
        user = read_text_settings(self.name, request["settings"])
        checked = self.check_settings(request["settings"])
        source = TextSource.read(request["corpora"], request["validation"], checked.data, run, console)
        config = resolve_text(self.name, user, source.characters, tokens=0).run
        with console.status("learning the vocabulary"):
            vocabulary = source.learn_vocabulary(config.tokenizer)
        return_freed_memory()  # learning takes hundreds of megabytes
        vocabulary.save(out)
        training, validation = source.prepare(vocabulary)
        return_freed_memory()
        resolved = resolve_text(self.name, user, source.characters, len(training))
        model = resolved.model_config(vocabulary.size)
        plan = Plan(
            request=request,
            config=resolved.run,
            model=model,
            training_size=len(training),
            validation_size=len(validation),
            trained_length=model.context,
        )
        return write_plan(run, plan)

    def open(self, plan: Plan, out: Path, precision: Precision) -> OpenedRun:
        """See `Task.open`."""
        config, model, run = text_config(plan), plan.model, out / "run"
        assert isinstance(model, TextModelConfig)
        vocabulary = Vocabulary.load(out)
        training, validation = TokenStream.open(run / TRAINING), TokenStream.open(run / VALIDATION)
        if vocabulary.vocabulary_hash != training.meta.vocabulary_hash:
            raise ModelError(f"the vocabulary in {out} is not the one with which {run / TRAINING} was made: restore it")
        text = PreparedText(config=config, model=model, vocabulary=vocabulary, training=training, validation=validation)
        description = ModelDescription(
            architecture=architecture_of(model),
            model=model,
            trained_length=plan.trained_length,
            vocabulary_hash=vocabulary.vocabulary_hash,
        )

        def card(parameters: int, step: int, validation: Validation) -> str:
            return text_model_card(
                description,
                corpora=plan.request["corpora"],
                training_tokens=plan.training_size,
                parameters=parameters,
                step=step,
                validation=validation,
            )

        return OpenedRun(
            objective=self.objective(text, precision),
            description=description,
            validated={"tokens": min(plan.validation_size, config.data.validation_tokens)},
            model_card=card,
        )

    def start_lines(self, plan: Plan) -> tuple[str, str]:
        """See `Task.start_lines`."""
        assert isinstance(plan.model, TextModelConfig)
        return (
            f"{plan.training_size:,} tokens to train on, {plan.validation_size:,} to validate on",
            f"context {plan.model.context:,}, {plan.model.vocabulary:,} tokens in the vocabulary",
        )


def text_config(plan: Plan) -> TextRunConfig:
    """Return the settings of a run on running text."""
    assert isinstance(plan.config, TextRunConfig), "not a run on running text"
    return plan.config
