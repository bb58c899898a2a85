"""config.json of a model directory: the settings of the model, and the files that belong to it.

This module does not import torch, which takes seconds. config.json lists the digests of the files that are loaded
beside the weights. The digest of the weights is in the header of the weights file, because training replaces that file
and two files cannot be replaced in one step.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.errors import ModelError, quoted
from dragoman.files import read_json_object, read_regular, write_atomically
from dragoman.models.config import ImageClassifierConfig, ModelConfig, Seq2SeqConfig, TextModelConfig
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.registry import architecture_of, kind_of, read_model_config
from dragoman.settings import from_mapping, to_mapping
from dragoman.text.tokenizer import LARGEST_TOKENIZER, TOKENIZER_FILES

CONFIG_FILE = "config.json"
SHORTLIST_FILE = "shortlist.safetensors"
ALIGNMENT_FILE = "alignment.json"
CONFIDENCE_FILE = "confidence.json"
# The files whose digests are listed, and the largest allowed size of each in bytes.
LISTED_FILES = {
    **dict.fromkeys(TOKENIZER_FILES, LARGEST_TOKENIZER),
    SHORTLIST_FILE: 1 << 30,
    ALIGNMENT_FILE: 1 << 10,
    CONFIDENCE_FILE: 1 << 10,
}
# Format of config.json; format 1 has no list of files.
FORMAT = 2
FORMATS = (1, FORMAT)
# Largest allowed `trained_length`, in subwords: the memory of attention grows with its square.
LONGEST_TRAINED = 1 << 17

_READS_IMAGES = "is a classifier of images: use dragoman images classify or evaluate"
_MAKES_PICTURES = "makes pictures: use dragoman images sample, attention or evaluate"


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """Contents of config.json; the languages and the direction are those of a translation model.

    Attributes:
        architecture: a name in `registry.ARCHITECTURES`.
        model: settings of the model.
        trained_length: length in subwords of the longest training sentence; longer input is split when translating. Of
            a language model or an encoder: number of tokens of a window of text in training. Of a classifier of images:
            1, because it reads no text.
        source_language: code such as "en"; None if unknown.
        target_language: code such as "de"; None if unknown.
        vocabulary_hash: hash of the tokenizer that the model was trained with, to detect a different tokenizer.
        right_to_left: True if the model writes the target from its last token to its first.
        digests: SHA-256 of each of the `LISTED_FILES` that exists.
        format: format of config.json.
    """

    architecture: str
    model: ModelConfig
    trained_length: int
    source_language: str | None = None
    target_language: str | None = None
    vocabulary_hash: str | None = None
    right_to_left: bool = False
    digests: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def __post_init__(self) -> None:
        assert self.architecture == architecture_of(self.model)
        if not 1 <= self.trained_length <= LONGEST_TRAINED:
            raise ModelError(
                f"trained_length must be at least 1 and at most {LONGEST_TRAINED:,}, not {quoted(self.trained_length)}"
            )

    @property
    def listed(self) -> Mapping[str, str] | None:
        """The digests; None if the format has no list of files."""
        return None if self.format == 1 else self.digests


def seq2seq_config(description: ModelDescription, where: Path) -> Seq2SeqConfig:
    """Return the settings of a sequence-to-sequence model.

    Args:
        description: description of the model.
        where: the model directory, for the message.

    Raises:
        ModelError: the model is of another kind.
    """
    if isinstance(description.model, Seq2SeqConfig):
        return description.model
    advice = {
        "language": "is a language model: use dragoman generate, evaluate, attention or embed",
        "encoder": "is an encoder of text: use dragoman embed",
        "classifier": "is a classifier: use dragoman evaluate or embed",
        "tagger": "is a tagger: use dragoman evaluate or embed",
        "gan": _MAKES_PICTURES,
        "image-classifier": _READS_IMAGES,
    }
    raise ModelError(f"{where} {advice[kind_of(description.model)]}")


def text_model_config(description: ModelDescription, where: Path) -> TextModelConfig:
    """Return the settings of a model of texts: a language model or an encoder.

    Args:
        description: description of the model.
        where: the model directory, for the message.

    Raises:
        ModelError: the model translates, or is one of pictures.
    """
    if isinstance(description.model, TextModelConfig):
        return description.model
    advice = {"image-classifier": _READS_IMAGES, "gan": _MAKES_PICTURES}
    kind = kind_of(description.model)
    raise ModelError(f"{where} {advice.get(kind, 'is a translation model: use dragoman translate')}")


def sagan_config(description: ModelDescription, where: Path) -> SaganConfig:
    """Return the settings of a model that makes pictures.

    Args:
        description: description of the model.
        where: the model directory, for the message.

    Raises:
        ModelError: the model is of another kind.
    """
    if isinstance(description.model, SaganConfig):
        return description.model
    raise ModelError(f"{where} makes no pictures: its architecture is {description.architecture}")


def image_classifier_config(description: ModelDescription, where: Path) -> ImageClassifierConfig:
    """Return the settings of a classifier of images.

    Args:
        description: description of the model.
        where: the model directory, for the message.

    Raises:
        ModelError: the model is of another kind.
    """
    if isinstance(description.model, ImageClassifierConfig):
        return description.model
    raise ModelError(f"{where} is not a classifier of images: its architecture is {description.architecture}")


def load_description(directory: Path) -> ModelDescription:
    """Read config.json of a model directory.

    Raises:
        ModelError: the file is missing or not JSON, or has unknown or invalid values.

    Example:
        >>> from pathlib import Path
        >>> load_description(Path("models/mine")).architecture
        'transformer'
    """
    path = directory / CONFIG_FILE
    missing = f"{directory} is not a model directory: it has no {CONFIG_FILE} (`dragoman train` writes one)"
    mapping = read_json_object(path, missing=missing, error=ModelError, advice="copy the directory again")
    number = mapping.get("format", FORMAT)
    if type(number) is int and number not in FORMATS:
        raise ModelError(
            f"{path}: format {quoted(number)} is not supported (supported: {', '.join(map(str, FORMATS))}): "
            + ("update dragoman" if number > FORMAT else "train the model again, or use the version that wrote it")
        )
    for name in ("architecture", "model"):
        if name not in mapping:
            raise ModelError(f"{name} is missing in {path}: copy the directory again")
    model = read_model_config(mapping["architecture"], mapping["model"], str(path), error=ModelError)
    return from_mapping(ModelDescription, {**mapping, "model": model}, str(path), error=ModelError)


def save_description(directory: Path, description: ModelDescription) -> None:
    """Write config.json, with the digests of the `LISTED_FILES` that are in the directory."""
    digests = {name: _sha256(directory / name) for name in LISTED_FILES if (directory / name).exists()}
    _write(directory, replace(description, digests=digests, format=FORMAT))


def add_file(directory: Path, name: str, data: bytes) -> None:
    """Write one of the `LISTED_FILES` into a model directory, and its digest into config.json.

    If the process ends between the two writes, the model can still be used without this file; loading the file fails
    with a message that explains how to write it again.

    Args:
        directory: the model directory.
        name: name of the file, one of `LISTED_FILES`.
        data: contents of the file.

    Raises:
        ModelError: `directory` is not a model directory.
    """
    assert name in LISTED_FILES
    description = load_description(directory)
    write_atomically(directory / name, data)
    if description.listed is not None:
        digests = {**description.digests, name: hashlib.sha256(data).hexdigest()}
        _write(directory, replace(description, digests=digests))


def _write(directory: Path, description: ModelDescription) -> None:
    text = json.dumps(to_mapping(description), indent=2) + "\n"
    write_atomically(directory / CONFIG_FILE, text.encode())


def _sha256(path: Path) -> str:
    return hashlib.sha256(read_regular(path, LISTED_FILES[path.name])).hexdigest()
