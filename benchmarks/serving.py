"""Measure `dragoman serve` beside an equally plain server on CTranslate2 with the same weights.

    python benchmarks/serving.py throughput MODEL TEST.tsv... --repeats 3
    python benchmarks/serving.py typist MODEL TEST.tsv... --repeats 3

`throughput`: texts of mixed length (a few words, lines, paragraphs) are sent by 1, 8 and 64 clients at random times
that do not depend on the answers (Poisson), at 6 % and 50 % of the capacity of CTranslate2's server and at 3 times that
capacity; its capacity is the highest of several settings (translators, threads, batch size, precision), and that
setting is the peer. The servers run one after the other, in turns. The throughput at 64 clients is the number of source
characters divided by the time until the last answer. Latencies count from the time at which a text was due. The offline
rate is that of the engine on the same sentences in one process. The clients use the same cores as the servers.

`typist`: one client types a text word by word, and sends the text so far every 150 ms, while three others send 5,000
lines each in requests of 100 lines; alone, with one request of each of them at a time, and with four.

The last line is JSON, which begins with the ratio.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from exporting import to_ctranslate2
from rich.console import Console
from rich.table import Table
from serving_load import Answer, Clients, Load, mixed_texts, processor, server

from dragoman import Translator, __version__
from dragoman.data.readers import parse_corpus, read_corpora
from dragoman.models.description import load_description
from dragoman.search.config import SearchConfig
from dragoman.serving.texts.pieces import split_plain_text

PORT = 5600
# Clients, and texts a second as a multiple of the peer's capacity.
LOADS = {1: 0.06, 8: 0.5, 64: 3.0}
BEAM = 5
# Settings of the peer: translators, threads of each, sentences of a batch.
SETTINGS = ((2, 1, 8), (2, 1, 16), (2, 1, 32), (1, 2, 16), (1, 2, 32))
PRECISIONS = ("int8", "float32")
TYPING_SECONDS = 0.15
BULK_CLIENTS, BULK_LINES, BULK_TEXTS = 3, 5000, 100
Start = Callable[[], AbstractContextManager[Any]]
# Limits that a benchmark exceeds and that have nothing to do with what it measures.
NO_LIMITS = (
    *("--requests", "100000", "--queue", "100000", "--request-seconds", "600", "--characters", "10000000"),
    *("--requests-per-minute", "10000000", "--characters-per-minute", "100000000000"),
)


def ours(model: Path, data: Path) -> AbstractContextManager[Any]:
    options = ["--port", str(PORT), "--data", str(data), *NO_LIMITS]
    return server([sys.executable, "-m", "dragoman", "serve", str(model), *options], PORT)


def peer(model: Path, exported: Path, setting: tuple[int, int, int]) -> AbstractContextManager[Any]:
    translators, threads, batch = map(str, setting)
    script = Path(__file__).with_name("serving_peer.py")
    options = ["--translators", translators, "--threads", threads, "--batch", batch, "--port", str(PORT)]
    return server([sys.executable, str(script), str(model), str(exported), *options], PORT)


def test_lines(corpora: Sequence[str]) -> list[str]:
    """Return the distinct source lines of corpora."""
    return list(dict.fromkeys(pair.source for pair in read_corpora([parse_corpus(corpus) for corpus in corpora])))


def languages_of(model: Path) -> tuple[str, str]:
    description = load_description(model)
    assert description.source_language is not None
    assert description.target_language is not None
    return description.source_language, description.target_language


def checked(answers: Sequence[Answer], count: int) -> Sequence[Answer]:
    """Return the answers, after checking that there is one for every text."""
    assert len(answers) == count, (len(answers), count)
    failed = [answer.status for answer in answers if answer.status != 200]
    assert not failed, f"{len(failed)} of {count} requests failed: {failed[:10]}"
    return answers


def capacity(start: Start, texts: Sequence[str], clients: Clients) -> float:
    """Return the texts a second of a server that always has 64 of them."""
    with start():
        checked(Load(clients.chain, texts[:64], 64).answers(), 64)
        answers = checked(Load(clients.chain, texts, 64).answers(), len(texts))
    return len(texts) / max(answer.ended for answer in answers)


def offline_rate(model: Path, texts: Sequence[str]) -> float:
    """Return the texts a second of the engine, given all sentences at once."""
    translator, language = Translator.load(model, device="cpu"), languages_of(model)[0]
    sentences = [
        piece.source for text in texts for piece in split_plain_text(text, language, split_sentences=True).pieces
    ]
    search = SearchConfig(beam=BEAM)
    translator.translate(sentences[:100], search=search)
    started = time.perf_counter()
    translator.translate(sentences, search=search)
    return len(texts) / (time.perf_counter() - started)


def spread(values: Sequence[float], digits: int = 0) -> str:
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def throughput(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    lines, clients = test_lines(arguments.test), Clients(PORT, languages_of(arguments.model))
    exported = {precision: scratch / precision for precision in PRECISIONS}
    for precision, out in exported.items():
        to_ctranslate2(arguments.model, out, precision)
    texts = mixed_texts(lines, arguments.texts)
    trial = texts[: arguments.texts // 2]
    capacities = {
        (precision, setting): capacity(partial(peer, arguments.model, exported[precision], setting), trial, clients)
        for precision in PRECISIONS
        for setting in SETTINGS
    }
    best, highest = max(capacities.items(), key=lambda item: item[1])
    for (precision, setting), rate in capacities.items():
        print(f"CTranslate2 {precision}, translators, threads and batch {setting}: {rate:.1f} texts a second")
    servers: dict[str, Start] = {
        "Dragoman": lambda: ours(arguments.model, scratch / "data"),
        "CTranslate2": lambda: peer(arguments.model, exported[best[0]], best[1]),
    }
    rates: dict[str, list[float]] = {name: [] for name in (*servers, "offline")}
    latencies: dict[tuple[str, int, float], list[float]] = {}
    for repeat in range(arguments.repeats):
        for name, start in servers.items():
            with start():
                checked(Load(clients.chain, texts[:64], 64).answers(), 64)
                for count, share in LOADS.items():
                    part = texts if count == 64 else texts[: max(60, int(arguments.seconds * share * highest))]
                    load = Load(clients.poisson, part, share * highest, count, repeat)
                    answers = checked(load.answers(), len(part))
                    seconds = [answer.ended - answer.begun for answer in answers]
                    for quantile in (0.5, 0.99):
                        value = float(np.quantile(seconds, quantile))
                        latencies.setdefault((name, count, quantile), []).append(value)
                    if count == 64:
                        rates[name].append(len(part) / max(answer.ended for answer in answers))
        rates["offline"].append(offline_rate(arguments.model, texts))
        print(f"round {repeat + 1} of {arguments.repeats}", file=sys.stderr)
    table = Table(title=f"{arguments.model}: median of {arguments.repeats} rounds (lowest to highest)")
    for title in ("", *servers):
        table.add_column(title, justify="right" if title else "left")
    for count, share in LOADS.items():
        for quantile in (0.5, 0.99):
            row = [spread([1000 * value for value in latencies[name, count, quantile]]) for name in servers]
            table.add_row(f"{count} clients, {share * highest:.1f} texts/s: p{quantile * 100:.0f} in ms", *row)
    table.add_row("64 clients: texts/s", *(spread(rates[name], 1) for name in servers))
    Console(width=120).print(table)
    print(f"offline: {spread(rates['offline'], 1)} texts/s, {statistics.mean(map(len, texts)):.0f} characters a text")

    def ratio(first: Sequence[float], second: Sequence[float]) -> float:
        return round(statistics.median([a / b for a, b in zip(first, second, strict=True)]), 2)

    return {
        "throughput_ratio": ratio(rates["Dragoman"], rates["CTranslate2"]),
        "p99_ratio_at_8": ratio(latencies["Dragoman", 8, 0.99], latencies["CTranslate2", 8, 0.99]),
        "share_of_offline": ratio(rates["Dragoman"], rates["offline"]),
        "peer": [best[0], *best[1]],
    }


def typist(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    lines, clients = test_lines(arguments.test), Clients(PORT, languages_of(arguments.model))
    typed = [line for line in lines if 8 <= len(line.split()) <= 20][: arguments.sentences]
    bulk = [
        (lines * (BULK_LINES // len(lines) + 1))[begin : begin + BULK_TEXTS]
        for begin in range(0, BULK_LINES, BULK_TEXTS)
    ]
    in_flight = {"alone": 0, "three others": 1, "three others, 4 requests each": 4}
    latencies: dict[tuple[str, float], list[float]] = {}
    rates: dict[str, list[float]] = {}
    for _ in range(arguments.repeats):
        with ours(arguments.model, scratch / "data"):
            for name, number in in_flight.items():
                loads = [Load(clients.chain, bulk, number) for _ in range(BULK_CLIENTS if number else 0)]
                # Until all of them have requests in progress.
                time.sleep(5 if number else 0)
                answers = Load(clients.type_texts, typed, TYPING_SECONDS).answers()
                checked(answers, len(answers))
                for load in loads:
                    load.stop()
                time.sleep(1)
                seconds = [answer.ended - answer.begun for answer in answers]
                for quantile in (0.5, 0.99):
                    latencies.setdefault((name, quantile), []).append(float(np.quantile(seconds, quantile)))
                rates.setdefault(name, []).append(len(answers))
    table = Table(
        title=f"{arguments.model}: a typist's latency in ms, median of {arguments.repeats} (lowest to highest)"
    )
    for title in ("others", "p50", "p99", "texts"):
        table.add_column(title)
    for name in in_flight:
        row = [spread([1000 * value for value in latencies[name, quantile]]) for quantile in (0.5, 0.99)]
        table.add_row(name, *row, f"{rates[name][0]:,}")
    Console(width=120).print(table)
    return {"p99_ms": {name: round(1000 * statistics.median(latencies[name, 0.99])) for name in in_flight}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=("throughput", "typist"))
    parser.add_argument("model", type=Path)
    parser.add_argument("test", nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of a load below the capacity")
    parser.add_argument("--sentences", type=int, default=15, help="sentences that are typed")
    arguments = parser.parse_args()
    print(
        f"{processor()}; Dragoman {__version__}, CTranslate2 {ctranslate2.__version__}, torch {torch.__version__}, "
        f"Python {sys.version.split()[0]}"
    )
    with tempfile.TemporaryDirectory() as directory:
        job = throughput if arguments.job == "throughput" else typist
        print(json.dumps(job(arguments, Path(directory))))


if __name__ == "__main__":
    main()
