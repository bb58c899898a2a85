"""dragoman doctor"""

import importlib.util
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Say what this machine has, what will be used, and what is missing."""

    def run(self) -> None:
        """Print a line for everything that matters."""
        import torch

        from dragoman import __version__
        from dragoman.device import choose_device, choose_precision, cpu_has_bf16

        device = choose_device("auto")
        rows = {
            "dragoman": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "processor": f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
            + (", bf16 matrix instructions" if cpu_has_bf16() else ", no bf16 matrix instructions"),
            "GPU": ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())) or "none",
            "training uses": f"{device} in {choose_precision('auto', device)}",
            "disk free here": f"{shutil.disk_usage(Path.cwd()).free / 2**30:.0f} GiB",
            "tensorboard": "installed"
            if importlib.util.find_spec("tensorboard")
            else "missing: pip install 'dragoman[tensorboard]'",
        }
        for name, value in rows.items():
            print(f"{name:<15} {value}")
