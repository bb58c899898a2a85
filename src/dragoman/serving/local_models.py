"""`LocalModels`: models in the process of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from dragoman.serving.lines import LineOptions, LocalLines, Pair
from dragoman.translation.results import Translation
from dragoman.translation.translator import Translator


class LocalModels:
    """Models in the process of the server, which translate one line at a time; implements `running.Models`.

    Args:
        models: the model directory of each language pair.
    """

    def __init__(self, models: Mapping[Pair, Path]) -> None:
        self._models = dict(models)
        self._lines: LocalLines | None = None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """See `LineTranslator`."""
        return tuple(self._models)

    async def start(self) -> None:
        """Load the models.

        Raises:
            ModelError: if a model is missing or damaged.
        """
        self._lines = LocalLines(
            {pair: await asyncio.to_thread(Translator.load, path, device="cpu") for pair, path in self._models.items()}
        )

    async def reload(self) -> None:
        """Load the models anew; lines in flight end with the former ones."""
        await self.start()

    async def close(self) -> None:
        """Release the models."""
        self._lines = None

    async def ready(self) -> bool:
        """Return whether every model translates a word."""
        if self._lines is None:
            return False
        for pair in self.pairs:
            await self._lines.translate_line(pair, "1", LineOptions(beam=1))
        return True

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """See `LineTranslator`."""
        assert self._lines is not None
        return await self._lines.translate_line(pair, line, options)
