"""Make a corpus of long texts and their short descriptions on a Debian machine.

    python benchmarks/long_inputs_corpus.py DIR [--download]

The texts are manual pages in English without their NAME section, whose description is the target; long descriptions of
Python packages, with their summaries; and README files of Node packages, with their descriptions. They are taken from
what is installed. With --download, the manual pages of some 650 further packages (`chosen_packages`) are added, 150 MB,
which are downloaded with apt-get and not installed. DIR/train.tsv, valid.tsv and test.tsv are split by source package:
a package is in one part only. At most 300 texts of a package are used. `benchmarks/long_inputs.py` trains on them. The
last line is JSON: the number of pairs and characters.
"""

import argparse
import gzip
import hashlib
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from email.parser import HeaderParser
from email.policy import compat32
from pathlib import Path

import numpy as np

from dragoman.corpora.holdout import split_documents
from dragoman.data.readers import Pair

MANUALS = Path("/usr/share/man")
MANUAL = re.compile(r"\./usr/share/man/man[1-9][^/]*/[^/]+")
# Packages with many manual pages, and every which of the Perl libraries of a certain installed size in kB.
MANUAL_PACKAGES = (
    "erlang-manpages",
    "freebsd-manpages",
    "git-man",
    "libarchive-dev",
    "libaudit-dev",
    "libbsd-dev",
    "libcap-dev",
    "libcurl4-doc",
    "libevent-dev",
    "libibverbs-dev",
    "liblttng-ust-dev",
    "libpcap-dev",
    "libssl-doc",
    "libx11-doc",
    "manpages-dev",
    "perl-doc",
    "tcl-doc",
)
PERL_STEP, PERL_SIZES = 2, range(60, 1501)
DPKG = Path("/var/lib/dpkg/info")
# Places of README files of Node packages.
NODE = (Path("/usr/lib/node_modules"), Path("/usr/local/lib/node_modules"), Path("/usr/share/nodejs"))
MOST_OF_A_PACKAGE = 300
# Texts with fewer words are short inputs, and are left out; so are targets outside these limits.
LEAST_WORDS, LEAST_TARGET_WORDS, MOST_TARGET_WORDS = 100, 2, 30

ESCAPED = {r"\-": "-", r"\(aq": "'", r"\(dq": '"', r"\(co": "©", r"\(bu": "•", r"\(em": "-", r"\(en": "-", r"\e": "\\"}
FONT = re.compile(r"\\f(?:\[[^]]*\]|\(..|.)|\\[sS][-+]?\d+|\\[&|^%c:/,]|\\[mv]\[?[^]\s]*\]?|\\[hwvlL]'[^']*'")
SPECIAL = re.compile(r"\\\*?(?:\[[^]]*\]|\(..)|\\\*.")
# Macros whose arguments are not text.
SILENT = {
    "TH",
    "Dd",
    "Dt",
    "Os",
    "so",
    "ie",
    "if",
    "el",
    "nr",
    "ds",
    "ft",
    "ta",
    "in",
    "ti",
    "sp",
    "ne",
    "ad",
    "ll",
    "de",
}


def manual_pages() -> Iterator[tuple[str, Pair]]:
    """Yield source package, text and description of the installed manual pages."""
    owners = _owners()
    for path in sorted(MANUALS.glob("man[1-9]*/*")):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            pair = described_page(path.name, path.read_bytes())
        except OSError:
            continue
        if pair is not None:
            yield owners.get(str(path), "unknown"), pair


def described_page(name: str, content: bytes) -> Pair | None:
    """Return text and description of the manual page in a file of this name; None if it has no description."""
    try:
        page = gzip.decompress(content) if name.endswith(".gz") else content
    except (OSError, EOFError):
        return None
    sections = plain_sections(page.decode("utf-8", "replace"))
    _, separator, description = " ".join(sections.pop("NAME", "").split()).partition(" - ")
    text = " ".join(f"{heading}: {body}" for heading, body in sections.items() if body)
    return Pair(" ".join(text.split()), description.strip()) if separator else None


def chosen_packages() -> list[str]:
    """Return `MANUAL_PACKAGES` and every second of the Perl libraries that apt knows, in the order of their names."""
    available = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout.decode()
    libraries = set()
    for stanza in available.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE))
        name = fields.get("Package", "")
        library = re.fullmatch(r"lib.*-perl", name) is not None and fields.get("Architecture") == "all"
        if library and int(fields.get("Installed-Size", 0)) in PERL_SIZES:
            libraries.add(name)
    return [*MANUAL_PACKAGES, *sorted(libraries)[::PERL_STEP]]


def downloaded_manual_pages() -> Iterator[tuple[str, Pair]]:
    """Download packages, and yield source package, text and description of their manual pages."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *chosen_packages()], cwd=folder, check=True
        )
        for path in sorted(Path(folder).glob("*.deb")):
            shown = ["dpkg-deb", "--show", "--showformat", "${source:Package}", str(path)]
            source = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
            command = ["dpkg-deb", "--fsys-tarfile", str(path)]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                    for member in archive:
                        file = archive.extractfile(member) if member.isreg() and MANUAL.fullmatch(member.name) else None
                        pair = None if file is None else described_page(member.name, file.read())
                        if pair is not None:
                            yield source, pair


def plain_sections(page: str) -> dict[str, str]:
    """Return the sections of a manual page in roff, as plain text by heading."""
    sections: dict[str, list[str]] = defaultdict(list)
    heading, until = "", None
    for line in page.split("\n"):
        if until is not None:
            until = None if line.startswith(until) else until
            continue
        if line.startswith(('.\\"', "'\\\"", "'", ".ig")):
            continue
        if not line.startswith("."):
            sections[heading].append(_plain(line))
            continue
        macro, _, rest = line[1:].strip().partition(" ")
        if macro in ("de", "de1", "ig", "am"):
            until = ".."
        elif macro == "TS":
            until = ".TE"
        elif macro in ("SH", "Sh"):
            heading = _plain(rest).strip('" ').upper()
        elif macro == "Nd":
            sections[heading].append(f"- {_plain(rest)}")
        elif macro not in SILENT:
            sections[heading].append(_plain(rest.replace('"', "")))
    return {name: " ".join(lines) for name, lines in sections.items() if name}


def _plain(text: str) -> str:
    for escape, character in ESCAPED.items():
        text = text.replace(escape, character)
    return SPECIAL.sub(" ", FONT.sub("", text)).replace("\\ ", " ").replace("\\", "").replace("\t", " ")


def _owners() -> dict[str, str]:
    """Return the source package of each manual page of dpkg's packages."""
    listing = subprocess.run(
        ["dpkg-query", "-W", "-f", "${binary:Package}\t${source:Package}\n"], capture_output=True, text=True, check=True
    )
    sources = dict(line.split("\t") for line in listing.stdout.splitlines())
    owners = {}
    for path in DPKG.glob("*.list"):
        source = sources.get(path.stem, path.stem)
        for file in path.read_text(errors="replace").splitlines():
            if file.startswith("/usr/share/man/man"):
                owners[file] = source
    return owners


def python_packages() -> Iterator[tuple[str, Pair]]:
    """Yield name, long description and summary of the installed Python packages."""
    folders = {Path(path) for path in (*sys.path, sysconfig.get_path("purelib"), "/usr/lib/python3/dist-packages")}
    for folder in sorted(folder for folder in folders if folder.is_dir()):
        for path in sorted(folder.glob("*.dist-info/METADATA")):
            message = HeaderParser(policy=compat32).parsestr(path.read_text("utf-8", "replace"))
            text = str(message.get("Description") or message.get_payload() or "")
            yield (
                f"python {message['Name']}".lower(),
                Pair(" ".join(text.split()), " ".join(str(message["Summary"]).split())),
            )


def node_packages() -> Iterator[tuple[str, Pair]]:
    """Yield name, README and description of the installed Node packages."""
    for path in sorted(path for folder in NODE if folder.is_dir() for path in folder.rglob("package.json")):
        readme = next(
            (path.with_name(name) for name in ("README.md", "readme.md") if path.with_name(name).is_file()), None
        )
        try:
            settings = json.loads(path.read_text("utf-8", "replace"))
        except ValueError:
            continue
        if readme is None or not isinstance(settings, dict) or not isinstance(settings.get("description"), str):
            continue
        text = " ".join(readme.read_text("utf-8", "replace").split())
        yield f"node {settings.get('name')}", Pair(text, " ".join(settings["description"].split()))


def collect(*, download: bool) -> tuple[dict[str, list[Pair]], Counter[str]]:
    """Return the pairs of each source package, and the number of pairs that were left out by reason."""
    documents: dict[str, dict[Pair, None]] = defaultdict(dict)
    left_out: Counter[str] = Counter()
    downloaded = downloaded_manual_pages() if download else ()
    for package, pair in (*manual_pages(), *python_packages(), *node_packages(), *downloaded):
        if len(pair.source.split()) < LEAST_WORDS:
            left_out["short text"] += 1
        elif not LEAST_TARGET_WORDS <= len(pair.target.split()) <= MOST_TARGET_WORDS:
            left_out["description too short or too long"] += 1
        else:
            documents[package][pair] = None
    chosen = {}
    for package, pairs in documents.items():
        # In an order that is the same on every machine, but not that of the names.
        ordered = sorted(pairs, key=lambda pair: hashlib.blake2b(pair.source.encode(), digest_size=8).digest())
        chosen[package] = ordered[:MOST_OF_A_PACKAGE]
        left_out["further texts of a package"] += len(ordered) - len(chosen[package])
    return chosen, left_out


def write(folder: Path, *, download: bool) -> dict[str, object]:
    """Collect the corpus and write it to `folder`; return its sizes."""
    documents, left_out = collect(download=download)
    split = split_documents(documents)
    folder.mkdir(parents=True, exist_ok=True)
    sizes: dict[str, object] = {}
    for part, pairs in split.parts.items():
        lines = (f"{pair.source}\t{pair.target}\n" for pair in pairs)
        (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
        lengths = [len(pair.source) for pair in pairs] or [0]
        deciles = {f"{share} %": int(np.percentile(lengths, share)) for share in (10, 50, 90)}
        sizes[part] = {"pairs": len(pairs), "characters": deciles}
    return {**sizes, "packages": len(documents), "left_out": {**left_out, "in two parts": split.seen}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write train.tsv, valid.tsv and test.tsv")
    parser.add_argument("--download", action="store_true", help="add the manual pages of some 650 further packages")
    arguments = parser.parse_args()
    print(json.dumps(write(arguments.folder, download=arguments.download)))


if __name__ == "__main__":
    main()
