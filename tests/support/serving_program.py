"""`dragoman serve` as a program, with what the system knows of its processes."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.processes import dragoman_process
from tests.support.serving_app import printed_address, request

Address = tuple[str, int]


@contextmanager
def served(*arguments: str | Path) -> Iterator[tuple["subprocess.Popen[str]", Address]]:
    """Run the verb; yield the process and the address of the server when it is ready."""
    command = dragoman_process("serve", "--port", "0", *arguments)
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield process, printed_address(process)
        finally:
            process.kill()


def translated(address: Address, text: str) -> tuple[int, str]:
    """Return the status, and the translation of an English text or the body of the error."""
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    status, _, answer = request(address, "POST", "/translate", body, {"Content-Type": "application/json"})
    return status, json.loads(answer)["translatedText"] if status == 200 else answer.decode()


def metric(address: Address, name: str) -> float:
    """Return the value of a metric without labels."""
    for line in request(address, "GET", "/metrics")[2].decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise AssertionError(f"the server has no metric {name}")


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that run."""
    return [int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()]


def workers_of(process: "subprocess.Popen[Any]") -> list[int]:
    """Return the workers of a server: the children of its only child."""
    [nursery] = children_of(process.pid)
    return children_of(nursery)


def memory_of(process: "subprocess.Popen[Any]") -> int:
    """Return the bytes of memory of a server and all its processes; what they share counts once."""
    [nursery] = children_of(process.pid)
    return sum(_status(pid, "smaps_rollup", "Pss") for pid in (process.pid, nursery, *children_of(nursery)))


def peak_memory_of(pid: int) -> int:
    """Return the largest number of bytes that a process has held in memory."""
    return _status(pid, "status", "VmHWM")


def _status(pid: int, file: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))
