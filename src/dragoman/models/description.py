"""config.json of a model directory: which model this is. Read without torch, whose import takes seconds."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import ModelError
from dragoman.files import read_json_object
from dragoman.models.config import ModelConfig
from dragoman.models.registry import architecture_of, read_model_config
from dragoman.settings import from_mapping

CONFIG_FILE = "config.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What config.json says.

    architecture     a name in `registry.ARCHITECTURES`
    model            the model's own settings
    trained_length   subwords of the longest sentence seen in training: longer input is split
    source_language, target_language   codes such as "en", when they are known
    vocabulary_hash  of the tokenizer that the model was trained with, to see that it is still that one
    right_to_left    the model writes a target from its last token to its first
    """

    architecture: str
    model: ModelConfig
    trained_length: int
    source_language: str | None = None
    target_language: str | None = None
    vocabulary_hash: str | None = None
    right_to_left: bool = False
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ModelError(
                f"format {self.format} is not one that this version reads ({FORMAT}): "
                + ("update dragoman" if self.format > FORMAT else "train it anew, or use the version that wrote it")
            )
        assert self.architecture == architecture_of(self.model)
        if self.trained_length < 1:
            raise ModelError(f"trained_length must be at least 1, not {self.trained_length}")


def load_description(directory: Path) -> ModelDescription:
    """Read config.json.

    Raises:
        ModelError: when it is missing, not JSON, or says something unknown.
    """
    path = directory / CONFIG_FILE
    missing = f"{directory} is not a model directory: it has no {CONFIG_FILE} (`dragoman train` writes one)"
    mapping = read_json_object(path, missing=missing, error=ModelError)
    if "architecture" in mapping and "model" in mapping:
        model = read_model_config(mapping["architecture"], mapping["model"], str(path), error=ModelError)
        mapping = {**mapping, "model": model}
    return from_mapping(ModelDescription, mapping, str(path), error=ModelError)
