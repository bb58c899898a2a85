"""The model's part of a model directory: config.json and model.safetensors. Never a pickle."""

from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.errors import ModelError
from dragoman.models.description import ModelDescription, load_description, save_description
from dragoman.models.registry import build_model
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.weights import WEIGHTS_FILE, open_weights, write_weights


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once (tied ones under their first name), and the buffers that training changes."""
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    saved = model.state_dict()
    for name, buffer in model.named_buffers():
        if name in saved:
            tensors[name] = buffer
    return tensors


def set_weights(model: nn.Module, tensors: dict[str, Tensor], where: str) -> None:
    """Copy `tensors` into `model`.

    Raises:
        ModelError: when a name is missing or left over, or a shape differs.
    """
    own = weights_of(model)
    if missing := sorted(own.keys() - tensors.keys()):
        raise ModelError(f"{where}: lacks {len(missing)} weights of this model, {missing[0]} first")
    if unknown := sorted(tensors.keys() - own.keys()):
        raise ModelError(f"{where}: has {len(unknown)} unknown weights, {unknown[0]} first")
    for name in own:
        tensor = tensors[name]
        if own[name].shape != tensor.shape:
            raise ModelError(
                f"{where}: {name} has shape {list(tensor.shape)}, but config.json asks for {list(own[name].shape)}"
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def save_model(directory: Path, description: ModelDescription, weights: dict[str, Tensor]) -> None:
    """Write config.json and model.safetensors into `directory`, each atomically; its tokenizer is there already."""
    save_description(directory, description)
    # Floats of any kind as float32, which everything reads.
    arrays = {
        name: (tensor.float() if tensor.is_floating_point() else tensor).contiguous().cpu().numpy()
        for name, tensor in weights.items()
    }
    write_weights(directory / WEIGHTS_FILE, arrays)


def load_model(directory: Path) -> Seq2Seq:
    """Build the model that config.json describes, with its weights, in evaluation mode on the CPU.

    Raises:
        ModelError: when a file is missing, damaged, or does not fit the other.
        FloatingPointError: when the weights have values that are not finite.
    """
    config = load_description(directory).model
    # The model is built after the file was found to hold it: the settings alone may ask for any amount of memory.
    with open_weights(directory, config) as weights:
        model = build_model(config)
        own = weights_of(model)
        for name in weights.names:
            weights.read_into(name, own[name].numpy())
    return model.eval()
