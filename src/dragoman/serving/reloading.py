"""`Reloading`: keys and models that are read anew while the server runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dragoman.errors import UserError
from dragoman.serving.workers.model_files import ModelFiles

# Seconds between two looks at the model directories. Models are read anew when their files have changed before the
# first look, but not between it and the second.
WATCHING_SECONDS = 2.0
# Seconds after which models that could not be read are read again.
RETRY_SECONDS = 60.0
_LOG = logging.getLogger(__name__)


class Reloading:
    """Reads keys and models anew when it is asked, and models when their files were replaced or reading them failed.

    Args:
        directories: the model directories.
        read_keys: reads the keys; if that fails, the former keys stay valid.
        read_models: loads the models; if that fails, the former ones stay in use.
        on_failure: called when models could not be read anew for a reason other than a `UserError`.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        read_keys: Callable[[], None],
        read_models: Callable[[], Awaitable[None]],
        on_failure: Callable[[], None],
    ) -> None:
        self._files = ModelFiles(directories)
        self._read_keys, self._read_models, self._on_failure = read_keys, read_models, on_failure
        self._asked = asyncio.Event()
        self._retry_at: float | None = None

    def ask(self) -> None:
        """Read the keys at once, so that a key that was removed is not valid any more, and the models as soon as `run`
        can: after it has begun, and after a reading in progress, which may have missed a change.
        """
        self._asked.set()
        try:
            self._read_keys()
        except (OSError, UserError) as error:
            _LOG.error("the former keys stay valid: %s", error)

    async def run(self) -> None:
        """Read models anew until the caller is cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCHING_SECONDS):
                    await self._asked.wait()
            try:
                await self._read_if_due()
            except UserError as error:
                _LOG.error("the former models stay in use: %s", error)
            except Exception as error:
                # Such as a lack of file descriptors. Whatever it is, later attempts may succeed.
                _LOG.error("the former models stay in use: %s: %s", type(error).__name__, error)
                self._on_failure()

    async def _read_if_due(self) -> None:
        # In a thread: the directories may be on another machine, which does not answer.
        if self._asked.is_set():
            self._asked.clear()
            await asyncio.to_thread(self._files.read)
        elif not await asyncio.to_thread(self._files.replaced) and not self._retry_is_due():
            return
        self._retry_at = time.monotonic() + RETRY_SECONDS
        await self._read_models()
        self._retry_at = None
        _LOG.info("the models were read anew")

    def _retry_is_due(self) -> bool:
        return self._retry_at is not None and time.monotonic() >= self._retry_at
