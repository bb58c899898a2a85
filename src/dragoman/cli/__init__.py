"""The command line: one verb per job. No other package imports it."""

import errno
import logging
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar, Protocol

import tyro

from dragoman import __version__
from dragoman.cli.align import Align
from dragoman.cli.attention import Attention
from dragoman.cli.calibrate import Calibrate
from dragoman.cli.compare import Compare
from dragoman.cli.corpus import ACTIONS as CORPUS_ACTIONS
from dragoman.cli.corpus import Corpus
from dragoman.cli.distill import Distill
from dragoman.cli.doctor import Doctor
from dragoman.cli.embed import Embed
from dragoman.cli.evaluate import Evaluate, Score
from dragoman.cli.examples import Example, examples_text
from dragoman.cli.export import Export
from dragoman.cli.generate import Generate
from dragoman.cli.images import ACTIONS as IMAGE_ACTIONS
from dragoman.cli.images import Images
from dragoman.cli.import_ import Import
from dragoman.cli.positions import Positions
from dragoman.cli.quantize import Quantize
from dragoman.cli.serve import Serve
from dragoman.cli.shortlist import LearnShortlist
from dragoman.cli.train import Train
from dragoman.cli.translate import Translate
from dragoman.errors import UserError
from dragoman.printing import print_message, printable
from dragoman.streams import OutputError, discard_output


class Verb(Protocol):
    """Verb of the command line: a dataclass whose fields are the arguments and options."""

    EXAMPLES: ClassVar[tuple[Example, ...]]

    def run(self) -> None:
        """Do the work. Slow imports (torch) are inside, so that --help is printed at once."""


# The verbs, in the order of --help. To add one, write a file in this package and a line here.
VERBS: dict[str, type[Verb]] = {
    "train": Train,
    "translate": Translate,
    "generate": Generate,
    "evaluate": Evaluate,
    "score": Score,
    "attention": Attention,
    "serve": Serve,
    "align": Align,
    "calibrate": Calibrate,
    "embed": Embed,
    "quantize": Quantize,
    "shortlist": LearnShortlist,
    "distill": Distill,
    "import": Import,
    "export": Export,
    "compare": Compare,
    "corpus": Corpus,
    "images": Images,
    "positions": Positions,
    "doctor": Doctor,
}
# The actions of verbs that have some.
ACTIONS: dict[str, Mapping[str, type[Verb]]] = {"corpus": CORPUS_ACTIONS, "images": IMAGE_ACTIONS}


EXAMPLES = (*Train.EXAMPLES[:1], *Translate.EXAMPLES[:1])


def run(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status: 0, 1 (failure), 2 (user's mistake), or the status of the verb."""
    status = 0
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except OutputError as error:
        discard_output()
        # A reader such as head or less that closes the pipe early is not a failure.
        if error.errno != errno.EPIPE:
            print_message(error)
            status = status or 1
    return status


def read_arguments(arguments: Sequence[str]) -> Verb:
    """Parse the arguments into a verb with its options; exit with status 2 when they are invalid."""
    escaped = [printable(argument) for argument in arguments]
    if escaped != list(arguments):
        # Report mistakes with characters that are safe to print.
        _parse(escaped)
    return _parse(arguments)


def log_as_messages() -> None:
    """Print the log records of the package like its other messages."""
    logger = logging.getLogger("dragoman")
    logger.addHandler(_Messages())
    logger.propagate = False


class _Messages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_message(record.getMessage())


def _run(arguments: Sequence[str]) -> int:
    try:
        if list(arguments) == ["--version"]:
            print(f"dragoman {__version__}")
        else:
            read_arguments(arguments).run()
    except SystemExit as leaving:
        # After --help, an invalid argument, or a training run that was stopped.
        return leaving.code if isinstance(leaving.code, int) else 0
    except OutputError:
        raise
    except UserError as error:
        print_message(error)
        return 2
    except (OSError, FloatingPointError) as error:
        print_message(error)
        return 1
    return 0


def _parse(arguments: Sequence[str]) -> Verb:
    verbs: list[Any] = [Annotated[cls, tyro.conf.subcommand(name)] for name, cls in VERBS.items()]
    try:
        verb: Verb = tyro.cli(
            reduce(or_, verbs),
            prog="dragoman",
            args=arguments,
            description="Train translation and language models on your own text, use them, measure them, look inside.",
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff, tyro.conf.UseAppendAction),
        )
    except SystemExit as leaving:
        if leaving.code == 0:
            # tyro has printed the help; it has no place for examples at the end.
            print(examples_text(_examples(arguments)))
        raise
    return verb


def _examples(arguments: Sequence[str]) -> tuple[Example, ...]:
    """Return the examples of the verb, or of the action of `corpus` or `images`, whose help was printed."""
    name, action = (*arguments, "", "")[:2]
    actions = ACTIONS.get(name, {})
    if action in actions:
        return actions[action].EXAMPLES
    # Without a verb at the beginning, tyro prints the list of verbs.
    return VERBS[name].EXAMPLES if name in VERBS else EXAMPLES
