"""Moving windows of a minute: how many requests and characters a client may still use."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

# Not by the package `limits`: its memory storage has an entry for each character, and never forgets a client.
SECONDS = 60.0
# Clients whose windows are stored; the window of the client that was admitted longest ago is forgotten first.
MAX_CLIENTS = 20_000


@dataclass
class _Window:
    # (time, characters) of each request of the last minute, oldest first
    entries: deque[tuple[float, int]] = field(default_factory=deque)
    characters: int = 0

    def forget_until(self, moment: float) -> None:
        while self.entries and self.entries[0][0] <= moment:
            self.characters -= self.entries.popleft()[1]


class MovingWindows:
    """The requests of each client in the last minute.

    Args:
        max_clients: largest number of clients whose windows are stored.
        now: clock, in seconds.
    """

    def __init__(self, *, max_clients: int = MAX_CLIENTS, now: Callable[[], float] = time.monotonic) -> None:
        # In the order of the last admitted request.
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._max_clients = max_clients
        self._now = now

    def __len__(self) -> int:
        """Return the number of clients whose windows are stored."""
        return len(self._windows)

    def admit(self, client: str, characters: int, *, max_requests: int, max_characters: int) -> float:
        """Count a request if it is within the limits of a minute; a request that is refused does not count.

        Returns:
            0 if the request was counted, otherwise the number of seconds after which it would be; infinity if it has
            more characters than `max_characters`.
        """
        if characters > max_characters:
            return math.inf
        now = self._now()
        window = self._windows.get(client) or _Window()
        window.forget_until(now - SECONDS)
        if wait := _wait(window, characters, max_requests, max_characters):
            return wait + SECONDS - now
        window.entries.append((now, characters))
        window.characters += characters
        self._windows[client] = window
        self._windows.move_to_end(client)
        self._forget(now - SECONDS)
        return 0.0

    def _forget(self, moment: float) -> None:
        while len(self._windows) > 1:
            client, window = next(iter(self._windows.items()))
            if window.entries[-1][0] > moment and len(self._windows) <= self._max_clients:
                break
            del self._windows[client]


def _wait(window: _Window, characters: int, max_requests: int, max_characters: int) -> float:
    """Return the time of the last entry that must leave the window before a request fits; 0 if it fits now."""
    requests, total = len(window.entries), window.characters
    latest = 0.0
    for moment, cost in window.entries:
        if requests < max_requests and total + characters <= max_characters:
            break
        requests -= 1
        total -= cost
        latest = moment
    return latest
