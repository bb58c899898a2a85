"""Shapes that annotations state are checked at run time in every test."""

from jaxtyping import install_import_hook

# Before anything imports the rooms: the hook rewrites modules as they load.
install_import_hook(
    ["dragoman.attention", "dragoman.layers", "dragoman.models", "dragoman.training.loss"], "beartype.beartype"
)
