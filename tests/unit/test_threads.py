"""How many threads compute, and how they wait while other processes use the processor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dragoman import threads
from dragoman.threads import BUSY_MESSAGE, SpinControl, available_cpus, cpu_quota

LINUX = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's /proc/self/schedstat")
GNU_OPENMP = pytest.mark.skipif(threads._openmp() is None, reason="torch was built with another OpenMP than libgomp")


def run_python(code: str, **environment: str | None) -> str:
    """Run a program with these variables set, or removed where they are None; return what it prints."""
    own = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    done = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"pod/cpu.max": "50000 100000"}, 0.5),
        ({"pod/box/cpu.max": "max 100000", "pod/cpu.max": "300000 100000", "cpu.max": "400000 100000"}, 3.0),
        ({"pod/box/cpu.max": "nonsense"}, None),
        ({"pod/box/cpu.max": "1 0"}, None),
    ],
)
def test_the_quota_of_control_groups(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/pod/box\n")
    for name, text in files.items():
        write(tmp_path / "cgroup" / name, text)
    assert cpu_quota(tmp_path / "proc", tmp_path / "cgroup") == quota


@pytest.mark.parametrize(("limit", "quota"), [("200000", 2.0), ("-1", None)])
def test_the_quota_of_control_groups_of_version_1(tmp_path: Path, limit: str, quota: float | None) -> None:
    write(tmp_path / "proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n")
    write(tmp_path / "cgroup/cpu/box/cpu.cfs_quota_us", limit)
    write(tmp_path / "cgroup/cpu/box/cpu.cfs_period_us", "100000")
    assert cpu_quota(tmp_path / "proc", tmp_path / "cgroup") == quota


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path, tmp_path) is None


@pytest.mark.parametrize(("quota", "cpus"), [(None, 4), (8.0, 4), (1.5, 2), (0.1, 1)])
def test_available_cpus_respect_the_quota(monkeypatch: pytest.MonkeyPatch, quota: float | None, cpus: int) -> None:
    monkeypatch.setattr(threads, "_affinity", lambda: 4)
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    assert available_cpus() == cpus


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs sched_setaffinity")
def test_threads_respect_the_affinity() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import torch; from dragoman.threads import available_cpus\n"
        "print(available_cpus(), torch.get_num_threads())"
    )
    assert run_python(code, OMP_NUM_THREADS=None) == "1 1"


@pytest.mark.parametrize(("user", "used"), [(None, "1"), ("2", "2")])
def test_the_command_limits_openmp_before_torch_is_loaded(user: str | None, used: str) -> None:
    """To a control group's limit, which OpenMP does not read; a user's value wins."""
    code = (
        "import sys; from dragoman import threads; from dragoman.__main__ import main\n"
        "threads._affinity, threads.cpu_quota = lambda: 8, lambda: 1.0\n"
        "sys.argv = ['dragoman', '--version']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import os, torch; print(os.environ['OMP_NUM_THREADS'], torch.get_num_threads())"
    )
    variable, number = run_python(code, OMP_NUM_THREADS=user).splitlines()[-1].split()
    assert variable == used
    # Torch may take fewer, where there are not as many cores.
    assert int(number) <= int(used)


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch seems to have two threads on two CPUs, and samples are taken at the end of each block only."""
    for name in threads.WAITING_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_affinity", lambda: 2)
    monkeypatch.setattr(threads, "_torch_threads", lambda: 2)
    monkeypatch.setattr(threads, "_INTERVAL", 1000.0)


@LINUX
@GNU_OPENMP
@pytest.mark.usefixtures("two_threads")
def test_threads_sleep_while_others_use_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = waited = 0
    monkeypatch.setattr(threads, "_schedule", lambda: {"1": (ran, waited)})
    messages: list[str] = []
    control = SpinControl(messages.append)

    def compute(more: float, waiting: float) -> bool:
        nonlocal ran, waited
        with control.watching():
            ran, waited = ran + int(more * 1e9), waited + int(waiting * 1e9)
        return control.sleeping

    assert not compute(2, 0.02)
    # Too little to judge, until there is more.
    assert not compute(0.2, 0.2)
    assert compute(0.2, 0.2)
    assert compute(1, 0.6)
    # Quiet, but not for long.
    assert compute(1, 0.01)
    assert compute(1, 0.01)
    assert compute(1, 0.6)
    assert [compute(1, 0.01) for _ in range(3)] == [True, True, False]
    assert compute(1, 1)
    assert messages == [BUSY_MESSAGE]


@LINUX
@GNU_OPENMP
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", threads.WAITING_VARIABLES)
def test_a_waiting_policy_of_the_user_wins(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(threads, "_schedule", lambda: {"1": (0, 0)} if not seen else {"1": (10**9, 10**10)})
    seen: list[int] = []
    monkeypatch.setenv(name, "PASSIVE" if name == "OMP_WAIT_POLICY" else "1000")
    control = SpinControl()
    with control.watching():
        seen.append(1)
    assert not control.sleeping


def test_with_one_thread_there_is_nothing_to_control() -> None:
    assert torch.get_num_threads() == 1
    with (control := SpinControl()).watching():
        pass
    assert not control.sleeping


SLEEPS = """
import os, time, torch
from pathlib import Path
from dragoman import threads

x = torch.arange(100_000, dtype=torch.float32)
first = (x.sin() @ x.cos()).item()

def voluntary_switches():
    others = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    statuses = [(task / "status").read_text() for task in others]
    return sum(int(status.split("\\nvoluntary_ctxt_switches:")[1].split()[0]) for status in statuses)

extra = threads._ExtraThreads()
count = len(os.listdir("/proc/self/task"))
extra.start()
time.sleep(0.2)
before = voluntary_switches()
for _ in range(200):
    x.sin()
    time.sleep(0.001)
slept = voluntary_switches() - before
same = (x.sin() @ x.cos()).item() == first
more = len(os.listdir("/proc/self/task")) - count
extra.stop()
for _ in range(500):
    if len(os.listdir("/proc/self/task")) == count: break
    time.sleep(0.01)
print(slept >= 150, same, more >= 2, len(os.listdir("/proc/self/task")) == count)
"""


@LINUX
@GNU_OPENMP
def test_extra_threads_make_openmp_sleep() -> None:
    """A thread that spins for milliseconds would not sleep in a pause of one; the result stays the same."""
    assert run_python(SLEEPS, OMP_NUM_THREADS="2", OMP_WAIT_POLICY=None, GOMP_SPINCOUNT=None) == "True True True True"
