"""Compilation of a model's layers with torch.compile."""

from dragoman.models.seq2seq import Seq2Seq


def compile_layers(model: Seq2Seq) -> None:
    """Compile the layers of a model in place, each for all sequence lengths.

    Layers of one kind are identical but for their weights, so one compilation serves all of them. The decoder's `step`,
    which only search uses, is not compiled.
    """
    for layer in model.layers_to_compile():
        layer.compile(dynamic=True)
