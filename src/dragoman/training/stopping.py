"""Ctrl-C and SIGTERM: finish the update, save, then stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):  # noqa: N818 - not an error: the user asked for it
    """Training was asked to stop, and has saved its state."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after update {step}")
        self.signal_number = signal_number


class BrokenOff(BaseException):
    """A signal has arrived in work that can be broken off."""


class StopRequest:
    """The signal that has arrived, if any."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._breaks_off = False

    def arrived(self, signal_number: int) -> None:
        """Note a signal.

        Raises:
            BrokenOff: inside `breaking_off`.
        """
        self.signal_number = signal_number
        if self._breaks_off:
            raise BrokenOff

    @contextmanager
    def breaking_off(self) -> Iterator[None]:
        """Let a signal break the block off, which must change nothing; also one that has arrived before.

        Raises:
            BrokenOff: when there was a signal.
        """
        self._breaks_off = True
        try:
            if self.signal_number is not None:
                raise BrokenOff
            yield
        finally:
            self._breaks_off = False


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Note the first SIGINT or SIGTERM instead of dying of it; a second one ends the process as usual.

    Signals reach the main thread only: elsewhere nothing is caught.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    caught = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in caught}

    def note(number: int, _frame: FrameType | None) -> None:
        for each in caught:
            signal.signal(each, previous[each])
        request.arrived(number)

    for number in caught:
        # What whoever started the process had it ignore stays ignored.
        if previous[number] != signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield request
    finally:
        for number in caught:
            signal.signal(number, previous[number])
