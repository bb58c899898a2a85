"""Shapes that annotations state are checked at run time in every test; one thread for each process."""

import os

from hypothesis import settings
from jaxtyping import install_import_hook

# Speed is never a test. CI tries the same examples every time; at a desk they are new ones.
settings.register_profile("dragoman", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("dragoman")

# Models this small are slower on two threads, which wait for each other. Commands that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

# Before anything imports dragoman: the hook rewrites modules as they load.
install_import_hook(
    ["dragoman.attention", "dragoman.layers", "dragoman.models", "dragoman.training.loss"], "beartype.beartype"
)
