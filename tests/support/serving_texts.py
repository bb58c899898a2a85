"""Line translators without models, for tests of `TranslationService`."""

import asyncio
from collections.abc import Callable, Sequence

from dragoman.evaluation.alignment import Link
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.texts.service import TextOptions, TranslatedText, TranslationService
from dragoman.translation.results import Alternative, Translation


def translation_of(*texts: str, log_probability: float = 0.0, alignment: tuple[Link, ...] | None = None) -> Translation:
    """Return a translation with these outputs, each less probable by 1 than the one before."""
    alternatives = tuple(
        Alternative(text=text, log_probability=log_probability - rank, score=log_probability - rank)
        for rank, text in enumerate(texts)
    )
    return Translation(
        text=texts[0],
        log_probability=log_probability,
        score=log_probability,
        alternatives=alternatives,
        segments=1,
        cut=False,
        truncated=False,
        invalid_utf8=False,
        alignment=alignment,
    )


class FunctionLines:
    """Translates lines by a function, and records them.

    Args:
        function: returns the translation of a line.
        pairs: the language pairs.
    """

    def __init__(
        self,
        function: Callable[[Pair, str, LineOptions], Translation],
        pairs: Sequence[Pair] = (("en", "de"),),
    ) -> None:
        self._function = function
        self._pairs = tuple(pairs)
        self.lines: list[str] = []
        self.options: list[LineOptions] = []
        self.active = self.most_active = self.cancelled = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self._pairs

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        assert pair in self._pairs
        self.lines.append(line)
        self.options.append(options)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            await asyncio.sleep(0)
            return self._function(pair, line, options)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.active -= 1


def identity_lines(pairs: Sequence[Pair] = (("en", "de"),)) -> FunctionLines:
    return FunctionLines(lambda pair, line, options: translation_of(line), pairs)


def upper_lines(pairs: Sequence[Pair] = (("en", "de"),)) -> FunctionLines:
    return FunctionLines(lambda pair, line, options: translation_of(line.upper()), pairs)


def translated(lines: FunctionLines, text: str, **options: object) -> TranslatedText:
    """Return the translation of one text, from English to German unless the options name other languages."""
    chosen = TextOptions(**{"source": "en", "target": "de", **options})  # type: ignore[arg-type]
    [result] = asyncio.run(TranslationService(lines).translate([text], chosen))
    return result
