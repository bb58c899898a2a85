"""The model card, README.md of a model directory: describes the model to anyone who receives a copy of it."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.models.config import Seq2SeqConfig, TextModelConfig
from dragoman.models.config.labelled import LabelledConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import Kind, kind_of
from dragoman.printing import printable
from dragoman.training.validation import Validation
from dragoman.version import __version__


def model_card(
    description: ModelDescription,
    *,
    corpora: Sequence[str],
    training_pairs: int,
    parameters: int,
    step: int,
    validation: Validation,
) -> str:
    """Return a Markdown description of a model: its training data, its sizes, and its metrics.

    Args:
        description: contents of the model's config.json.
        corpora: the training corpora, as in `train`. Only file names are included, not paths.
        training_pairs: number of training pairs.
        parameters: number of parameters.
        step: updates after which the weights were saved.
        validation: validation of these weights.
    """
    model = description.model
    assert isinstance(model, Seq2SeqConfig)
    languages = f"{description.source_language or 'source'} to {description.target_language or 'target'}"
    statistics = _statistics_rows(validation)
    order = "| output order | from the last token to the first |\n" if description.right_to_left else ""
    return f"""# A translation model: {languages}

Trained with Dragoman {__version__}. To translate a text file, with this directory as MODEL:

    dragoman translate MODEL text.txt

| | |
|---|---|
| trained on | {training_pairs:,} pairs from {_names(corpora)} |
| architecture | {description.architecture}, {model.shape()} |
| parameters | {parameters:,} |
| vocabulary | {model.source_vocabulary:,} source and {model.target_vocabulary:,} target subwords; \
embeddings tied: {model.tied_embeddings} |
{order}| weights from | update {step:,} |
| validation (greedy search) | {validation.sentence()} |
{statistics}| longest sentence in training | {description.trained_length} subwords; longer input is split |

The directory run/ is only needed to resume training. If it is included, run/run.json lists all settings.
"""


def text_model_card(
    description: ModelDescription,
    *,
    corpora: Sequence[str],
    training_tokens: int,
    parameters: int,
    step: int,
    validation: Validation,
) -> str:
    """Return a Markdown description of a model of texts: its training data, its sizes, and its metrics.

    Args:
        description: contents of the model's config.json.
        corpora: the training texts, as in `train`. Only file names are included, not paths.
        training_tokens: number of tokens of the training text.
        parameters: number of parameters.
        step: updates after which the weights were saved.
        validation: validation of these weights.
    """
    model = description.model
    assert isinstance(model, TextModelConfig)
    title, command = _TEXT_MODELS[kind_of(model)]
    return f"""# {title}

Trained with Dragoman {__version__}. With this directory as MODEL:

    {command}

| | |
|---|---|
| trained on | {training_tokens:,} tokens from {_names(corpora)} |
| architecture | {description.architecture}, {model.shape()} |
| parameters | {parameters:,} |
| vocabulary | {model.vocabulary:,} tokens |
| weights from | update {step:,} |
| validation (nats per token: {validation.loss:.4f}) | {validation.sentence()} |
{_statistics_rows(validation)}| context in training | {description.trained_length:,} tokens |

The directory run/ is only needed to resume training. If it is included, run/run.json lists all settings.
"""


def labelled_model_card(
    description: ModelDescription,
    *,
    corpora: Sequence[str],
    training_texts: int,
    parameters: int,
    step: int,
    validation: Validation,
) -> str:
    """Return a Markdown description of a classifier or a tagger: its training data, its sizes, and its metrics.

    Args:
        description: contents of the model's config.json.
        corpora: the training corpora, as in `train`. Only file names are included, not paths.
        training_texts: number of texts in training.
        parameters: number of parameters.
        step: updates after which the weights were saved.
        validation: validation of these weights.
    """
    model = description.model
    assert isinstance(model, LabelledConfig)
    return f"""# A {description.architecture} of texts

Trained with Dragoman {__version__}. With this directory as MODEL:

    dragoman evaluate MODEL TEST.tsv

| | |
|---|---|
| trained on | {training_texts:,} texts from {_names(corpora)} |
| architecture | {description.architecture}, {model.shape()} |
| parameters | {parameters:,} |
| vocabulary | {model.vocabulary:,} tokens |
| weights from | update {step:,} |
| validation | {validation.sentence()} |
| longest text in training | {description.trained_length:,} tokens |

The directory run/ is only needed to resume training. If it is included, run/run.json lists all settings.
"""


def picture_model_card(
    description: ModelDescription,
    *,
    corpora: Sequence[str],
    training_pictures: int,
    parameters: int,
    step: int,
    validation: Validation,
) -> str:
    """Return a Markdown description of a model of pictures: its training data, its sizes, and its metrics.

    Args:
        description: contents of the model's config.json.
        corpora: the training folders, as in `train`. Only their names are included, not paths.
        training_pictures: number of pictures in training.
        parameters: number of parameters.
        step: updates after which the weights were saved.
        validation: validation of these weights.
    """
    model = description.model
    labels: Sequence[str] = getattr(model, "labels", ())
    names = ", ".join(map(printable, labels[:20])) + (", …" if len(labels) > 20 else "")
    title, command, note = _PICTURE_MODELS[kind_of(model)]
    return f"""# {title}

Trained with Dragoman {__version__}. With this directory as MODEL:

    {command}

| | |
|---|---|
| trained on | {training_pictures:,} pictures from {_names(corpora)} |
| architecture | {description.architecture}, {model.shape()} |
| parameters | {parameters:,} |
| labels | {names or "none"} |
| weights from | update {step:,} |
| validation | {validation.sentence()} |

{note}The directory run/ is only needed to resume training. If it is included, run/run.json lists all settings.
"""


# Title of the card of a model of pictures, the command that uses the model, and a note on its metrics.
_PICTURE_MODELS: dict[Kind, tuple[str, str, str]] = {
    "gan": (
        "A maker of pictures",
        "dragoman images sample MODEL --out grid.png",
        "The distances are between features of a classifier of the same training pictures. They can be compared with\n"
        "those of other models of the same run only, not with published distances.\n\n",
    ),
    "image-classifier": ("A classifier of pictures", "dragoman images classify MODEL PICTURES", ""),
}


# Title of the card of a model of texts, and the command that uses the model.
_TEXT_MODELS: dict[Kind, tuple[str, str]] = {
    "language": ("A language model", 'dragoman generate MODEL "The beginning of a text"'),
    "encoder": ("An encoder of text", 'dragoman embed MODEL "A text"'),
}


def _names(corpora: Sequence[str]) -> str:
    """Return the names of the corpora without paths: those on the machine that trained the model are private."""
    return ", ".join(printable(Path(part).name) for name in corpora for part in name.split(","))


def _statistics_rows(validation: Validation) -> str:
    return "".join(
        f"| {name} (validation) | mean {statistic.mean:.2f}, at most {statistic.maximum:g} |\n"
        for name, statistic in validation.token_statistics.items()
    )
