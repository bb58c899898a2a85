"""torch.compile, layer by layer."""

from dragoman.models.seq2seq import Seq2Seq


def compile_layers(model: Seq2Seq) -> None:
    """Compile the layers that the model names in place, once for all lengths.

    Layers of a kind are alike, so that one compilation serves them all; search's `step` is not compiled.
    """
    for layer in model.layers_to_compile():
        layer.compile(dynamic=True)
