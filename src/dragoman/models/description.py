"""config.json of a model directory: which model this is, and which files belong to it.

Read without torch, whose import takes seconds. The files that verbs load beside the weights are listed with their
digests; the weights have theirs in their own header, as two files cannot be replaced at once while training goes on.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.errors import ModelError, quoted
from dragoman.files import read_json_object, read_regular, write_atomically
from dragoman.models.config import ModelConfig
from dragoman.models.registry import architecture_of, read_model_config
from dragoman.settings import from_mapping, to_mapping
from dragoman.text.tokenizer import LARGEST_TOKENIZER, TOKENIZER_FILES

CONFIG_FILE = "config.json"
SHORTLIST_FILE = "shortlist.safetensors"
ALIGNMENT_FILE = "alignment.json"
# The files whose digests are listed, and the most bytes that each may have.
LISTED_FILES = {
    **dict.fromkeys(TOKENIZER_FILES, LARGEST_TOKENIZER),
    SHORTLIST_FILE: 1 << 30,
    ALIGNMENT_FILE: 1 << 10,
}
# Format 1 lists no files.
FORMAT = 2
FORMATS = (1, FORMAT)
# Subwords of the longest sentence that a model may name: the memory of attention grows with the square.
LONGEST_TRAINED = 1 << 17


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What config.json says.

    architecture     a name in `registry.ARCHITECTURES`
    model            the model's own settings
    trained_length   subwords of the longest sentence seen in training: longer input is split
    source_language, target_language   codes such as "en", when they are known
    vocabulary_hash  of the tokenizer that the model was trained with, to see that it is still that one
    right_to_left    the model writes a target from its last token to its first
    digests          SHA-256 of `LISTED_FILES`, of those that are there
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
        """The digests; None when the format has none."""
        return None if self.format == 1 else self.digests


def load_description(directory: Path) -> ModelDescription:
    """Read config.json.

    Raises:
        ModelError: when it is missing, not JSON, or says something unknown.
    """
    path = directory / CONFIG_FILE
    missing = f"{directory} is not a model directory: it has no {CONFIG_FILE} (`dragoman train` writes one)"
    mapping = read_json_object(path, missing=missing, error=ModelError, advice="copy the directory anew")
    number = mapping.get("format", FORMAT)
    if type(number) is int and number not in FORMATS:
        raise ModelError(
            f"{path}: format {quoted(number)} is not one that this version reads ({', '.join(map(str, FORMATS))}): "
            + ("update dragoman" if number > FORMAT else "train it anew, or use the version that wrote it")
        )
    for name in ("architecture", "model"):
        if name not in mapping:
            raise ModelError(f"{name} is missing in {path}: copy the directory anew")
    model = read_model_config(mapping["architecture"], mapping["model"], str(path), error=ModelError)
    return from_mapping(ModelDescription, {**mapping, "model": model}, str(path), error=ModelError)


def save_description(directory: Path, description: ModelDescription) -> None:
    """Write config.json, which lists the files that are in the directory now."""
    digests = {name: _sha256(directory / name) for name in LISTED_FILES if (directory / name).exists()}
    _write(directory, replace(description, digests=digests, format=FORMAT))


def add_file(directory: Path, name: str, data: bytes) -> None:
    """Write a file that verbs load beside a model, then its digest into config.json.

    Ended between the two, the directory works as before but for this file, and its loading says how to write it anew.

    Raises:
        ModelError: when `directory` holds no model.
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
