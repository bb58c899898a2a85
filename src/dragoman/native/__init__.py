"""The compiled engine: which build of it runs on this processor, and which models it takes."""

import importlib
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

from dragoman.models.config import ModelConfig, TransformerConfig, architecture_of

Precision = Literal["fp32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8")
# Names of the builds, and what they compute with; the best first.
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
        """The fastest that loses next to nothing: int8, for which every build has instructions but the generic one."""
        return "fp32" if self.name == "generic" else "int8"

    @property
    def instructions(self) -> str:
        """What it computes with, in words."""
        return BUILDS[self.name]


def builds() -> list[Build]:
    """The builds that are installed and run on this processor, the best first; none without a C++ compiler."""
    found = []
    for name in BUILDS:
        if _runs_here(name):
            try:
                found.append(Build(name, importlib.import_module(f"{__name__}._{name}")))
            except ModuleNotFoundError:
                continue
    return found


def obstacle(config: ModelConfig) -> str | None:
    """Why the engine does not take this model, or None if it does."""
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
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _runs_here(name: str) -> bool:
    if name == "generic":
        return True
    try:
        processor = importlib.import_module(f"{__name__}._processor")
    except ModuleNotFoundError:
        return False
    return bool(processor.features()[name])
