"""Load for benchmarks/serving.py: texts of mixed length, servers as processes, and clients in a process of their own.

Load generators that keep a fixed rate (vegeta, wrk2) do not compare each answer with what its text must give, so the
clients are written with aiohttp.
"""

import asyncio
import json
import multiprocessing
import os
import random
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

START_SECONDS, REQUEST_SECONDS = 60.0, 300.0
# Share of texts that are the beginning of a line, a few words; of single lines; the others are paragraphs of 2 to 6.
SHORT, LINES = 0.3, 0.5


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    Attributes:
        text: number of the text.
        status: HTTP status; 0 if the connection failed.
        begun: when it was due, in seconds after the start.
        ended: when the answer was complete.
        translation: the answer.
    """

    text: int
    status: int
    begun: float
    ended: float
    translation: str = ""


def mixed_texts(lines: Sequence[str], count: int, seed: int = 0) -> list[str]:
    """Return texts of the lengths that people send: a few words, sentences and paragraphs."""
    generator = random.Random(seed)
    texts = []
    for _ in range(count):
        kind = generator.random()
        if kind < SHORT:
            texts.append(" ".join(generator.choice(lines).split()[: generator.randint(1, 3)]))
        elif kind < SHORT + LINES:
            texts.append(generator.choice(lines))
        else:
            chosen = generator.sample(lines, generator.randint(2, 6))
            texts.append(" ".join(line if line[-1] in ".!?:" else f"{line}." for line in chosen))
    return texts


@contextmanager
def server(command: Sequence[str], port: int) -> Any:
    """Run a server until /ready answers; yield its process; end it at the end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                    break
            except OSError:
                assert process.poll() is None, f"the server ended with status {process.returncode}"
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(60)


class Clients:
    """Clients in a process of their own.

    Args:
        port: the port of the server.
        languages: source and target language.
    """

    def __init__(self, port: int, languages: tuple[str, str]) -> None:
        self._port, self._languages = port, languages

    async def _send(
        self, session: aiohttp.ClientSession, texts: Sequence[str] | str, number: int, begun: float, start: float
    ) -> Answer:
        body = {"q": texts, "source": self._languages[0], "target": self._languages[1], "format": "text"}
        try:
            async with session.post(f"http://127.0.0.1:{self._port}/translate", json=body) as response:
                answer = json.loads(await response.read())
                translation = answer.get("translatedText", "")
                return Answer(number, response.status, begun, time.monotonic() - start, json.dumps(translation))
        except (aiohttp.ClientError, TimeoutError):
            return Answer(number, 0, begun, time.monotonic() - start)

    async def poisson(self, texts: Sequence[str], rate: float, clients: int, seed: int) -> list[Answer]:
        """Send each text at a time of its own, whatever has been answered (open loop); `rate` texts in a second.

        Each client has its own connections and its own times; latencies count from the time at which a text was due.
        """
        start = time.monotonic()

        async def client(number: int) -> list[Answer]:
            generator = random.Random(seed * 1000 + number)
            due, tasks = 0.0, []
            async with _session() as session:
                for text in range(number, len(texts), clients):
                    due += generator.expovariate(rate / clients)
                    await asyncio.sleep(max(0.0, due - (time.monotonic() - start)))
                    tasks.append(asyncio.create_task(self._send(session, texts[text], text, due, start)))
                return list(await asyncio.gather(*tasks))

        answers = await asyncio.gather(*(client(number) for number in range(clients)))
        return [answer for part in answers for answer in part]

    async def chain(self, parts: Sequence[Sequence[str] | str], in_flight: int) -> list[Answer]:
        """Send requests of one client, each when one before it is answered, some at the same time (closed loop)."""
        start = time.monotonic()
        numbers = iter(range(len(parts)))
        async with _session() as session:

            async def send_all() -> list[Answer]:
                return [
                    await self._send(session, parts[number], number, time.monotonic() - start, start)
                    for number in numbers
                ]

            answers = await asyncio.gather(*(send_all() for _ in range(in_flight)))
        return [answer for part in answers for answer in part]

    async def type_texts(self, texts: Sequence[str], interval: float) -> list[Answer]:
        """Send ever longer beginnings of texts, word by word, at regular times, as someone types."""
        start = time.monotonic()
        prefixes = [" ".join(words[:end]) for words in map(str.split, texts) for end in range(1, len(words) + 1)]
        tasks = []
        async with _session() as session:
            for number, prefix in enumerate(prefixes):
                due = number * interval
                await asyncio.sleep(max(0.0, due - (time.monotonic() - start)))
                tasks.append(asyncio.create_task(self._send(session, prefix, number, due, start)))
            return list(await asyncio.gather(*tasks))


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    )


def _run(connection: Connection, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    connection.send(asyncio.run(call(*arguments)))


class Load:
    """A call of `Clients` that runs in another process.

    Args:
        call: the method.
        arguments: its arguments.
    """

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        # A new interpreter would import torch with the main module, which takes seconds.
        context = multiprocessing.get_context("fork")
        self._connection, other = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(other, call, arguments), daemon=True)
        self._process.start()
        other.close()

    def answers(self) -> list[Answer]:
        """Wait for the end, and return the answers."""
        answers: list[Answer] = self._connection.recv()
        self._process.join()
        return answers

    def stop(self) -> None:
        """End the clients; their requests are given up."""
        self._process.kill()
        self._process.join()


def processor() -> str:
    """Return the name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()}, {len(os.sched_getaffinity(0))} cores"
    return "unknown processor"
