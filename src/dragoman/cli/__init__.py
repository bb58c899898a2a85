"""The command line: one verb per job. No other room knows of it."""

import os
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


def main() -> None:
    """Run the verb on the command line; exit with 0, or 1 (failure), 2 (user's mistake), 128 + signal."""
    if sys.argv[1:] == ["--version"]:
        print(f"dragoman {__version__}")
        return
    sys.exit(_run(read_arguments(sys.argv[1:])))


def read_arguments(arguments: Sequence[str]) -> Verb:
    """Return the verb that the command line names, with its options; exit with 2 when they fit no verb."""
    verbs: list[Any] = [Annotated[cls, tyro.conf.subcommand(name)] for name, cls in VERBS.items()]
    verb: Verb = tyro.cli(
        reduce(or_, verbs),
        prog="dragoman",
        args=arguments,
        description="Train, run and measure translation models on your own translations.",
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff, tyro.conf.UseAppendAction),
    )
    return verb


def _run(verb: Verb) -> int:
    try:
        verb.run()
        sys.stdout.flush()
    except UserError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, FloatingPointError) as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
