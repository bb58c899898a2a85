"""Measure the throughput of `dragoman serve` and of its peer with wrk, a load generator of Debian's packages.

    python benchmarks/serving_wrk.py MODEL TEST.tsv... --peer float32 2 1 32 --repeats 3

64 connections each send the next text when the one before is answered, for a number of seconds. The texts, the
servers and the peer's settings are those of `benchmarks/serving.py throughput`, which prints the best setting of the
peer. Unlike that benchmark, wrk keeps no rate of its own and does not compare answers with texts; it counts answers
with another status than 200.

The last line is JSON, which begins with the ratio.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import ctranslate2
from exporting import to_ctranslate2
from rich.console import Console
from rich.table import Table
from serving import PORT, PRECISIONS, Start, languages_of, ours, peer, spread, test_lines
from serving_load import mixed_texts, processor

from dragoman import __version__

CONNECTIONS = 64
# Sends the bodies of a file, a line each, in turns.
SCRIPT = """
local bodies, sent = {}, 0
for line in io.lines("BODIES") do table.insert(bodies, line) end
local headers = {["Content-Type"] = "application/json"}
request = function()
    sent = sent % #bodies + 1
    return wrk.format("POST", "/translate", headers, bodies[sent])
end
"""


def write_script(texts: Sequence[str], languages: tuple[str, str], scratch: Path) -> Path:
    """Write wrk's script and the bodies of the requests; return the path of the script."""
    bodies, script = scratch / "bodies", scratch / "script.lua"
    fields = {"source": languages[0], "target": languages[1], "format": "text"}
    bodies.write_text("".join(json.dumps({"q": text, **fields}) + "\n" for text in texts))
    script.write_text(SCRIPT.replace("BODIES", str(bodies)))
    return script


def rate_of(start: Start, script: Path, seconds: int) -> float:
    """Return the answers a second of a server, after checking that all have status 200."""
    url = f"http://127.0.0.1:{PORT}"
    with start():
        for duration in (3, seconds):
            command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{duration}s", "--timeout", "60s", "-s", str(script), url]
            report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            assert "Non-2xx" not in report, report
            assert "Socket errors" not in report, report
    found = re.search(r"Requests/sec:\s+([\d.]+)", report)
    assert found, report
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", nargs="+")
    parser.add_argument("--peer", nargs=4, required=True, metavar=("PRECISION", "TRANSLATORS", "THREADS", "BATCH"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=30)
    arguments = parser.parse_args()
    precision, (translators, threads, batch) = arguments.peer[0], map(int, arguments.peer[1:])
    if precision not in PRECISIONS:
        parser.error(f"the precision is one of {', '.join(PRECISIONS)}")
    print(
        f"{processor()}; wrk (64 connections), Dragoman {__version__}, CTranslate2 {ctranslate2.__version__}, "
        f"Python {sys.version.split()[0]}"
    )
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        exported = scratch / "exported"
        to_ctranslate2(arguments.model, exported, precision)
        texts = mixed_texts(test_lines(arguments.test), arguments.texts)
        script = write_script(texts, languages_of(arguments.model), scratch)
        servers: dict[str, Start] = {
            "Dragoman": partial(ours, arguments.model, scratch / "data"),
            "CTranslate2": partial(peer, arguments.model, exported, (translators, threads, batch)),
        }
        rates: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(arguments.repeats):
            for name, start in servers.items():
                rates[name].append(rate_of(start, script, arguments.seconds))
    table = Table(title=f"{arguments.model}: texts/s, median of {arguments.repeats} rounds (lowest to highest)")
    for name in servers:
        table.add_column(name, justify="right")
    table.add_row(*(spread(values, 1) for values in rates.values()))
    Console(width=120).print(table)
    ratios = [a / b for a, b in zip(rates["Dragoman"], rates["CTranslate2"], strict=True)]
    print(json.dumps({"throughput_ratio": round(statistics.median(ratios), 2), "peer": arguments.peer}))


if __name__ == "__main__":
    main()
