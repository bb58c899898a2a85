"""Measure how soon the page of `dragoman serve` shows the first words of a translation, in Chromium.

    python benchmarks/serving_page.py MODEL TEST.tsv... --lines 100

Each line is put into the empty page. The time is measured in the page, from the event of the input to the first change
after which a translation is shown; it includes the pause for which the page waits for another key. The last line is
JSON and begins with the median divided by 100 ms.
"""

import argparse
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

# The server is started by code that the tests share.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from playwright.sync_api import sync_playwright
from serving import languages_of, test_lines
from serving_load import processor

from dragoman import __version__
from tests.support.serving_program import served

GOAL_MS = 100
# Returns the milliseconds from the input of a text to the first words of its translation.
FIRST_WORDS = """
(line) => new Promise((resolve) => {
  const text = document.getElementById("text");
  const output = document.getElementById("output");
  text.value = line;
  const started = performance.now();
  new MutationObserver((_, observer) => {
    if (!output.textContent) return;
    observer.disconnect();
    resolve(performance.now() - started);
  }).observe(output, { childList: true, subtree: true });
  text.dispatchEvent(new Event("input", { bubbles: true }));
})
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", nargs="+")
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    lines = test_lines(arguments.test)[: arguments.lines]
    times = []
    with (
        tempfile.TemporaryDirectory() as data,
        served(arguments.model, "--data", data) as (_, (host, port)),
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=arguments.browser, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://{host}:{port}/")
        page.wait_for_selector("#source option", state="attached")
        # The detection takes some short lines to be in the target's language, which are then not translated.
        page.select_option("#source", languages_of(arguments.model)[0])
        page.wait_for_timeout(1000)
        chromium = browser.version
        for line in lines:
            times.append(page.evaluate(FIRST_WORDS, line))
            page.fill("#text", "")
            page.wait_for_function("() => !document.getElementById('output').textContent")
        browser.close()
    print(f"{processor()}; Dragoman {__version__}, playwright {version('playwright')}, Chromium {chromium}")
    low, median, high = (float(np.quantile(times, share)) for share in (0.05, 0.5, 0.95))
    print(f"first words after {median:.0f} ms (median of {len(times)} lines; 5 % {low:.0f}, 95 % {high:.0f})")
    print(json.dumps({"ratio_to_goal": round(median / GOAL_MS, 2), "median_ms": round(median), "p95_ms": round(high)}))


if __name__ == "__main__":
    main()
