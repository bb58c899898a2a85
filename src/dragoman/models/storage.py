"""The model's part of a model directory: config.json and model.safetensors. Never a pickle."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load, save
from torch import Tensor

from dragoman.errors import UserError
from dragoman.files import write_atomically
from dragoman.models.config import TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import build_transformer
from dragoman.settings import from_mapping, to_mapping

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What config.json says.

    architecture     which class of model this is; "transformer" so far
    model            the model's own settings
    trained_length   subwords of the longest sentence seen in training: longer input is split
    source_language, target_language   codes such as "en", when they are known
    vocabulary_hash  of the tokenizer that the model was trained with, to see that it is still that one
    """

    architecture: str
    model: TransformerConfig
    trained_length: int
    source_language: str | None = None
    target_language: str | None = None
    vocabulary_hash: str | None = None
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(
                f"format {self.format} is not one that this version reads ({FORMAT}): "
                + ("update dragoman" if self.format > FORMAT else "train it anew, or use the version that wrote it")
            )
        if self.architecture != "transformer":
            raise ValueError(f"unknown architecture {self.architecture!r}")
        if self.trained_length < 1:
            raise ValueError(f"trained_length must be at least 1, not {self.trained_length}")


def weights_of(model: Seq2Seq) -> dict[str, Tensor]:
    """Every weight once (tied ones under their first name), and the buffers that training changes."""
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    saved = model.state_dict()
    for name, buffer in model.named_buffers():
        if name in saved:
            tensors[name] = buffer
    return tensors


def set_weights(model: Seq2Seq, tensors: dict[str, Tensor], where: str) -> None:
    """Copy `tensors` into `model`.

    Raises:
        UserError: when a name is missing or left over, or a shape differs.
    """
    own = weights_of(model)
    if missing := sorted(own.keys() - tensors.keys()):
        raise UserError(f"{where}: lacks {len(missing)} weights of this model, {missing[0]} first")
    if unknown := sorted(tensors.keys() - own.keys()):
        raise UserError(f"{where}: has {len(unknown)} unknown weights, {unknown[0]} first")
    for name in own:
        tensor = tensors[name]
        if own[name].shape != tensor.shape:
            raise UserError(
                f"{where}: {name} has shape {list(tensor.shape)}, but config.json asks for {list(own[name].shape)}"
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def save_model(directory: Path, description: ModelDescription, weights: dict[str, Tensor]) -> None:
    """Write config.json and model.safetensors into `directory`, each atomically."""
    text = json.dumps(to_mapping(description), indent=2) + "\n"
    write_atomically(directory / CONFIG_FILE, text.encode())
    tensors = {name: tensor.contiguous().cpu() for name, tensor in weights.items()}
    # The digest stands in the file's own header, so that the two cannot part; alone there, as the order of several
    # entries would be random.
    digest = hashlib.sha256(_values(save(tensors))).hexdigest()
    write_atomically(directory / WEIGHTS_FILE, save(tensors, metadata={"sha256": digest}))


def _values(data: bytes) -> memoryview:
    """What follows the header of a safetensors file."""
    return memoryview(data)[8 + int.from_bytes(data[:8], "little") :]


def _read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, checked against the digest in its header if there is one.

    Raises:
        OSError, ValueError, SafetensorError: when it is not as it was written.
    """
    data = path.read_bytes()
    tensors = load(data)
    header = json.loads(data[8 : len(data) - len(_values(data))])
    expected = header.get("__metadata__", {}).get("sha256")
    if expected is not None and hashlib.sha256(_values(data)).hexdigest() != expected:
        raise ValueError("its bytes are not those that were written")
    return tensors


def load_description(directory: Path) -> ModelDescription:
    """Read config.json.

    Raises:
        UserError: when it is missing, not JSON, or says something unknown.
    """
    path = directory / CONFIG_FILE
    try:
        mapping = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{directory} is not a model directory: it has no {CONFIG_FILE} (`dragoman train` writes one)"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not isinstance(mapping, dict):
        raise UserError(f"{path} is not a JSON object")
    return from_mapping(ModelDescription, mapping, str(path))


def load_model(directory: Path) -> Seq2Seq:
    """Build the model that config.json describes, with its weights, in evaluation mode on the CPU.

    Raises:
        UserError: when a file is missing, damaged, or does not fit the other.
    """
    description = load_description(directory)
    path = directory / WEIGHTS_FILE
    try:
        tensors = _read_weights(path)
    except FileNotFoundError:
        raise UserError(f"{directory} has no {WEIGHTS_FILE}: training wrote no model yet") from None
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise UserError(f"{path} is damaged: {error}; copy it anew, or train again") from error
    model = build_transformer(description.model)
    set_weights(model, tensors, str(path))
    return model.eval()
