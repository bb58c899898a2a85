"""Handling of SIGINT and SIGTERM: exit at once while the process starts or ends, otherwise raise KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Handler of SIGINT and SIGTERM.

    Attributes:
        raising: True if the next signal raises KeyboardInterrupt, so that the current work is stopped and cleaned up.
            If False, and after that signal, a signal ends the process at once without a message.
        arrived: number of the signal that raised KeyboardInterrupt, or None. If it is set, the exit status of the
            process is 128 + this number, even if some code caught the exception.
    """

    def __init__(self) -> None:
        self.raising = False
        self.arrived: int | None = None

    def install(self) -> None:
        """Install the handlers, except for signals that the parent process set to be ignored."""
        for number in ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._handle)
        sys.unraisablehook = self._unraisable

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self.raising:
            os._exit(128 + number)
        self.raising, self.arrived = False, number
        raise KeyboardInterrupt

    def _unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Exit if KeyboardInterrupt was raised where Python ignores exceptions, for example in a destructor."""
        if self.arrived is not None:
            os._exit(128 + self.arrived)
        sys.__unraisablehook__(unraisable)
