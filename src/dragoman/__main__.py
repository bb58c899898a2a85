"""The command `dragoman`, and python -m dragoman: signals and streams are ready before anything heavy is imported."""

import sys

from dragoman.interrupts import Interrupts
from dragoman.streams import flush_or_discard_output, open_standard_streams
from dragoman.threads import limit_openmp


def main() -> None:
    """Run the command line; exit with 0, or 1 (failure), 2 (user's mistake), 128 + signal."""
    interrupts = Interrupts()
    interrupts.install()
    open_standard_streams()
    # OpenMP reads its environment once, when torch is loaded.
    limit_openmp()
    from dragoman.cli import log_as_messages, run

    log_as_messages()
    status = 1
    try:
        interrupts.raising = True
        status = run(sys.argv[1:])
        interrupts.raising = False
    except BaseException:
        if interrupts.arrived is None:
            raise
    if interrupts.arrived is not None:
        flush_or_discard_output()
        status = 128 + interrupts.arrived
    sys.exit(status)


if __name__ == "__main__":
    main()
