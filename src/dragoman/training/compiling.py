"""torch.compile, layer by layer."""

from torch import nn

from dragoman.layers.decoder_layer import DecoderLayer
from dragoman.layers.encoder_layer import EncoderLayer


def compile_layers(model: nn.Module) -> None:
    """Compile every encoder and decoder layer in place, once for all lengths.

    The layers are alike, so that one compilation serves them all; search's `step` is not compiled.
    """
    for module in model.modules():
        if isinstance(module, EncoderLayer | DecoderLayer):
            module.compile(dynamic=True)
