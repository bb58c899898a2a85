"""Measure the memory of `dragoman serve` with 1, 2 and 4 workers, before and after many requests.

    python benchmarks/serving_memory.py MODEL=en-de TEXTS --requests 10000

TEXTS is a file of sentences, one per line. The memory of a server is the proportional set size (PSS) of all its
processes: a page that n processes share counts 1/n in each. Of the workers, the pages that no other process has
("private") and those that others have too ("shared") are also printed: if requests copied the weights, pages would move
from the latter to the former. The last line is JSON and begins with the memory of 4 workers (of the most workers)
divided by that of 1 (of the fewest), after the requests.
"""

import argparse
import http.client
import json
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dragoman import __version__
from tests.support.serving_program import children_of, served

CLIENTS = 16
MIB = 1 << 20


@dataclass(frozen=True)
class Memory:
    """Memory in bytes.

    Attributes:
        total: of all processes.
        private: pages that no other process has, of the worker with the most of them.
        shared: pages that other processes have too, of the worker with the fewest of them.
    """

    total: int
    private: int
    shared: int


def smaps(pid: int) -> dict[str, int]:
    """Return the sums of /proc/PID/smaps_rollup in bytes, by name."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}


def memory(server: int) -> Memory:
    [nursery] = children_of(server)
    workers = children_of(nursery)
    sums = [smaps(pid) for pid in workers]
    others = [smaps(pid) for pid in (server, nursery)]
    return Memory(
        total=sum(values["Pss"] for values in others + sums),
        private=max(values["Private_Clean"] + values["Private_Dirty"] for values in sums),
        shared=min(values["Shared_Clean"] + values["Shared_Dirty"] for values in sums),
    )


@contextmanager
def server(model: str, workers: int) -> Iterator[tuple[int, str]]:
    """Run a server; yield its process id and its address."""
    limits = ("--requests-per-minute", "1000000000", "--characters-per-minute", "1000000000")
    with (
        tempfile.TemporaryDirectory() as data,
        served(model, "--workers", str(workers), "--data", data, *limits) as (process, (host, port)),
    ):
        yield process.pid, f"{host}:{port}"


def translate(address: str, texts: Sequence[str], languages: tuple[str, str]) -> None:
    """Translate each text by a request of its own, over one connection."""
    connection = http.client.HTTPConnection(address, timeout=60)
    for text in texts:
        body = json.dumps({"q": text, "source": languages[0], "target": languages[1]})
        connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL=SOURCE-TARGET")
    parser.add_argument("texts", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    directory, _, pair = arguments.model.rpartition("=")
    source, _, target = pair.partition("-")
    lines = arguments.texts.read_text(encoding="utf-8").splitlines()
    texts = [lines[number % len(lines)] for number in range(arguments.requests)]
    weights = (Path(directory) / "model.safetensors").stat().st_size
    print(f"dragoman {__version__}, Python {platform.python_version()}, {platform.machine()}")
    print(f"{arguments.requests:,} requests, {CLIENTS} clients; the file of the weights has {weights / MIB:.1f} MiB\n")
    print("Each cell: at the start, and after the requests.\n")
    print("| workers | memory | private in a worker | shared in a worker | requests/s |")
    print("|---|---|---|---|---|")
    found: dict[int, tuple[Memory, Memory]] = {}
    for workers in arguments.workers:
        with server(arguments.model, workers) as (process, address), ThreadPoolExecutor(CLIENTS) as threads:
            translate(address, texts[: 4 * workers], (source, target))
            start = memory(process)
            began = perf_counter()
            parts = [texts[client::CLIENTS] for client in range(CLIENTS)]
            list(threads.map(lambda part, to=address: translate(to, part, (source, target)), parts))
            rate = len(texts) / (perf_counter() - began)
            found[workers] = start, memory(process)
        start, end = found[workers]
        pairs = [(start.total, end.total), (start.private, end.private), (start.shared, end.shared)]
        cells = [f"{before / MIB:.1f}, {after / MIB:.1f} MiB" for before, after in pairs]
        print(f"| {workers} | {' | '.join(cells)} | {rate:.0f} |", flush=True)
    ratio = found[max(found)][1].total / found[min(found)][1].total
    rows = {str(workers): {"start": vars(start), "end": vars(end)} for workers, (start, end) in found.items()}
    print(json.dumps({"ratio": round(ratio, 3), "weights": weights, "workers": rows}))


if __name__ == "__main__":
    main()
