"""Package lists of a Debian machine, read through apt's own commands."""

import subprocess
from dataclasses import dataclass
from email.parser import HeaderParser

from dragoman.errors import CorpusError

# Overrides the machine's settings: containers usually do not download descriptions.
_ENGLISH = ("-o", "Acquire::Languages=en")
HELPER = "/usr/lib/apt/apt-helper"
_ADVICE = f"as root, run: apt-get {' '.join(_ENGLISH)} update"


@dataclass(frozen=True, kw_only=True)
class AptList:
    """A list of packages.

    Attributes:
        kind: "Packages" (packages and their source packages) or "Translations" (descriptions).
        name: archive, release and component, as in "http://deb.debian.org/debian bookworm/main Translation-en".
        content: content of the list.
    """

    kind: str
    name: str
    content: bytes


def read_apt_lists(helper: str = HELPER) -> list[AptList]:
    """Return this machine's lists of Debian's packages and of their English descriptions.

    Args:
        helper: the program of apt that prints a list.

    Raises:
        CorpusError: if apt is not installed, fails, or has no such descriptions.
    """
    parser = HeaderParser()
    listing = _run("apt-get", *_ENGLISH, "indextargets", "Origin: Debian")
    targets = [parser.parsestr(stanza) for stanza in listing.decode().split("\n\n")]
    selected = [
        target
        for target in targets
        if target["Created-By"] == "Packages" or (target["Created-By"], target["Language"]) == ("Translations", "en")
    ]
    if not any(target["Created-By"] == "Translations" for target in selected):
        raise CorpusError(f"apt has no English descriptions of Debian's packages here; {_ADVICE}")
    return [
        AptList(
            kind=target["Created-By"],
            name=target["Description"],
            content=_run(helper, "cat-file", target["Filename"]),
        )
        for target in selected
    ]


def _run(*command: str) -> bytes:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise CorpusError(
            f"{command[0]} cannot be run ({error.strerror}): this corpus is made from apt's lists; "
            "fetch it on a Debian machine or in a Debian container"
        ) from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
        raise CorpusError(f"{' '.join(command)} failed: {message}; if its lists are old or damaged, {_ADVICE}")
    return done.stdout
