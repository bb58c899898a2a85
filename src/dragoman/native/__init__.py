"""The compiled engine: the builds of it that run on this processor, and the models that it takes."""

import importlib
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from dragoman.models.config import ModelConfig
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.registry import architecture_of

Precision = Literal["fp32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8")
# The builds and the instructions that they use, the fastest first.
BUILDS = {"avx512": "AVX-512 with VNNI and bf16", "avx2": "AVX2", "generic": "no special instructions"}


@dataclass(frozen=True)
class Build:
    """A build of the engine that runs on this processor.

    name    "avx512", "avx2" or "generic"
    module  the extension module
    """

    name: str
    module: ModuleType

    @property
    def default_precision(self) -> Precision:
        """The fastest precision that keeps the quality: int8, unless the build has no instructions for it."""
        return "fp32" if self.name == "generic" else "int8"

    @property
    def instructions(self) -> str:
        """The instructions that it uses, in words."""
        return BUILDS[self.name]


def builds() -> list[Build]:
    """Return the builds that are installed and run on this processor, the fastest first; none without a compiler."""
    found = []
    for name in BUILDS:
        if _runs_here(name):
            try:
                found.append(Build(name, importlib.import_module(f"{__name__}._{name}")))
            except ModuleNotFoundError:
                continue
    return found


def obstacle(config: ModelConfig) -> str | None:
    """Return why the engine does not take this model, or None if it does."""
    if not isinstance(config, TransformerConfig):
        return f"its architecture is {architecture_of(config)}"
    if config.norm == "batch":
        return "it has batch normalisation"
    if config.key_width * config.heads != config.d_model:
        return f"its d_k is {config.key_width}, not d_model / heads"
    if config.positions not in ("sinusoidal", "learned", "rotary"):
        return "it has no positions" if config.positions == "none" else f"it has {config.positions} positions"
    return None


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _runs_here(name: str) -> bool:
    if name == "generic":
        return True
    try:
        processor = importlib.import_module(f"{__name__}._processor")
    except ModuleNotFoundError:
        return False
    return bool(processor.features()[name])
