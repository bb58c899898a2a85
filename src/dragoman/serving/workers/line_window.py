"""`LineWindow`: the lines that a worker has been sent, and those that wait for their turn."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

# Lines that a worker has been sent and has not answered: enough for the batches of its engine. It reads messages in
# order, so pings and cancellations wait for no more lines than these.
WINDOW_LINES = 256


class LineWindow:
    """The lines of a worker.

    Groups take turns. A group of which the worker has no line is sent one at once, so that a short request does not
    wait for the lines of others.

    Args:
        send: sends a message to the worker.
        lines: number of lines that the worker may have, beside one of each group.
    """

    def __init__(self, send: Callable[[bytes], None], lines: int = WINDOW_LINES) -> None:
        self._send, self._lines = send, lines
        # Group of each line that the worker has, and their number in each group.
        self._sent: dict[int, int] = {}
        self._sent_of: Counter[int] = Counter()
        # Messages of the lines that wait, by group and number; the group whose turn is next comes first.
        self._waiting: OrderedDict[int, OrderedDict[int, bytes]] = OrderedDict()

    def add(self, number: int, group: int, message: bytes) -> None:
        """Send the message of a line when it is its turn."""
        self._waiting.setdefault(group, OrderedDict())[number] = message
        self._fill(group)

    def withdraw(self, number: int, group: int) -> bool:
        """Return True if a line waited, and is no longer to be sent; False if it was sent."""
        waiting = self._waiting.get(group)
        if waiting is None or number not in waiting:
            return False
        del waiting[number]
        if not waiting:
            del self._waiting[group]
        return True

    def finish(self, number: int) -> None:
        """Note that the worker no longer has a line."""
        group = self._sent.pop(number, None)
        if group is None:
            return
        self._sent_of[group] -= 1
        if not self._sent_of[group]:
            del self._sent_of[group]
        self._fill(group)

    def _fill(self, group: int) -> None:
        if group in self._waiting and group not in self._sent_of:
            self._send_first(group)
        while self._waiting and len(self._sent) < self._lines:
            self._send_first(next(iter(self._waiting)))

    def _send_first(self, group: int) -> None:
        waiting = self._waiting[group]
        number, message = waiting.popitem(last=False)
        if waiting:
            self._waiting.move_to_end(group)
        else:
            del self._waiting[group]
        self._sent[number] = group
        self._sent_of[group] += 1
        self._send(message)
