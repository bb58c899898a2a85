"""Measure what `dragoman serve` does under a flood of requests, over a long time, and while its processes are killed.

    python benchmarks/serving_faults.py flood MODEL TEST.tsv...
    python benchmarks/serving_faults.py drift MODEL TEST.tsv... --requests 100000
    python benchmarks/serving_faults.py kills MODEL TEST.tsv... --kills 20

`flood`: 64 clients send 1,000 requests each, one after the other, to a server that answers 16 at the same time, lets 32
wait, and accepts 6,000 in a minute from an address, which all of the clients have. A request is as it must be if it is
answered with 429, 503, or 200 and the translation that its text has when nothing else is sent. "Refused in" is the time
until an answer with 503. The texts are distinct beginnings of lines, of one to six words.

`drift`: the memory of all processes of a server, where what they share counts once (PSS), after a warm-up and after
each tenth of the requests. The server stores the requests of the last minute (for its limits), so the warm-up has as
many requests as two tenths. The texts are beginnings of lines, of one to three words.

`kills`: 16 clients send texts of mixed length, and the worker that has run longest is killed with SIGKILL. Each text is
a single line, which one worker translates. The clients cannot see which worker holds a request; one that was sent later
than the server needs to notice the end of the worker, at most 0.1 s, must not fail. "Ready after" is the time from the
signal until the worker has been replaced and /ready has answered 200. Each worker runs for more than 10 s before it is
killed: the replacement of workers that end earlier is delayed on purpose.

The last line is JSON, which begins with the share of requests that were answered as they must be, the growth of the
memory, or the longest time until the server was ready.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

# What the system knows of the processes of a server is read by code that the tests share.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from rich.console import Console
from rich.table import Table
from serving import checked, languages_of, test_lines
from serving_load import Answer, Clients, Load, mixed_texts, processor

from dragoman import __version__
from tests.support.serving_app import request
from tests.support.serving_program import Address, memory_of, metric, served, workers_of

# Limits of what an address may send, which are not measured.
UNLIMITED = ("--requests-per-minute", "10000000", "--characters-per-minute", "100000000000")
FLOOD_CLIENTS, FLOOD_LIMITS = 64, ("--requests", "16", "--queue", "32", "--requests-per-minute", "6000")
CLIENTS = 16
# Seconds for which a worker runs before it is killed; those after which the load of a kill has begun.
STEADY_SECONDS, BEGUN_SECONDS = 12.0, 1.5
# Seconds in which the server has noticed that a worker has ended, and in which it must be ready again at all.
NOTICED_SECONDS, LONGEST_SECONDS = 0.1, 60.0
MIB = 1 << 20


def beginnings(lines: Sequence[str], words: int) -> list[str]:
    """Return the first words of each line, from one to `words` in turns."""
    return [" ".join(line.split()[: 1 + number % words]) for number, line in enumerate(lines)]


def translations(clients: Clients, texts: Sequence[str]) -> list[str]:
    """Return the translation of each text, sent one after the other."""
    answers = checked(Load(clients.chain, texts, 1).answers(), len(texts))
    return [answer.translation for answer in sorted(answers, key=lambda answer: answer.text)]


async def crowd(clients: Clients, texts: Sequence[str], count: int, requests: int) -> list[Answer]:
    """Send requests of several clients, each one after the other, beginning with different texts."""

    async def client(first: int) -> list[Answer]:
        numbers = [(first + step) % len(texts) for step in range(requests)]
        answers = await clients.chain([texts[number] for number in numbers], 1)
        return [replace(answer, text=numbers[answer.text]) for answer in answers]

    answers = await asyncio.gather(*(client(number * len(texts) // count) for number in range(count)))
    return [answer for part in answers for answer in part]


def flood(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    texts = list(dict.fromkeys(beginnings(test_lines(arguments.test), 6)))[: arguments.texts]
    languages = languages_of(arguments.model)
    with served(arguments.model, "--data", scratch, *UNLIMITED) as (_, address):
        expected = translations(Clients(address[1], languages), texts)
    with served(arguments.model, "--data", scratch, *FLOOD_LIMITS, *UNLIMITED[2:]) as (_, address):
        clients = Clients(address[1], languages)
        started = time.monotonic()
        answers = Load(crowd, clients, texts, FLOOD_CLIENTS, arguments.requests).answers()
        seconds = time.monotonic() - started
        ready = request(address, "GET", "/ready")[0] == 200
        left = metric(address, "dragoman_requests_in_progress") + metric(address, "dragoman_requests_queued")
    sent = FLOOD_CLIENTS * arguments.requests
    statuses = Counter(answer.status for answer in answers)
    crossed = sum(answer.status == 200 and answer.translation != expected[answer.text] for answer in answers)
    refused = [1000 * (answer.ended - answer.begun) for answer in answers if answer.status == 503]
    good = statuses[200] + statuses[429] + statuses[503] - crossed
    print(f"{sent:,} requests of {FLOOD_CLIENTS} clients, {len(texts)} texts, {seconds:.0f} s\n")
    print("| status | requests |\n|---|--:|")
    for status, number in sorted(statuses.items()):
        print(f"| {status or 'no answer'} | {number:,} |")
    print(f"| lost | {sent - len(answers):,} |\n| another translation than that of its text | {crossed:,} |\n")
    if refused:
        print(f"refused in {np.median(refused):.1f} ms (median), {np.quantile(refused, 0.99):.1f} ms (p99)")
    print(f"afterwards: {'ready' if ready else 'not ready'}, {left:.0f} requests in progress or queued")
    return {
        "share_as_they_must_be": good / sent,
        "statuses": dict(statuses),
        "crossed": crossed,
        "lost": sent - len(answers),
        "ready_afterwards": ready,
    }


def drift(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    texts = beginnings(test_lines(arguments.test), 3)
    tenth = arguments.requests // 10
    part = [texts[number % len(texts)] for number in range(tenth)]
    table = Table(title="memory of all processes")
    for title in ("requests", "MiB", "growth", "requests/s"):
        table.add_column(title, justify="right")
    sizes: list[int] = []
    workers = ("--workers", str(arguments.workers))
    with served(arguments.model, "--data", scratch, *workers, *UNLIMITED) as (process, address):
        clients = Clients(address[1], languages_of(arguments.model))
        checked(Load(clients.chain, part * 2, CLIENTS).answers(), 2 * tenth)
        sizes.append(memory_of(process))
        table.add_row("0", f"{sizes[0] / MIB:.1f}", "", "")
        for number in range(10):
            started = time.monotonic()
            checked(Load(clients.chain, part, CLIENTS).answers(), tenth)
            rate = tenth / (time.monotonic() - started)
            sizes.append(memory_of(process))
            growth = f"{sizes[-1] / sizes[0] - 1:.1%}"
            table.add_row(f"{(number + 1) * tenth:,}", f"{sizes[-1] / MIB:.1f}", growth, f"{rate:.0f}")
    Console(width=120).print(table)
    return {
        "growth": round(sizes[-1] / sizes[0] - 1, 4),
        "requests": 10 * tenth,
        "workers": arguments.workers,
        "mib": [round(size / MIB, 1) for size in sizes],
    }


async def crew(clients: Clients, texts: Sequence[str]) -> list[Answer]:
    """Send texts in turn, from several clients; return answers with times of the system's clock."""
    start = time.monotonic()
    answers = await clients.chain(texts, CLIENTS)
    return [replace(answer, begun=start + answer.begun, ended=start + answer.ended) for answer in answers]


def seconds_until_ready(address: Address, killed: float, restarts: int) -> float:
    """Return the time from a kill until the worker has been replaced and /ready has answered 200."""
    while time.monotonic() < killed + LONGEST_SECONDS:
        if metric(address, "dragoman_worker_restarts") == restarts and request(address, "GET", "/ready")[0] == 200:
            return time.monotonic() - killed
        time.sleep(0.01)
    raise AssertionError(f"the server is not ready {LONGEST_SECONDS:.0f} s after a worker was killed")


def kills(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    texts = mixed_texts(test_lines(arguments.test), arguments.texts)
    interval = STEADY_SECONDS / arguments.workers
    waits: list[float] = []
    in_flight: list[int] = []
    failed: list[int] = []
    outcomes: Counter[str] = Counter()
    workers = ("--workers", str(arguments.workers))
    with served(arguments.model, "--data", scratch, *workers, *UNLIMITED) as (process, address):
        clients = Clients(address[1], languages_of(arguments.model))
        expected = translations(clients, texts)
        started = time.monotonic()
        checked(Load(clients.chain, texts, CLIENTS).answers(), len(texts))
        # As many as last until shortly before the next kill.
        count = int(0.9 * interval * len(texts) / (time.monotonic() - started))
        part = [texts[number % len(texts)] for number in range(count)]
        for number in range(arguments.kills):
            begun = time.monotonic()
            load = Load(crew, clients, part)
            time.sleep(BEGUN_SECONDS)
            # The first in the list has run longest.
            os.kill(workers_of(process)[0], signal.SIGKILL)
            killed = time.monotonic()
            waits.append(seconds_until_ready(address, killed, number + 1))
            answers = load.answers()
            assert len(answers) == count, f"{count - len(answers)} requests are lost"
            in_flight.append(sum(answer.begun <= killed < answer.ended for answer in answers))
            failed.append(sum(answer.status == 503 for answer in answers))
            outcomes += Counter(outcome_of(answer, expected[answer.text % len(texts)], killed) for answer in answers)
            time.sleep(max(0.0, begun + interval - time.monotonic()))
    print(f"{arguments.kills} kills, {arguments.workers} workers, {CLIENTS} clients\n")
    print("| outcome | requests |\n|---|--:|")
    for outcome, total in outcomes.most_common():
        print(f"| {outcome} | {total:,} |")
    print("\n| of each kill | median | lowest | highest |\n|---|--:|--:|--:|")
    rows: dict[str, tuple[Sequence[float], str]] = {
        "in flight when it was killed": (in_flight, ".0f"),
        "failed": (failed, ".0f"),
        "ready after, s": (waits, ".2f"),
    }
    for name, (values, digits) in rows.items():
        numbers = (statistics.median(values), min(values), max(values))
        print(f"| {name} | " + " | ".join(format(value, digits) for value in numbers) + " |")
    return {
        "longest_seconds_until_ready": round(max(waits), 2),
        "median_seconds_until_ready": round(statistics.median(waits), 2),
        "kills": arguments.kills,
        "workers": arguments.workers,
        "outcomes": dict(outcomes),
    }


def outcome_of(answer: Answer, expected: str, killed: float) -> str:
    match answer.status:
        case 200:
            return "translated" if answer.translation == expected else "another translation than that of its text"
        case 503:
            if answer.begun <= killed:
                return "failed with 503, sent before the kill"
            late = "more" if answer.begun > killed + NOTICED_SECONDS else "less"
            return f"failed with 503, sent {late} than {NOTICED_SECONDS} s after it"
        case 0:
            return "no answer"
        case status:
            return f"failed with {status}"


JOBS: dict[str, Callable[[argparse.Namespace, Path], dict[str, Any]]] = {"flood": flood, "drift": drift, "kills": kills}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", nargs="+")
    parser.add_argument("--requests", type=int, help="of each client (flood, 1,000), of all (drift, 100,000)")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2, help="of drift and kills")
    parser.add_argument("--texts", type=int, default=400, help="different texts of flood and kills")
    arguments = parser.parse_args()
    if arguments.requests is None:
        arguments.requests = 1000 if arguments.job == "flood" else 100_000
    print(f"{processor()}; Dragoman {__version__}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(JOBS[arguments.job](arguments, Path(directory))))


if __name__ == "__main__":
    main()
