"""The task translation: a sequence-to-sequence model is trained on pairs of source and target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text
from torch import nn

from dragoman.data.prepared import PreparedCorpus
from dragoman.data.readers import parse_corpus
from dragoman.device import Precision, return_freed_memory
from dragoman.errors import ModelError
from dragoman.models.config import Seq2SeqConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import architecture_of
from dragoman.models.storage import load_model, set_weights, weights_of
from dragoman.models.vocabularies import load_tokenizer
from dragoman.run.config import CorpusSize, RunConfig, model_config, read_settings, resolve, resolve_without_corpus
from dragoman.run.model_card import model_card
from dragoman.run.plan import Plan, write_plan
from dragoman.run.preparation import (
    VALIDATION_TEXT,
    build_corpus,
    build_tokenizer,
    validation_sample,
    write_clean_text,
)
from dragoman.run.tasks.task import OpenedRun, Task
from dragoman.run.validator import METRIC_FUNCTIONS, Validator
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.stream import BatchStream
from dragoman.training.translation_objective import TranslationObjective
from dragoman.training.validation import Validation


class Translation(Task):
    """Translation from a source into a target."""

    def files(self, corpora: Sequence[str]) -> list[str]:
        """See `Task.files`."""
        return [path for corpus in corpora for path in parse_corpus(corpus).paths]

    def check_settings(self, settings: Mapping[str, Any]) -> RunConfig:
        """See `Task.check_settings`."""
        return resolve_without_corpus(read_settings(settings))

    def prepare(self, request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
        """See `Task.prepare`."""
        user = read_settings(request["settings"])
        checked = self.check_settings(request["settings"])
        text = write_clean_text(
            request["corpora"], request["validation"], checked.cleaning, checked.data, run / "text", console
        )
        console.print(Text(text.report.table()))
        size = CorpusSize(pairs=text.training_pairs, characters=text.characters)
        config = resolve(user, size).run
        if config.from_model is not None and user.initial is not None:
            tokenizer = load_tokenizer(Path(config.from_model), user.initial, right_to_left=user.initial.right_to_left)
        else:
            with console.status("learning the subwords"):
                tokenizer = build_tokenizer(text, config)
            return_freed_memory()  # learning takes hundreds of megabytes
        tokenizer.save(out)
        corpus = build_corpus(text, tokenizer, config, run / "prepared", console)
        return_freed_memory()
        resolved = resolve(user, replace(size, target_tokens=corpus.meta.target_tokens))
        plan = Plan(
            request=request,
            config=resolved.run,
            model=model_config(resolved, tokenizer.source_size, tokenizer.target_size),
            training_size=len(corpus),
            validation_size=text.validation_pairs,
            trained_length=int(
                max(corpus.source_lengths.max(), 1 if user.initial is None else user.initial.trained_length)
            ),
        )
        return write_plan(run, plan)

    def open(self, plan: Plan, out: Path, precision: Precision) -> OpenedRun:
        """See `Task.open`."""
        config, run = translation_config(plan), out / "run"
        tokenizer = Tokenizer.load(out, right_to_left=config.tokenizer.right_to_left)
        corpus = PreparedCorpus.open(run / "prepared")
        if tokenizer.vocabulary_hash != corpus.meta.vocabulary_hash:
            raise ModelError(
                f"the tokenizer in {out} is not the one with which {run / 'prepared'} was made: restore it"
            )
        validated = min(plan.validation_size, config.data.validation_pairs)
        validator = Validator(
            validation_sample(run / "text" / VALIDATION_TEXT, plan.validation_size, config.data.validation_pairs),
            tokenizer,
            max_length=config.data.max_length,
            batch_tokens=config.batching.batch_tokens,
            precision=precision,
            target_language=config.target_language,
        )
        objective = TranslationObjective(
            config.training.label_smoothing,
            BatchStream(corpus, tokenizer, config.batching, config.training.seed, config.training.subword_sampling),
            validator,
            metrics=tuple(METRIC_FUNCTIONS),
            validation_tokens=validated * corpus.meta.target_tokens // len(corpus),
            source_loss=config.training.source_loss,
        )
        description = ModelDescription(
            architecture=architecture_of(plan.model),
            model=plan.model,
            trained_length=plan.trained_length,
            source_language=config.source_language,
            target_language=config.target_language,
            vocabulary_hash=tokenizer.vocabulary_hash,
            right_to_left=tokenizer.right_to_left,
        )

        def card(parameters: int, step: int, validation: Validation) -> str:
            return model_card(
                description,
                corpora=plan.request["corpora"],
                training_pairs=plan.training_size,
                parameters=parameters,
                step=step,
                validation=validation,
            )

        return OpenedRun(objective=objective, description=description, validated={"pairs": validated}, model_card=card)

    def initialise(self, plan: Plan, model: nn.Module) -> None:
        """See `Task.initialise`: copies the weights of `from_model`."""
        directory = translation_config(plan).from_model
        if directory is not None:
            set_weights(model, weights_of(load_model(Path(directory))), directory)

    def start_lines(self, plan: Plan) -> tuple[str, str]:
        """See `Task.start_lines`."""
        assert isinstance(plan.model, Seq2SeqConfig)
        return (
            f"{plan.training_size:,} pairs to train on, {plan.validation_size:,} to validate on",
            f"{plan.model.target_vocabulary:,} subwords",
        )

    def next_commands(self, model: str) -> list[str]:
        """See `Task.next_commands`."""
        return [f"dragoman translate {model} FILE", f"dragoman evaluate {model} TEST.tsv --examples 10"]


def translation_config(plan: Plan) -> RunConfig:
    """Return the settings of a translation run."""
    assert isinstance(plan.config, RunConfig), "not a translation run"
    return plan.config
