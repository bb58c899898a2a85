"""dragoman doctor"""

from __future__ import annotations

import importlib.util
import json
import math
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dragoman.cli.examples import Example
from dragoman.cli.options import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.run.machine import Benchmark

# BLEU of the demo after this many updates: on two machines, and on the second beside a low-priority process.
DEMO_BLEU = {996: 20.9, 644: 18.5, 427: 14.5}
# Mantissas of rounded numbers: measurements to two digits; predictions, which are often off by a tenth, to fewer.
TWO_DIGITS = tuple(number / 10 for number in range(10, 100))
PREDICTED = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
# A smaller share of the processor's time means that something else uses the processor, or that its use is limited.
QUIET_SHARE = 0.9


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Report what this machine has, what Dragoman will use, and what is missing."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Check the installation", "dragoman doctor"),
        Example("Measure in ten seconds what this machine can do", "dragoman doctor --bench"),
    )

    bench: Flag = False
    """Measure matrix products and training for about ten seconds, and predict the speed of training each preset."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> None:
        """Print a line for everything that matters."""
        rows = _rows()
        benchmark = _measured() if self.bench else None
        if self.json:
            measurements = {} if benchmark is None else {"bench": asdict(benchmark)}
            print(json.dumps({name.replace(" ", "_"): value for name, value in rows.items()} | measurements, indent=2))
            return
        for name, value in rows.items():
            print(f"{name:<16} {value}")
        if benchmark is not None:
            print()
            print(*_lines(benchmark), sep="\n")


def about(value: float, mantissas: Sequence[float] = TWO_DIGITS) -> str:
    """Return the nearest of these numbers times a power of ten, as in "about 9,000"."""
    if value <= 0:
        return "about 0"
    power = math.floor(math.log10(value))
    nearest = min((*mantissas, 10.0), key=lambda mantissa: abs(mantissa * 10.0**power - value)) * 10.0**power
    return f"about {nearest:,.{max(1 - power, 0)}f}"


def _rows() -> dict[str, str]:
    import torch

    from dragoman import __version__
    from dragoman.device import cpu_has_bf16, select_device, select_precision
    from dragoman.native.engine_selection import select_engine
    from dragoman.threads import available_cpus

    device, engine = select_device("auto"), select_engine()
    translates = f"torch on {device}: {engine.reason}"
    if engine.build is not None:
        translates = f"the native engine: {engine.build.instructions}, {engine.precision}, {available_cpus()} threads"
    return {
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


def _measured() -> Benchmark:
    """Run the benchmark, and show on a terminal what is being measured."""
    from rich.console import Console

    from dragoman.run.machine import measure

    with Console(stderr=True).status("measuring") as status:
        return measure(on_progress=lambda activity: status.update(f"measuring {activity}"))


def _lines(benchmark: Benchmark) -> Iterator[str]:
    rates = [f"{name} {about(rate)}" for name, rate in benchmark.products.items() if rate is not None]
    unused = "" if benchmark.products["int8"] is not None else " (int8 is not used: see translation)"
    yield f"{'matrix products':<16} {', '.join(rates)} GFLOP/s{unused}"
    yield f"{'other programs':<16} {_competition(benchmark)}"
    yield f"training in {benchmark.precision}, predicted from a few updates (target tokens a second):"
    for name, speed in benchmark.training.items():
        yield (
            f"  {name:<14} {about(speed.tokens_per_second, PREDICTED):<14} "
            f"{speed.vocabulary:,} subwords, batches of {speed.batch_tokens:,} tokens"
        )
    yield f"{'make demo':<16} {about(benchmark.demo_updates, PREDICTED)} updates in five minutes"
    reached = ", ".join(f"{bleu} BLEU after {updates:,} updates" for updates, bleu in DEMO_BLEU.items())
    yield f"{'':<16} (measured elsewhere: {reached})"


def _competition(benchmark: Benchmark) -> str:
    share, load = benchmark.processor_share, benchmark.load
    before = "" if load is None else f"; load average before the measurement: {load:.1f}"
    if share is None:
        return f"not measured on {benchmark.device}{before}"
    if share < QUIET_SHARE:
        return (
            f"use this processor, or its use is limited: {share:.0%} of {benchmark.threads} threads' time was "
            f"available, and all rates here are lower than on an idle machine{before}"
        )
    return f"use little: {share:.0%} of {benchmark.threads} threads' time was available{before}"
