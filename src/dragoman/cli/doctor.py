"""dragoman doctor"""

import importlib.util
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dragoman.cli.examples import Example


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Print what this machine has, what will be used, and what is missing."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Check the installation", "dragoman doctor"),
        Example("Measure in ten seconds what this machine can do", "dragoman doctor --bench"),
    )

    def run(self) -> None:
        """Print a line for everything that matters."""
        import torch

        from dragoman import __version__
        from dragoman.device import cpu_has_bf16, select_device, select_precision
        from dragoman.native import cores
        from dragoman.translation.engine_selection import select_engine

        device, engine = select_device("auto"), select_engine()
        translates = f"torch on {device}: {engine.reason}"
        if engine.build is not None:
            translates = f"the compiled engine: {engine.build.instructions}, {engine.precision}, {cores()} threads"
        rows = {
            "dragoman": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "processor": f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
            + (", bf16 matrix instructions" if cpu_has_bf16() else ", no bf16 matrix instructions"),
            "GPU": ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())) or "none",
            "training uses": f"{device} in {select_precision('auto', device)}",
            "translation uses": translates,
            "disk free here": f"{shutil.disk_usage(Path.cwd()).free / 2**30:.0f} GiB",
            "tensorboard": "installed"
            if importlib.util.find_spec("tensorboard")
            else "missing: pip install 'dragoman[tensorboard]'",
        }
        for name, value in rows.items():
            print(f"{name:<16} {value}")
