"""The tensors of model.safetensors, by the settings alone: what a file must hold is known before it is read.

Each architecture's settings list theirs (`ModelConfig.tensors`) in these terms. They are generators, as settings may
name more layers than a file has, or memory holds. That the lists are those of the models is tested for every variant.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class TensorShape(NamedTuple):
    """A tensor of a model.

    name     in model.safetensors
    shape    its sizes; none for a single number
    integer  whether it is a whole number instead of a floating-point one
    """

    name: str
    shape: tuple[int, ...]
    integer: bool = False


def within(prefix: str, tensors: Iterable[TensorShape]) -> Iterator[TensorShape]:
    """Yield the tensors of a part, which is called `prefix` in the whole."""
    for tensor in tensors:
        yield tensor._replace(name=f"{prefix}.{tensor.name}")


def linear(outputs: int, inputs: int, *, bias: bool) -> Iterator[TensorShape]:
    """Yield the tensors of a linear map."""
    yield TensorShape("weight", (outputs, inputs))
    if bias:
        yield TensorShape("bias", (outputs,))


def table(rows: int, columns: int) -> Iterator[TensorShape]:
    """Yield the tensor of an embedding: a vector for each row."""
    yield TensorShape("weight", (rows, columns))


def vocabulary(source: int, target: int, d_model: int, tied: str) -> Iterator[TensorShape]:
    """Yield the embeddings and the output projection; those that are tied are stored once, under the first name."""
    yield from within("source_embedding.tokens", table(source, d_model))
    if tied != "three-way":
        yield from within("target_embedding.tokens", table(target, d_model))
    if tied == "none":
        yield from within("output", linear(target, d_model, bias=False))
