"""Use an installed dragoman as its users do, outside the checkout."""

import json
import re
from pathlib import Path

from dragoman.version import __version__
from tests.support.number_words import split_numbers
from tests.support.paths import REPOSITORY
from tests.support.runs import write_tsv
from tests.support.scratch import ScratchEnvironment

# Folders of static files, by the path of the package.
STATIC = {
    name: REPOSITORY / "src/dragoman" / name / "static" for name in ("attention_page", "picture_page", "serving/page")
}
# Files of `static` that are not part of the page that `dragoman attention --out` writes.
OTHER_PAGES = {"live.js", "report.html"}

SETTINGS = {
    "tokenizer.vocabulary_size": 400,
    "batching.batch_tokens": 256,
    "training.steps": 4,
    "training.validations": 1,
    "training.precision": "fp32",
}
VERBS = [
    ["doctor"],
    ["train", "train.tsv", "--validation", "valid.tsv", "--out", "model", "--preset", "tiny"]
    + [f"--set={key}={json.dumps(value)}" for key, value in SETTINGS.items()],
    # With a translation given, as that of a model after a few updates is too long to show.
    ["attention", "model", "two", "--target", "zwei", "--out", "page.html", "--quick"],
    ["attention", "model", "two", "--target", "zwei", "--out", "picture.png"],
]
# In one process, as torch takes seconds to import.
PROGRAM = """
import json, sys
import dragoman
from dragoman.cli import run

print(dragoman.__file__)
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["dragoman", *arguments]
    if status := run(arguments):
        sys.exit(status)
"""


def use(scratch: ScratchEnvironment, engine: str) -> str:
    """Train, translate, draw a page and a picture with the dragoman of an environment; return what they print.

    Args:
        engine: the engine that is expected to translate, "native" or "torch".
    """
    folder = scratch.folder
    training, validation, test = split_numbers()
    write_tsv(folder / "train.tsv", training[:200])
    write_tsv(folder / "valid.tsv", validation[:5])
    (folder / "text").write_text("".join(f"{pair.source}\n" for pair in test[:3]))
    dragoman = str(scratch.binaries / "dragoman")
    assert scratch.run(dragoman, "--version") == f"dragoman {__version__}\n"
    place, doctor = scratch.run(str(scratch.python), "-c", PROGRAM, json.dumps(VERBS)).split("\n", 1)
    assert Path(place).is_relative_to(scratch.binaries.parent), place
    [translation] = re.findall("^translation uses +(.*)", doctor, flags=re.MULTILINE)
    assert translation.startswith("torch") == (engine == "torch"), translation
    assert len(scratch.run(dragoman, "translate", "model", "text", "--engine", engine).splitlines()) == 3
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert missing_parts((folder / "page.html").read_text(encoding="utf-8")) == []
    return doctor


def missing_parts(page: str) -> list[str]:
    """Return the names of the checkout's scripts, styles and licences that a page of attention does not contain."""
    static = STATIC["attention_page"]
    parts = {
        path.relative_to(static).as_posix(): path.read_text(encoding="utf-8").strip()
        for path in static.rglob("*")
        if path.is_file() and path.name not in OTHER_PAGES
    }
    # The placeholders of page.html are replaced.
    template = re.split(r"\{\{\w+\}\}", parts.pop("page.html"))
    missing = [name for name, text in parts.items() if text not in page]
    return missing + ["page.html"] * (not all(text in page for text in template))
