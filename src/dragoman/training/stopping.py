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


class StopRequest:
    """The signal that has arrived, if any."""

    signal_number: int | None = None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Note the first SIGINT or SIGTERM instead of dying of it; a second one kills as usual.

    Signals reach the main thread only: elsewhere nothing is caught.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    caught = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in caught}

    def note(number: int, _frame: FrameType | None) -> None:
        request.signal_number = number
        signal.signal(number, previous[signal.Signals(number)])

    for number in caught:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number in caught:
            signal.signal(number, previous[number])
