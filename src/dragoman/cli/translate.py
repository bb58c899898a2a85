"""dragoman translate"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from dragoman.cli.choices import EngineName, PrecisionName
from dragoman.errors import SettingsError
from dragoman.printing import complain
from dragoman.search.config import DEFAULT_BATCH_TOKENS, SamplingConfig, SearchConfig
from dragoman.text.lines import MAX_LINE_CHARACTERS

if TYPE_CHECKING:
    from dragoman.translation.results import LineProgress, Translation


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Translate text, line by line: one line in, one line out."""

    model: Positional[Path]
    """A model directory."""
    file: Positional[Path | None] = None
    """Text, one sentence a line (also .gz, .zst); standard input when there is none."""
    ensemble: tuple[Path, ...] = ()
    """A further model of the same vocabulary; may be given several times. Probabilities of those that write in the same
    direction are averaged; models of both (tokenizer.right_to_left) rank together what either finds."""
    beam: int = SearchConfig.beam
    """Hypotheses kept, at most 200; 1 is greedy search, the fastest."""
    length_penalty: float = SearchConfig.length_penalty
    """α of the paper: higher favours longer output."""
    n_best: int = SearchConfig.n_best
    """Alternatives for each line, at most as many as the beam (or samples to draw); needs --json."""
    max_length_factor: float = SearchConfig.max_length_factor
    """Output is at most factor x source length + offset subwords long, and never longer than 4,096."""
    max_length_offset: int = SearchConfig.max_length_offset
    """See max-length-factor."""
    min_length_factor: float = SearchConfig.min_length_factor
    """Output is at least factor x source length + 1 subwords long."""
    sample: bool = False
    """Draw from the model instead of searching for the best."""
    temperature: float = SamplingConfig.temperature
    """Of --sample: below 1 is safer, above 1 wilder."""
    top_k: int | None = SamplingConfig.top_k
    """Of --sample: among the k most probable subwords only."""
    top_p: float = SamplingConfig.top_p
    """Of --sample: among the most probable subwords that sum to p."""
    seed: int = SamplingConfig.seed
    """Of --sample: the same seed draws the same."""
    prefixes: Path | None = None
    """A file with a line for each line of text: what its translation begins with. Not for models that write from right
    to left."""
    alignment: bool = False
    """Say which word comes from which, after the text: Pharaoh's `||| 0-0 1-2`, source word - target word. By the head
    that `dragoman align` chose; computed in torch, so slower."""
    json: bool = False
    """Print a JSON object for each line: text, scores, alternatives, flags, alignment."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    engine: EngineName = "auto"
    """native is compiled for this processor, and what auto takes for one model on a CPU."""
    precision: PrecisionName = "auto"
    """Of the native engine; auto is its fastest: `dragoman doctor` says which."""
    max_source_tokens: int | None = None
    """Longer lines are split into pieces; the longest source of training if not given. What no model has learned is
    copied in such a line: more than 64 characters without a letter or digit; more than 64 in which one character or a
    pattern of up to 8 repeats; more than 256 of ASCII without white space, such as base64."""
    max_line_characters: int = MAX_LINE_CHARACTERS
    """A longer line is copied as a whole."""
    threads: int | None = None
    """Of the native engine; one for each core if not given."""
    shortlist: bool = False
    """Of the native engine: use the shortlist of `dragoman shortlist`; faster, and a little worse."""
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    """Size of a batch: rows x source length x beam."""

    def run(self) -> None:
        """Translate everything, in order, reading a little ahead."""
        from dragoman.data.readers import LONGEST_LINE, read_lines
        from dragoman.translation.translator import Translator

        alignment = None
        if self.alignment:
            from dragoman.alignment.heads import AlignmentHead

            if self.ensemble:
                raise SettingsError("--alignment is of one model, not of an ensemble: leave out one of the two")
            alignment = AlignmentHead.load(self.model)
        if self.n_best > 1 and not self.json:
            raise SettingsError("--n-best needs --json, which keeps one line for each line")
        search = SearchConfig(
            beam=self.beam,
            length_penalty=self.length_penalty,
            n_best=1 if self.sample else self.n_best,
            max_length_factor=self.max_length_factor,
            max_length_offset=self.max_length_offset,
            min_length_factor=self.min_length_factor,
        )
        translator = Translator.load(
            self.model,
            *self.ensemble,
            device=self.device,
            engine=self.engine,
            precision=self.precision,
            threads=self.threads,
            shortlist=self.shortlist,
            max_source_tokens=self.max_source_tokens,
            max_line_characters=self.max_line_characters,
            batch_tokens=self.batch_tokens,
        )
        bar = _Bar(translator.engine)
        # A character has up to four bytes.
        longest = max(LONGEST_LINE, 4 * self.max_line_characters)
        translations = translator.translate_stream(
            read_lines(str(self.file or "-"), longest),
            search=search,
            sampling=self._sampling(),
            prefixes=read_lines(str(self.prefixes)) if self.prefixes is not None else None,
            alignment=alignment,
            on_progress=bar.on_progress,
        )
        for number, translation in enumerate(bar.watch(translations), 1):
            line = _as_json(translation) if self.json else _as_text(translation)
            sys.stdout.buffer.write(line.encode() + b"\n")
            for warning in _warnings(translation):
                complain(f"line {number}: {warning}")

    def _sampling(self) -> SamplingConfig | None:
        if not self.sample:
            return None
        return SamplingConfig(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            samples=self.n_best,
            seed=self.seed,
        )


class _Bar:
    """Shows lines, rate and engine while a person waits; of a long line also pieces, their rate and the time left.

    Not when the output itself goes to the terminal.
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
        """Show how far a long line is."""
        if line.pieces == 0:
            self._progress.reset(self._long, total=line.all_characters, visible=True)
        seconds = self._progress.tasks[self._long].elapsed
        rate = f", {line.pieces / seconds:,.1f} a second" if seconds and line.pieces else ""
        self._progress.update(
            self._long, completed=line.characters, description=f"  a long line: {line.pieces:,} pieces{rate}"
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
        yield "not UTF-8; what could not be read was replaced by U+FFFD"
    if translation.cut:
        yield (
            "a sentence longer than any in training was split at some word; check its translation, or see "
            "--max-source-tokens"
        )
    if translation.too_long:
        yield "more characters than --max-line-characters; the line was copied, not translated"
    elif translation.copied:
        yield (
            f"{translation.copied:,} of its characters were copied, not translated: no model has learned such text; "
            "see --max-source-tokens"
        )
    if translation.truncated:
        yield "the translation was ended by the maximum length; see --max-length-offset"
