"""Handling of SIGINT (Ctrl-C) and SIGTERM: finish the current update, save, then stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TrainingStopped(Exception):  # noqa: N818 - not an error: the user requested it
    """Training was stopped by a signal, after its state had been saved.

    Args:
        signal_number: the signal.
        step: updates made.
    """

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after update {step}")
        self.signal_number = signal_number


class WorkInterrupted(BaseException):
    """A signal arrived inside a block that may be interrupted."""


class StopRequest:
    """The stop signal that the process has received, if any.

    Attributes:
        signal_number: the signal; None if there was none.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._interrupts = False

    def receive(self, signal_number: int) -> None:
        """Record a signal.

        Raises:
            WorkInterrupted: inside an `interruptible` block.
        """
        self.signal_number = signal_number
        if self._interrupts:
            raise WorkInterrupted

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Interrupt the block when a signal arrives, or at once if one has already arrived.

        The block must not change any state.

        Raises:
            WorkInterrupted: if there was a signal.
        """
        self._interrupts = True
        try:
            if self.signal_number is not None:
                raise WorkInterrupted
            yield
        finally:
            self._interrupts = False


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Record the first SIGINT or SIGTERM inside the block; a second one ends the process as usual.

    Only the main thread receives signals. In another thread, no signal is recorded.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    caught = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in caught}

    def record(number: int, _frame: FrameType | None) -> None:
        for caught_number in caught:
            signal.signal(caught_number, previous[caught_number])
        request.receive(number)

    for number in caught:
        # A signal that the parent process set to be ignored (as nohup does) stays ignored.
        if previous[number] != signal.SIG_IGN:
            signal.signal(number, record)
    try:
        yield request
    finally:
        for number in caught:
            signal.signal(number, previous[number])
