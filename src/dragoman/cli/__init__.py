"""The command line: one verb per job. No other room knows of it."""

import errno
import logging
import sys
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, Protocol

import tyro

from dragoman import __version__
from dragoman.cli.align import Align
from dragoman.cli.attention import Attention
from dragoman.cli.compare import Compare
from dragoman.cli.corpus import Corpus
from dragoman.cli.distill import Distill
from dragoman.cli.doctor import Doctor
from dragoman.cli.evaluate import Evaluate, Score
from dragoman.cli.quantize import Quantize
from dragoman.cli.shortlist import LearnShortlist
from dragoman.cli.train import Train
from dragoman.cli.translate import Translate
from dragoman.errors import UserError
from dragoman.printing import complain, printable
from dragoman.streams import OutputError, drop_output


class Verb(Protocol):
    """What a verb of the command line is: a dataclass of its options, and a method that does the work."""

    def run(self) -> None:
        """Do what the verb says; heavy imports (torch) are inside, so that --help answers at once."""


# The verbs, in the order of --help. A new one is a file of this room and a line here.
VERBS: dict[str, type[Verb]] = {
    "train": Train,
    "translate": Translate,
    "evaluate": Evaluate,
    "score": Score,
    "attention": Attention,
    "align": Align,
    "quantize": Quantize,
    "shortlist": LearnShortlist,
    "distill": Distill,
    "compare": Compare,
    "corpus": Corpus,
    "doctor": Doctor,
}


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments say; return 0, or 1 (failure), 2 (the user's mistake), or what a verb exits with."""
    status = 0
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except OutputError as error:
        drop_output()
        # A reader (head, less) that has seen enough is no failure.
        if error.errno != errno.EPIPE:
            complain(error)
            status = status or 1
    return status


def read_arguments(arguments: Sequence[str]) -> Verb:
    """Return the verb that the command line names, with its options; exit with 2 when they fit no verb."""
    escaped = [printable(argument) for argument in arguments]
    if escaped != list(arguments):
        # What is wrong is then reported in a form that can be printed.
        _parse(escaped)
    return _parse(arguments)


def log_as_messages() -> None:
    """Let what the package logs be printed like its other messages."""
    logger = logging.getLogger("dragoman")
    logger.addHandler(_Messages())
    logger.propagate = False


class _Messages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def _run(arguments: Sequence[str]) -> int:
    try:
        if list(arguments) == ["--version"]:
            print(f"dragoman {__version__}")
        else:
            read_arguments(arguments).run()
    except SystemExit as leaving:
        # After --help, an argument that fits nothing, or a training that was stopped.
        return leaving.code if isinstance(leaving.code, int) else 0
    except OutputError:
        raise
    except UserError as error:
        complain(error)
        return 2
    except (OSError, FloatingPointError) as error:
        complain(error)
        return 1
    return 0


def _parse(arguments: Sequence[str]) -> Verb:
    verbs: list[Any] = [Annotated[cls, tyro.conf.subcommand(name)] for name, cls in VERBS.items()]
    verb: Verb = tyro.cli(
        reduce(or_, verbs),
        prog="dragoman",
        args=arguments,
        description="Train, run and measure translation models on your own translations.",
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff, tyro.conf.UseAppendAction),
    )
    return verb
