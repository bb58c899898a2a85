"""Signals that end the command line: at once while it starts or ends, by an exception while a verb works."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """What SIGINT and SIGTERM do to a process.

    raising   whether the next one raises KeyboardInterrupt, so that the work is broken off and tidied up; otherwise,
              and from the second on, it ends the process without a word
    arrived   the one that was raised; whatever has become of the exception, the process ends with 128 + this number
    """

    def __init__(self) -> None:
        self.raising = False
        self.arrived: int | None = None

    def install(self) -> None:
        """Handle the signals from now on, but for those that whoever started the process had it ignore."""
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
        """End here if the interrupt was raised where Python drops exceptions, as when an object is freed."""
        if self.arrived is not None:
            os._exit(128 + self.arrived)
        sys.__unraisablehook__(unraisable)
