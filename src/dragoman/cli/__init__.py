"""The command line: one verb per job. No other room knows of it."""

import os
import sys
from typing import Annotated

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

# Heavy imports (torch) stand inside the verbs' run methods, so that --help answers at once.
Verb = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Translate, tyro.conf.subcommand("translate")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Score, tyro.conf.subcommand("score")]
    | Annotated[Attention, tyro.conf.subcommand("attention")]
    | Annotated[Align, tyro.conf.subcommand("align")]
    | Annotated[Quantize, tyro.conf.subcommand("quantize")]
    | Annotated[LearnShortlist, tyro.conf.subcommand("shortlist")]
    | Annotated[Distill, tyro.conf.subcommand("distill")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Corpus, tyro.conf.subcommand("corpus")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
)


def main() -> None:
    """Run the verb on the command line; exit with 0, or 1 (failure), 2 (user's mistake), 128 + signal."""
    if sys.argv[1:] == ["--version"]:
        print(f"dragoman {__version__}")
        return
    verb = tyro.cli(
        Verb,
        prog="dragoman",
        description="Train, run and measure translation models on your own translations.",
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff, tyro.conf.UseAppendAction),
    )
    sys.exit(_run(verb))


def _run(
    verb: Train
    | Translate
    | Evaluate
    | Score
    | Attention
    | Align
    | Quantize
    | LearnShortlist
    | Distill
    | Compare
    | Corpus
    | Doctor,
) -> int:
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
