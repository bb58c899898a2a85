"""The states of all layers of a model of any kind that reads texts."""

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.models.language_model import LanguageModel
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.text_encoder import TextEncoder
from dragoman.models.transformer import Transformer
from dragoman.packing import layout_of

States = tuple[Float[Tensor, "B T D"], ...]


def states_of_layers(model: nn.Module, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> States:
    """Return the embeddings and the states after each layer, or only the last states if a model has no such layers.

    Of a sequence-to-sequence model, these are the states of its encoder. Models other than Transformers have only the
    last states.

    Args:
        model: an encoder of texts, a language model or a sequence-to-sequence model.
        tokens: token ids.
        mask: True for tokens, False for padding, which is at the end.
    """
    if isinstance(model, TextEncoder):
        return model.layers(tokens, mask)
    if isinstance(model, Transformer):
        layout = layout_of(mask)
        states = model.encoder.states(model.source_embedding(tokens), AttentionMask.between(layout, layout))
        # [*BT, D] -> [B, T, D]
        return tuple(map(layout.batch, states))
    if isinstance(model, Seq2Seq):
        return (model.encode(tokens, mask).states,)
    assert isinstance(model, LanguageModel)
    with _recorded_inputs(model) as inputs:
        # The padding is after the tokens, whose states do not depend on it.
        decoded = model(tokens)
    # [*BT, D] -> [B, T, D]
    return (*map(decoded.layout.batch, inputs), decoded.states)


@contextmanager
def _recorded_inputs(model: nn.Module) -> Iterator[list[Tensor]]:
    """Record the input of each layer of a Transformer inside the context, with hooks."""
    inputs: list[Tensor] = []

    def record(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        inputs.append(arguments[0])

    layers = [module for module in model.modules() if isinstance(module, EncoderLayer)]
    hooks = [layer.register_forward_pre_hook(record) for layer in layers]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()
