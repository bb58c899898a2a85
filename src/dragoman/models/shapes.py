"""Names and shapes of the tensors in model.safetensors, derived from the settings before the file is read.

The settings of each architecture list the tensors of the model (`ModelConfig.tensors`) with these functions. They are
generators, because settings from a file may specify more layers than fit into memory. The tests check for every
variant that the list equals the tensors of the built model.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class TensorShape(NamedTuple):
    """Name, shape and kind of a tensor of a model.

    Attributes:
        name: name in model.safetensors.
        shape: size of each dimension; empty for a scalar.
        integer: True for int64, False for a floating-point tensor.
    """

    name: str
    shape: tuple[int, ...]
    integer: bool = False


def within(prefix: str, tensors: Iterable[TensorShape]) -> Iterator[TensorShape]:
    """Yield the tensors of a submodule, with the name of the submodule before their names."""
    for tensor in tensors:
        yield tensor._replace(name=f"{prefix}.{tensor.name}")


def linear(outputs: int, inputs: int, *, bias: bool) -> Iterator[TensorShape]:
    """Yield the tensors of a linear map."""
    yield TensorShape("weight", (outputs, inputs))
    if bias:
        yield TensorShape("bias", (outputs,))


def table(rows: int, columns: int) -> Iterator[TensorShape]:
    """Yield the tensor of an embedding matrix."""
    yield TensorShape("weight", (rows, columns))


def recurrent_layer(cell: str, inputs: int, states: int) -> Iterator[TensorShape]:
    """Yield the tensors of a recurrent layer in one direction; `cell` is "lstm" or "gru"."""
    gates = 4 if cell == "lstm" else 3
    yield TensorShape("kernel.weight_ih_l0", (gates * states, inputs))
    yield TensorShape("kernel.weight_hh_l0", (gates * states, states))
    yield TensorShape("kernel.bias_ih_l0", (gates * states,))
    yield TensorShape("kernel.bias_hh_l0", (gates * states,))


def vocabulary(source: int, target: int, d_model: int, tied: str) -> Iterator[TensorShape]:
    """Yield the embeddings and the output projection; a tied matrix is stored once, under its first name."""
    yield from within("source_embedding.tokens", table(source, d_model))
    if tied != "three-way":
        yield from within("target_embedding.tokens", table(target, d_model))
    if tied == "none":
        yield from within("output", linear(target, d_model, bias=False))


def text_vocabulary(size: int, d_model: int, *, tied: bool) -> Iterator[TensorShape]:
    """Yield the embedding and the output projection of a model of one vocabulary; a tied matrix is stored once."""
    yield from within("embedding.tokens", table(size, d_model))
    if not tied:
        yield from within("output", linear(size, d_model, bias=False))
