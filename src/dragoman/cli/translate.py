"""dragoman translate"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.examples import Example
from dragoman.cli.options import (
    BatchedEngineOptions,
    Ensemble,
    Flag,
    LongLineOptions,
    ModelDirectory,
    SamplingOptions,
    SearchOptions,
    check_one_model,
)
from dragoman.errors import SettingsError
from dragoman.printing import print_message

if TYPE_CHECKING:
    from dragoman.translation.results import LineProgress, Translation


@dataclass(frozen=True, kw_only=True)
class TranslateOutputOptions:
    """Print more than the translation."""

    json: Flag = False
    """Print one JSON object per line: text, scores, alternatives, flags, alignment."""
    alignment: Flag = False
    """Append word alignments (Pharaoh format, `||| 0-0 1-2`) by the head that `dragoman align` selected; slower."""


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Translate text: one line in, one line out."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Translate a file", "dragoman translate models/mine letter.txt > letter.de.txt"),
        Example(
            "Print the five best translations as JSON",
            "dragoman translate models/mine --beam 8 --n-best 5 --json < letter.txt",
        ),
    )

    model: ModelDirectory
    text: Annotated[Positional[Path | None], arg(metavar="[TEXT]", help_behavior_hint="")] = None
    """Text file with one sentence per line (also .gz, .zst); standard input by default."""
    ensemble: Ensemble = ()
    search: SearchOptions = SearchOptions()
    sampling: SamplingOptions = SamplingOptions()
    engine: BatchedEngineOptions = BatchedEngineOptions()
    long_line: LongLineOptions = LongLineOptions()
    output: TranslateOutputOptions = TranslateOutputOptions()

    def run(self) -> None:
        """Translate and print line by line, in order."""
        from dragoman.data.readers import LONGEST_LINE, read_lines
        from dragoman.translation.translator import Translator

        alignment = None
        if self.output.alignment:
            from dragoman.alignment.heads import AlignmentHead

            check_one_model(self.ensemble, "--alignment")
            alignment = AlignmentHead.load(self.model)
        if self.search.n_best > 1 and not self.output.json:
            raise SettingsError("--n-best above 1 requires --json, because text output has one line per input line")
        search = self.search.config(sample=self.sampling.sample)
        prefixes = self.search.prefixes
        translator = Translator.load(
            self.model,
            *self.ensemble,
            device=self.engine.device,
            engine=self.engine.engine,
            precision=self.engine.precision,
            threads=self.engine.threads,
            shortlist=self.engine.shortlist,
            max_source_tokens=self.long_line.max_source_tokens,
            max_line_characters=self.long_line.max_line_characters,
            batch_tokens=self.engine.batch_tokens,
        )
        bar = _Bar(translator.engine)
        # A character has up to four bytes.
        longest = max(LONGEST_LINE, 4 * self.long_line.max_line_characters)
        translations = translator.translate_stream(
            read_lines(str(self.text or "-"), longest),
            search=search,
            sampling=self.sampling.config(self.search.n_best),
            prefixes=read_lines(str(prefixes)) if prefixes is not None else None,
            alignment=alignment,
            on_progress=bar.on_progress,
        )
        for number, translation in enumerate(bar.watch(translations), 1):
            line = _as_json(translation) if self.output.json else _as_text(translation)
            sys.stdout.buffer.write(line.encode() + b"\n")
            for warning in _warnings(translation):
                print_message(f"line {number}: {warning}")


class _Bar:
    """Progress bar: number of lines; for a long line also segments, segments per second and time left.

    Hidden when the translations themselves are printed to the terminal.
    """

    def __init__(self, engine: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._progress = Progress(
            *(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()),
            console=console,
            transient=True,
            disable=not console.is_terminal or sys.stdout.isatty(),
        )
        self._engine = engine
        self._lines = self._progress.add_task("", total=None)
        self._long = self._progress.add_task("", visible=False)

    def watch(self, translations: "Iterator[Translation]") -> "Iterator[Translation]":
        """Yield the translations and count them."""
        with self._progress:
            self._count(0)
            for number, translation in enumerate(translations, 1):
                self._progress.update(self._long, visible=False)
                yield translation
                self._count(number)

    def on_progress(self, line: "LineProgress") -> None:
        """Show the progress within a long line."""
        if line.segments == 0:
            self._progress.reset(self._long, total=line.all_characters, visible=True)
        seconds = self._progress.tasks[self._long].elapsed
        rate = f", {line.segments / seconds:,.1f} per second" if seconds and line.segments else ""
        self._progress.update(
            self._long, completed=line.characters, description=f"  long line: {line.segments:,} segments{rate}"
        )

    def _count(self, lines: int) -> None:
        self._progress.update(
            self._lines, completed=lines, description=f"translating: {lines:,} lines ({self._engine})"
        )


def _as_text(translation: "Translation") -> str:
    if translation.alignment is None:
        return translation.text
    from dragoman.evaluation.alignment import pharaoh

    return f"{translation.text} ||| {pharaoh(translation.alignment)}"


def _as_json(translation: "Translation") -> str:
    return json.dumps(asdict(translation), ensure_ascii=False)


def _warnings(translation: "Translation") -> Iterator[str]:
    if translation.invalid_utf8:
        yield "invalid UTF-8; undecodable bytes were replaced by U+FFFD"
    if translation.cut:
        yield (
            "a sentence longer than any in training was split between two words; check its translation, or raise "
            "--max-source-tokens"
        )
    if translation.too_long:
        yield "longer than --max-line-characters; the line was copied without translation"
    elif translation.copied:
        yield (
            f"{translation.copied:,} characters were copied without translation because they are not natural language "
            "(see --max-source-tokens)"
        )
    if translation.truncated:
        yield "the translation reached the maximum length and may be incomplete; raise --max-length-offset"
