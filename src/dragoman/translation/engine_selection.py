"""Which engine searches: the compiled one where it can, else torch; and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman import native
from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig

EngineName = Literal["auto", "native", "torch"]
PrecisionName = Literal["auto", "fp32", "bf16", "int8"]
# Files that the drivers of GPUs make: without one, torch need not be asked, whose import takes seconds.
GPU_FILES = ("/dev/nvidiactl", "/dev/dxg")


@dataclass(frozen=True)
class EngineSelection:
    """What searches.

    build      of the compiled engine; None: torch
    precision  of the compiled engine
    reason     why it is torch; "" otherwise
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
    """Choose the engine for models of these settings (several are an ensemble) on a device.

    Raises:
        SettingsError: when what was asked for is not available here.
    """
    if engine not in ("auto", "native", "torch"):
        raise SettingsError(f"unknown engine {engine!r}: use auto, native or torch")
    if precision not in ("auto", *native.PRECISIONS):
        raise SettingsError(f"unknown precision {precision!r}: use auto, {', '.join(native.PRECISIONS)}")
    builds = native.builds()
    reason = "torch was asked for" if engine == "torch" else _obstacle(builds, device, configs)
    if not reason:
        return EngineSelection(builds[0], builds[0].default_precision if precision == "auto" else precision)
    if engine == "native":
        raise SettingsError(f"the compiled engine cannot be used: {reason}")
    if precision not in ("auto", "fp32"):
        raise SettingsError(f"precision {precision} needs the compiled engine, which cannot be used: {reason}")
    return EngineSelection(None, reason=reason)


def _obstacle(builds: Sequence[native.Build], device: str, configs: Sequence[ModelConfig]) -> str:
    if not builds:
        return (
            "it is not installed, or not for this processor (install a C++ compiler, such as Debian's g++, and then "
            f"dragoman again: {_reinstallation()})"
        )
    if device not in ("auto", "cpu"):
        return f"it works on a CPU, not on {device}"
    if device == "auto" and any(Path(file).exists() for file in GPU_FILES) and _has_gpu():
        return "a GPU is used"
    if len(configs) > 1:
        return "it takes one model, not an ensemble"
    for config in configs:
        if trouble := native.obstacle(config):
            return f"it does not take this model: {trouble}"
    return ""


def _reinstallation() -> str:
    """Return the command that compiles the engine: pip otherwise takes the wheel that it built without a compiler."""
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
    # Nothing is recorded of what came from a package index, or a folder of wheels.
    if recorded is None:
        return f"{command}, and what you named when you installed it"
    origin = json.loads(recorded)
    if "vcs_info" in origin:
        return f"{command} {shlex.quote('{vcs}+{url}@{commit_id}'.format(url=origin['url'], **origin['vcs_info']))}"
    editable = " --editable" if origin.get("dir_info", {}).get("editable") else ""
    return f"{command}{editable} {shlex.quote(origin['url'])}"


def _has_gpu() -> bool:
    from dragoman.device import select_device

    return select_device("auto").type != "cpu"
