"""The native engine: its builds for this processor, and the models that it supports."""

import importlib
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any, Literal

from dragoman.models.config import ModelConfig, attention_factor
from dragoman.models.config.language import LanguageConfig
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.registry import architecture_of

Precision = Literal["fp32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8")
# The builds and their instruction sets, the fastest first.
BUILDS = {"avx512": "AVX-512 with VNNI and bf16", "avx2": "AVX2", "generic": "no special instructions"}


@dataclass(frozen=True)
class Build:
    """A build of the native engine that runs on this processor.

    Attributes:
        name: "avx512", "avx2" or "generic".
        module: the extension module.
    """

    name: str
    module: ModuleType

    @property
    def default_precision(self) -> Precision:
        """The fastest precision without a loss of quality: int8 if the build has instructions for it, else fp32."""
        return "fp32" if self.name == "generic" else "int8"

    @property
    def instructions(self) -> str:
        """The name of the instruction set."""
        return BUILDS[self.name]


def builds() -> list[Build]:
    """Return the installed builds that run on this processor, the fastest first.

    The list is empty if dragoman was installed without a C++ compiler.
    """
    available = []
    for name in BUILDS:
        if _runs_here(name):
            try:
                available.append(Build(name, importlib.import_module(f"{__name__}._{name}")))
            except ModuleNotFoundError:
                continue
    return available


def unsupported_reason(config: ModelConfig) -> str | None:
    """Return why the native engine does not support a model, or None if it does."""
    if not isinstance(config, TransformerConfig | LanguageConfig):
        return f"its architecture is {architecture_of(config)}"
    if config.norm == "batch":
        return "it has batch normalisation"
    if config.key_width * config.heads != config.d_model:
        return f"its d_k is {config.key_width}, not d_model / heads"
    if config.value_width * config.heads != config.d_model:
        return f"its d_v is {config.value_width}, not d_model / heads"
    if config.positions not in ("sinusoidal", "learned", "rotary", "none"):
        return f"it has {config.positions} positions"
    if isinstance(config, LanguageConfig) and set(config.attention_pattern) != {"full"}:
        return f"it has {' and '.join(dict.fromkeys(config.attention_pattern))} attention"
    return None


def engine_settings(config: TransformerConfig | LanguageConfig) -> dict[str, Any]:
    """Return the settings of a model as the extension module reads them."""
    factor = attention_factor(config.attention_scale)
    return asdict(config) | {"attention_scale": config.key_width**-0.5 if factor is None else factor}


def _runs_here(name: str) -> bool:
    """Return True if this processor has the instructions of a build."""
    if name == "generic":
        return True
    try:
        processor = importlib.import_module(f"{__name__}._processor")
    except ModuleNotFoundError:
        return False
    return bool(processor.features()[name])
