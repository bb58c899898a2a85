"""Selection of the engine: the native engine where it supports the models and the device, else torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman import native
from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig

EngineName = Literal["auto", "native", "torch"]
PrecisionName = Literal["auto", "fp32", "bf16", "int8"]
# Files that GPU drivers create. Without one of them there is no GPU, and torch, whose import takes seconds, is not
# imported to look for one.
GPU_FILES = ("/dev/nvidiactl", "/dev/dxg")


@dataclass(frozen=True)
class EngineSelection:
    """The selected engine.

    Attributes:
        build: the build of the native engine; None: the torch engine.
        precision: the precision of the native engine.
        reason: why torch was selected; "" for the native engine.
    """

    build: native.Build | None
    precision: native.Precision = "fp32"
    reason: str = ""


def select_engine(
    engine: EngineName = "auto",
    precision: PrecisionName = "auto",
    device: str = "auto",
    configs: Sequence[ModelConfig] = (),
) -> EngineSelection:
    """Select the engine for models on a device.

    Args:
        engine: the requested engine, or "auto".
        precision: the requested precision of the native engine, or "auto".
        device: a torch device, or "auto".
        configs: the settings of the models; several are an ensemble.

    Returns:
        The selection.

    Raises:
        SettingsError: if the requested engine or precision is unknown, or not available here.
    """
    if engine not in ("auto", "native", "torch"):
        raise SettingsError(f"unknown engine {engine!r}: use auto, native or torch")
    if precision not in ("auto", *native.PRECISIONS):
        raise SettingsError(f"unknown precision {precision!r}: use auto, {', '.join(native.PRECISIONS)}")
    builds = native.builds()
    reason = "the torch engine was requested" if engine == "torch" else _unavailable_reason(builds, device, configs)
    if not reason:
        return EngineSelection(builds[0], builds[0].default_precision if precision == "auto" else precision)
    if engine == "native":
        raise SettingsError(f"cannot use the native engine: {reason}")
    if precision not in ("auto", "fp32"):
        raise SettingsError(f"precision {precision} needs the native engine, but {reason}")
    return EngineSelection(None, reason=reason)


def _unavailable_reason(builds: Sequence[native.Build], device: str, configs: Sequence[ModelConfig]) -> str:
    """Return why the native engine is not available, as a clause; "" if it is."""
    if not builds:
        return (
            "the native engine is not installed, or was not built for this processor; install a C++ compiler (such as "
            f"Debian's g++) and then dragoman again: {_reinstallation()}"
        )
    if device not in ("auto", "cpu"):
        return f"the native engine runs on a CPU, not on {device}; use the device cpu"
    if device == "auto" and any(Path(file).exists() for file in GPU_FILES) and _has_gpu():
        return "the native engine runs on a CPU, and a GPU is used; use the device cpu for the native engine"
    if len(configs) > 1:
        return "the native engine runs one model, not an ensemble"
    for config in configs:
        if unsupported := native.unsupported_reason(config):
            return f"the native engine does not support this model: {unsupported}"
    return ""


def _reinstallation() -> str:
    """Return the command that compiles the native engine.

    Its options keep pip from reusing the wheel that it built without a compiler.
    """
    import json
    import shlex
    import sys
    from importlib.metadata import PackageNotFoundError, distribution

    python = shlex.quote(sys.executable)
    command = f"{python} -m pip install --no-cache-dir --force-reinstall --no-deps"
    try:
        recorded = distribution("dragoman").read_text("direct_url.json")
    except PackageNotFoundError:
        return f"{python} setup.py build_ext --inplace"
    # pip records no origin for an installation from a package index or a folder of wheels.
    if recorded is None:
        return f"{command}, followed by what you named when you installed it"
    origin = json.loads(recorded)
    if "vcs_info" in origin:
        return f"{command} {shlex.quote('{vcs}+{url}@{commit_id}'.format(url=origin['url'], **origin['vcs_info']))}"
    editable = " --editable" if origin.get("dir_info", {}).get("editable") else ""
    return f"{command}{editable} {shlex.quote(origin['url'])}"


def _has_gpu() -> bool:
    from dragoman.device import select_device

    return select_device("auto").type != "cpu"
