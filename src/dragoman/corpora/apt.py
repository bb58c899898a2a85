"""The lists of packages that apt keeps on a Debian machine, as apt itself gives them out."""

import subprocess
from dataclasses import dataclass
from email.parser import HeaderParser

from dragoman.errors import CorpusError

# Whatever the machine's own settings are: containers usually have descriptions switched off.
_ENGLISH = ("-o", "Acquire::Languages=en")
HELPER = "/usr/lib/apt/apt-helper"
_ADVICE = f"as root, run: apt-get {' '.join(_ENGLISH)} update"


@dataclass(frozen=True, kw_only=True)
class AptList:
    """One list.

    Attributes:
        kind: "Packages" (what there is, built from which source) or "Translations" (descriptions).
        name: archive, release and component, as in "http://deb.debian.org/debian bookworm/main Translation-en".
    """

    kind: str
    name: str
    content: bytes


def read_apt_lists(helper: str = HELPER) -> list[AptList]:
    """Return the lists of Debian's packages and of their English descriptions on this machine.

    `helper` is the program of apt that prints a list.

    Raises CorpusError when there is no apt, it fails, or it has no such descriptions, and says what to do.
    """
    parser = HeaderParser()
    listing = _run("apt-get", *_ENGLISH, "indextargets", "Origin: Debian")
    targets = [parser.parsestr(stanza) for stanza in listing.decode().split("\n\n")]
    wanted = [
        target
        for target in targets
        if target["Created-By"] == "Packages" or (target["Created-By"], target["Language"]) == ("Translations", "en")
    ]
    if not any(target["Created-By"] == "Translations" for target in wanted):
        raise CorpusError(f"apt has no English descriptions of Debian's packages here; {_ADVICE}")
    return [
        AptList(
            kind=target["Created-By"],
            name=target["Description"],
            content=_run(helper, "cat-file", target["Filename"]),
        )
        for target in wanted
    ]


def _run(*command: str) -> bytes:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise CorpusError(
            f"{command[0]} cannot be run ({error.strerror}): Debian's descriptions are read from apt's lists; "
            "fetch this corpus on a Debian machine, or in a container of one"
        ) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise CorpusError(
            f"{' '.join(command)} failed: {said or done.returncode}; if its lists are old or damaged, {_ADVICE}"
        )
    return done.stdout
