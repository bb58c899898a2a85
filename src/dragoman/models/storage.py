"""Saving and loading of models: config.json and model.safetensors of a model directory; pickle is never used."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.models.config import ModelConfig
from dragoman.models.description import (
    ModelDescription,
    image_classifier_config,
    load_description,
    sagan_config,
    save_description,
    seq2seq_config,
    text_model_config,
)
from dragoman.models.image_classifier import ImageClassifier
from dragoman.models.labelled_model import LabelledModel
from dragoman.models.language_model import LanguageModel
from dragoman.models.registry import (
    architecture_of,
    build_any,
    build_encoder,
    build_image_classifier,
    build_language_model,
    build_model,
    kind_of,
)
from dragoman.models.sagan import Sagan, build_sagan
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.text_encoder import TextEncoder
from dragoman.models.weights import WEIGHTS_FILE, open_weights, write_weights

M = TypeVar("M", bound=nn.Module)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return all parameters (tied ones once, under their first name) and all persistent buffers, by name."""
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    persistent = model.state_dict()
    for name, buffer in model.named_buffers():
        if name in persistent:
            tensors[name] = buffer
    return tensors


def set_weights(model: nn.Module, tensors: dict[str, Tensor], where: str) -> None:
    """Copy `tensors` into the weights of `model`.

    Args:
        model: the model.
        tensors: a tensor for each name in `weights_of(model)`.
        where: where the tensors are from, for messages.

    Raises:
        ModelError: a name is missing or unknown, or a shape differs.
    """
    weights = weights_of(model)
    if missing := sorted(weights.keys() - tensors.keys()):
        raise ModelError(f"{where}: {len(missing)} weights of this model are missing; the first is {missing[0]}")
    if unknown := sorted(tensors.keys() - weights.keys()):
        raise ModelError(f"{where}: {len(unknown)} weights are unknown; the first is {unknown[0]}")
    for name in weights:
        tensor = tensors[name]
        if weights[name].shape != tensor.shape:
            raise ModelError(
                f"{where}: {name} has shape {list(tensor.shape)}, but the model requires {list(weights[name].shape)}"
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            weights[name].copy_(tensor)


def save_model(directory: Path, description: ModelDescription, weights: dict[str, Tensor]) -> None:
    """Write config.json and model.safetensors into `directory`, each atomically.

    Args:
        directory: an existing directory, which already contains the tokenizer.
        description: contents of config.json.
        weights: from `weights_of`; floating-point tensors are saved as float32.
    """
    save_description(directory, description)
    arrays = {
        name: (tensor.float() if tensor.is_floating_point() else tensor).contiguous().cpu().numpy()
        for name, tensor in weights.items()
    }
    write_weights(directory / WEIGHTS_FILE, arrays)


def load_model(directory: Path) -> Seq2Seq:
    """Load the sequence-to-sequence model of a model directory, in evaluation mode on the CPU.

    Use `dragoman.Translator.load` to translate text; this function returns the torch module.

    Raises:
        ModelError: a file is missing or damaged, the two files do not belong together, or the model is of another kind.
        FloatingPointError: weights are not finite, or too large.

    Example:
        >>> from pathlib import Path
        >>> model = load_model(Path("models/mine"))
        >>> model.training
        False
    """
    config = seq2seq_config(load_description(directory), directory)
    with _checked_weights(directory, config) as read_weights:
        return read_weights(build_model(config))


def load_language_model(directory: Path) -> LanguageModel:
    """Load the language model of a model directory, in evaluation mode on the CPU.

    Use `dragoman.Generator.load` to generate text; this function returns the torch module.

    Raises:
        ModelError: a file is missing or damaged, the two files do not belong together, or the model is of another kind.
        FloatingPointError: weights are not finite, or too large.
    """
    description = load_description(directory)
    config = text_model_config(description, directory)
    if kind_of(config) != "language":
        raise ModelError(f"{directory} is an encoder of text, not a language model: use dragoman embed or attention")
    with _checked_weights(directory, config) as read_weights:
        return read_weights(build_language_model(config))


def load_encoder(directory: Path) -> TextEncoder:
    """Load the encoder of texts of a model directory, in evaluation mode on the CPU.

    Use `dragoman.Embedder.load` to represent text; this function returns the torch module.

    Raises:
        ModelError: a file is missing or damaged, the two files do not belong together, or the model is of another kind.
        FloatingPointError: weights are not finite, or too large.
    """
    config = text_model_config(load_description(directory), directory)
    if kind_of(config) != "encoder":
        raise ModelError(f"{directory} is not an encoder of text: its architecture is {architecture_of(config)}")
    with _checked_weights(directory, config) as read_weights:
        return read_weights(build_encoder(config))


def load_labelled_model(directory: Path) -> LabelledModel:
    """Load the classifier or tagger of a model directory, in evaluation mode on the CPU.

    Use `dragoman.Labeller.load` to label text; this function returns the torch module.

    Raises:
        ModelError: a file is missing or damaged, the two files do not belong together, or the model is of another kind.
        FloatingPointError: weights are not finite, or too large.
    """
    config = text_model_config(load_description(directory), directory)
    if kind_of(config) not in ("classifier", "tagger"):
        raise ModelError(f"{directory} is neither a classifier nor a tagger")
    with _checked_weights(directory, config) as read_weights:
        model = build_any(config)
        assert isinstance(model, LabelledModel)
        return read_weights(model)


def load_sagan(directory: Path) -> Sagan:
    """Load the GAN of a model directory, in evaluation mode on the CPU.

    Use `dragoman.images.PictureGenerator.load` to make pictures; this function returns the torch module.

    Raises:
        ModelError: a file is missing or damaged, the two files do not belong together, or the model is of another kind.
        FloatingPointError: weights are not finite, or too large.
    """
    config = sagan_config(load_description(directory), directory)
    with _checked_weights(directory, config) as read_weights:
        return read_weights(build_sagan(config))


def load_image_classifier(directory: Path) -> ImageClassifier:
    """Load the classifier of images of a model directory, in evaluation mode on the CPU.

    The labels are those of `load_description(directory).model.labels`, in the order of the logits.

    Raises:
        ModelError: a file is missing or damaged, the two files do not belong together, or the model is of another kind.
        FloatingPointError: weights are not finite, or too large.
    """
    config = image_classifier_config(load_description(directory), directory)
    with _checked_weights(directory, config) as read_weights:
        return read_weights(build_image_classifier(config))


class _ReadWeights(Protocol):
    def __call__(self, model: M) -> M: ...


@contextmanager
def _checked_weights(directory: Path, config: ModelConfig) -> Iterator[_ReadWeights]:
    """Yield the function that reads the weights of a model from the checked weights file.

    The file is checked before the model is built: settings from a file could make that allocate any amount of memory.
    """
    with open_weights(directory, config) as weights_file:

        def read(model: M) -> M:
            weights = weights_of(model)
            for name in weights_file.names:
                weights_file.read_into(name, weights[name].numpy())
            return model.eval()

        yield read
