"""How many threads compute, and how they wait for each other when other processes need the processor."""

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path

# Settings of OpenMP's waiting: a user who sets one of them has chosen.
WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
BUSY_MESSAGE = (
    "other processes use the processor: threads that wait now sleep instead of spinning; the result is the same, "
    "the speed depends on how much of the processor is left"
)

# Seconds between samples, and seconds of demand (of all threads together) after which to judge them.
_INTERVAL, _WINDOW = 0.25, 0.5
# Threads that are ready but wait for a core, on average: more means busy, and less for CALM_WINDOWS means quiet again.
_BUSY, _QUIET, _CALM_WINDOWS = 0.3, 0.15, 3


def available_cpus() -> int:
    """Return the number of CPUs that this process may use: those of its affinity, or fewer if a cgroup limits it."""
    cpus = _affinity()
    quota = cpu_quota()
    return cpus if quota is None else max(1, min(cpus, ceil(quota)))


def cpu_quota(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the CPUs' worth of time that control groups (a container's limit, say) allow; None if unlimited."""
    try:
        lines = (proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    quotas = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Version 2 has no controllers here; version 1 has a file system for each set of them.
        root = cgroups / "cpu" if controllers else cgroups
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder == root.parent:
                break
            quotas.append(_quota_of(folder, version=1 if controllers else 2))
    return min((quota for quota in quotas if quota is not None), default=None)


def limit_openmp() -> None:
    """Set OMP_NUM_THREADS where a cgroup allows fewer CPUs than OpenMP would use; effective before torch is loaded.

    OpenMP respects the process's affinity, but not a cgroup's limit: its threads would use up their time and all
    be suspended. Nothing is changed if the variable is set.
    """
    cpus = available_cpus()
    if cpus < _affinity():
        os.environ.setdefault("OMP_NUM_THREADS", str(cpus))


class SpinControl:
    """Makes torch's OpenMP threads sleep instead of spinning while other processes compete for the processor.

    Between parallel regions libgomp's threads spin for milliseconds. When every thread has a core this is the fastest
    way to wait. When another process has one of the cores, the system places two threads on one core, and each of them
    spins for a whole time slice while the other, for which it waits, cannot run: training falls to a twentieth.

    The environment sets one way of waiting for the life of a process. But libgomp also spins 3,000 times less whenever
    a process has more OpenMP threads than CPUs (see GOMP_SPINCOUNT in its manual). While the processor is busy, a
    thread of this object has a few OpenMP threads that do nothing but exist, and exceed that number.

    The processor is busy if threads that are ready to run wait for a core (/proc/self/task/*/schedstat, Linux).
    Elsewhere, with another OpenMP, with a single thread, and if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, this does
    nothing. The results of torch do not depend on it.

    Args:
        on_busy: called with a sentence when the processor is first found busy.

    Example:
        with SpinControl().watching():
            train()
    """

    def __init__(self, on_busy: Callable[[str], None] | None = None) -> None:
        self._on_busy = on_busy
        self._lock = threading.Lock()
        self._watchers = 0
        self._stopped = threading.Event()
        self._last: dict[str, tuple[int, int]] = {}
        self._ran = self._waited = 0.0
        self._calm = 0
        self._extra = _ExtraThreads() if _applies() else None
        if self._extra:
            weakref.finalize(self, self._extra.stop)

    @property
    def sleeping(self) -> bool:
        """True while threads sleep instead of spinning."""
        return self._extra is not None and self._extra.started

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the processor from a thread for the time of the block; blocks of several threads may overlap."""
        if self._extra is None:
            yield
            return
        with self._lock:
            self._watchers += 1
            if self._watchers == 1:
                self._last = _schedule()
                self._stopped = threading.Event()
                threading.Thread(target=self._watch, args=(self._stopped,), name="spin control", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._watchers -= 1
                if self._watchers == 0:
                    # The thread is not waited for. What short blocks measure is kept for the next.
                    self._stopped.set()
                    self._sample()

    def _watch(self, stopped: threading.Event) -> None:
        while not stopped.wait(_INTERVAL):
            with self._lock:
                if not stopped.is_set():
                    self._sample()

    def _sample(self) -> None:
        now = _schedule()
        for thread, (ran, waited) in now.items():
            ran_before, waited_before = self._last.get(thread, (0, 0))
            self._ran += (ran - ran_before) / 1e9
            self._waited += (waited - waited_before) / 1e9
        self._last = now
        if self._ran + self._waited >= _WINDOW:
            self._judge(self._waited / (self._ran + self._waited) * _torch_threads())
            self._ran = self._waited = 0.0

    def _judge(self, waiting: float) -> None:
        """Choose how to wait from the mean number of threads that wait for a core."""
        assert self._extra is not None
        self._calm = self._calm + 1 if waiting < _QUIET else 0
        if waiting > _BUSY and not self._extra.started:
            self._extra.start()
            if self._on_busy:
                self._on_busy(BUSY_MESSAGE)
                self._on_busy = None
        elif self._calm >= _CALM_WINDOWS and self._extra.started:
            self._extra.stop()


class _ExtraThreads:
    """OpenMP threads that sleep: with them, there are more than CPUs, and all wait without spinning."""

    def __init__(self) -> None:
        self._ended: threading.Event | None = None

    @property
    def started(self) -> bool:
        return self._ended is not None

    def start(self) -> None:
        self._ended, ready = threading.Event(), threading.Event()
        arguments = (ready, self._ended, _torch_threads())
        threading.Thread(target=_hold_team, args=arguments, name="extra OpenMP threads", daemon=True).start()
        ready.wait()

    def stop(self) -> None:
        if self._ended:
            self._ended.set()
            self._ended = None


def _hold_team(ready: threading.Event, ended: threading.Event, threads: int) -> None:
    """Make a team of OpenMP threads; it ends with the thread that calls this."""
    openmp = _openmp()
    assert openmp is not None
    # The thread that makes the team is one of its members, but not an additional one.
    members = max(2, openmp.omp_get_num_procs() - threads + 2)
    # A region needs a function: free(NULL) does nothing.
    openmp.GOMP_parallel(ctypes.CDLL(None).free, None, members, 0)
    ready.set()
    ended.wait()


def _applies() -> bool:
    return (
        not any(name in os.environ for name in WAITING_VARIABLES)
        and Path("/proc/self/schedstat").exists()
        and _openmp() is not None
        and 1 < _torch_threads() <= _affinity()
    )


def _openmp() -> ctypes.CDLL | None:
    """Return the libgomp that torch uses, or None; other packages may have loaded copies of their own."""
    import torch

    try:
        # Its functions are found among those of the libraries that it needs.
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib/libtorch_cpu.so"))
    except OSError:
        return None
    return library if hasattr(library, "GOMP_parallel") and hasattr(library, "omp_get_num_procs") else None


def _torch_threads() -> int:
    import torch

    return torch.get_num_threads()


def _schedule() -> dict[str, tuple[int, int]]:
    """Return the nanoseconds that each thread of this process has run, and has waited for a core."""
    times = {}
    for thread in Path("/proc/self/task").iterdir():
        try:
            ran, waited, _ = (thread / "schedstat").read_text(encoding="ascii").split()
        except OSError:
            continue  # it has ended
        times[thread.name] = int(ran), int(waited)
    return times


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quota_of(folder: Path, version: int) -> float | None:
    """Return the limit of one control group in CPUs, or None."""
    try:
        if version == 2:
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (folder / name).read_text(encoding="ascii") for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            )
        limit = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None  # no such controller, or "max"
    return limit if limit > 0 else None
