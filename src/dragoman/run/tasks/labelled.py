"""The tasks classify and tag: a model gives a label to each text, or a tag to each word."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console
from torch import nn

from dragoman.data.labelled import LabelledCorpus, LabelledStream, Row, label_rows, read_tagged, tag_rows
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.data.splitting import is_validation
from dragoman.device import Precision
from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.files import write_atomically
from dragoman.models.config.labelled import LabelledConfig
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.description import ModelDescription, load_description
from dragoman.models.labelled_model import LabelledModel
from dragoman.models.registry import architecture_of
from dragoman.models.storage import load_encoder, set_weights, weights_of
from dragoman.models.vocabularies import load_vocabulary
from dragoman.run.labelled_config import LabelledDataConfig, LabelledRunConfig, read_labelled_settings
from dragoman.run.labelled_validator import METRICS, LabelledValidator
from dragoman.run.model_card import labelled_model_card
from dragoman.run.plan import Plan, write_plan
from dragoman.run.preparation import VALIDATION_TEXT, read_clean_text
from dragoman.run.tasks.task import OpenedRun, Task
from dragoman.run.text_preparation import TEXT, TRAINING
from dragoman.text.lines import clean_line
from dragoman.text.vocabulary import Vocabulary, train_vocabulary
from dragoman.training.labelled_objective import LabelledObjective
from dragoman.training.validation import Validation


class Labelled(Task):
    """What both tasks share.

    Attributes:
        name: name of the task.
        tags: True if each word has a label.
    """

    name: ClassVar[str]
    tags: ClassVar[bool]

    @abstractmethod
    def read(self, corpus: str) -> Iterator[Pair]:
        """Yield the examples of a corpus; a text without tokens is left out."""

    @abstractmethod
    def rows(
        self, pairs: Sequence[Pair], vocabulary: Vocabulary, labels: Sequence[str], context: int
    ) -> list[list[Row]]:
        """Return the rows of each example, see `data.labelled`."""

    def check_settings(self, settings: Mapping[str, Any]) -> LabelledRunConfig:
        """See `Task.check_settings`."""
        user = read_labelled_settings(self.name, settings)
        checked = user.resolve(tokens=0)
        encoder, _ = _pretrained(checked)
        user.model_config(encoder, vocabulary=1000, labels=["?"])
        return checked

    def prepare(self, request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
        """See `Task.prepare`."""
        user = read_labelled_settings(self.name, request["settings"])
        checked = self.check_settings(request["settings"])
        encoder, vocabulary = _pretrained(checked)
        with console.status("reading"):
            training, validation = self._split(request["corpora"], request["validation"], checked.data)
        labels = sorted({label for pair in training for label in self._labels(pair)})
        if vocabulary is None:
            with console.status("learning the vocabulary"):
                vocabulary = train_vocabulary((pair.source + "\n" for pair in training), checked.tokenizer)
        vocabulary.save(out)
        model = user.model_config(encoder, vocabulary.size, labels)
        rows = [row for example in self.rows(training, vocabulary, labels, model.context) for row in example]
        corpus = LabelledCorpus.of(rows)
        corpus.save(run / TRAINING)
        (run / TEXT).mkdir(exist_ok=True)
        lines = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in validation)
        write_atomically(run / TEXT / VALIDATION_TEXT, lines.encode())
        plan = Plan(
            request=request,
            config=user.resolve(len(corpus.tokens), encoder),
            model=model,
            training_size=len(training),
            validation_size=len(validation),
            trained_length=model.context,
        )
        return write_plan(run, plan)

    def open(self, plan: Plan, out: Path, precision: Precision) -> OpenedRun:
        """See `Task.open`."""
        config, model, run = plan.config, plan.model, out / "run"
        assert isinstance(config, LabelledRunConfig)
        assert isinstance(model, LabelledConfig)
        vocabulary = Vocabulary.load(out)
        if vocabulary.size != model.vocabulary:
            raise ModelError(f"the vocabulary in {out} is not the one with which {run} was made: restore it")
        validation = list(read_clean_text(run / TEXT / VALIDATION_TEXT))
        objective = LabelledObjective(
            config.training.label_smoothing,
            LabelledStream(LabelledCorpus.open(run / TRAINING), config.batch_tokens, config.training.seed),
            LabelledValidator(validation, model, vocabulary, config.batch_tokens, precision),
            METRICS[self.tags],
        )
        description = ModelDescription(
            architecture=architecture_of(model),
            model=model,
            trained_length=plan.trained_length,
            vocabulary_hash=vocabulary.vocabulary_hash,
        )

        def card(parameters: int, step: int, validation: Validation) -> str:
            return labelled_model_card(
                description,
                corpora=plan.request["corpora"],
                training_texts=plan.training_size,
                parameters=parameters,
                step=step,
                validation=validation,
            )

        return OpenedRun(
            objective=objective,
            description=description,
            validated={"texts": plan.validation_size},
            model_card=card,
        )

    def initialise(self, plan: Plan, model: nn.Module) -> None:
        """See `Task.initialise`: copies the weights of the encoder of `from_model`."""
        config = plan.config
        assert isinstance(config, LabelledRunConfig)
        assert isinstance(model, LabelledModel)
        if config.from_model is not None:
            pretrained = weights_of(load_encoder(Path(config.from_model)))
            # The heads with which the encoder was trained are left out.
            names = weights_of(model.encoder).keys()
            set_weights(
                model.encoder, {name: weight for name, weight in pretrained.items() if name in names}, config.from_model
            )
        if config.frozen:
            model.freeze_encoder()

    def start_lines(self, plan: Plan) -> tuple[str, str]:
        """See `Task.start_lines`."""
        assert isinstance(plan.model, LabelledConfig)
        return (
            f"{plan.training_size:,} texts to train on, {plan.validation_size:,} to validate on",
            f"{plan.model.vocabulary:,} tokens in the vocabulary",
        )

    def _labels(self, pair: Pair) -> list[str]:
        return pair.target.split() if self.tags else [pair.target]

    def _split(
        self, corpora: Sequence[str], validation: str | None, data: LabelledDataConfig
    ) -> tuple[list[Pair], list[Pair]]:
        """Return the examples to train on and to validate on."""
        pairs = [pair for corpus in corpora for pair in self.read(corpus)]
        if validation is not None:
            training, held_out = pairs, list(self.read(validation))
        else:
            training = [pair for pair in pairs if not is_validation(pair.source, data.validation_share)]
            held_out = [pair for pair in pairs if is_validation(pair.source, data.validation_share)]
        for part, name in ((training, "train"), (held_out, "validate")):
            if not part:
                raise CorpusError(
                    f"no texts are left to {name} on: give more texts, or a corpus to validate on (--validation FILE)"
                )
        return training, held_out


class Classify(Labelled):
    """One label for each text."""

    name = "classify"
    tags = False

    def files(self, corpora: Sequence[str]) -> list[str]:
        """See `Task.files`."""
        return [path for corpus in corpora for path in parse_corpus(corpus).paths]

    def read(self, corpus: str) -> Iterator[Pair]:
        """See `Labelled.read`."""
        return read_labels(corpus)

    def rows(
        self, pairs: Sequence[Pair], vocabulary: Vocabulary, labels: Sequence[str], context: int
    ) -> list[list[Row]]:
        """See `Labelled.rows`."""
        return label_rows(pairs, vocabulary, labels, context)

    def next_commands(self, model: str) -> list[str]:
        """See `Task.next_commands`."""
        return [f"dragoman evaluate {model} TEST.tsv --confusion confusion.png"]


class Tag(Labelled):
    """A tag for each word."""

    name = "tag"
    tags = True

    def files(self, corpora: Sequence[str]) -> list[str]:
        """See `Task.files`."""
        return list(corpora)

    def read(self, corpus: str) -> Iterator[Pair]:
        """See `Labelled.read`."""
        return read_tagged(Path(corpus))

    def rows(
        self, pairs: Sequence[Pair], vocabulary: Vocabulary, labels: Sequence[str], context: int
    ) -> list[list[Row]]:
        """See `Labelled.rows`."""
        return tag_rows(pairs, vocabulary, labels, context)

    def next_commands(self, model: str) -> list[str]:
        """See `Task.next_commands`."""
        return [f"dragoman evaluate {model} TEST.conll --confusion confusion.png"]


def read_labels(corpus: str) -> Iterator[Pair]:
    """Yield the texts of a corpus with their labels; empty ones are left out.

    Raises:
        CorpusError: for a line that is not a text, a tab and a label; the message names file and line.
    """
    for pair in read_pairs(parse_corpus(corpus)):
        text, label = clean_line(pair.source), clean_line(pair.target)
        if text and label:
            yield Pair(text, label)


def _pretrained(config: LabelledRunConfig) -> tuple[MaskedConfig | None, Vocabulary | None]:
    """Return settings and vocabulary of the encoder of `from_model`; None without one."""
    if config.from_model is None:
        return None, None
    directory = Path(config.from_model)
    description = load_description(directory)
    if not isinstance(description.model, MaskedConfig):
        raise SettingsError(f"{directory} is not an encoder of texts: train one with --task masked")
    return description.model, load_vocabulary(directory, description)
