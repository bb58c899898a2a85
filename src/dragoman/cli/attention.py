"""dragoman attention"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.attention_page.kinds import Kind
from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Device, Flag, ModelDirectory, OptionalCount, OptionalFile, OptionalText
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError, StorageError
from dragoman.printing import printable

if TYPE_CHECKING:
    from dragoman.attention_page.statistics import HeadMeasurements
    from dragoman.data.readers import Pair
    from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Show one sentence as a page (--out page.html, or --serve)."""

    target: OptionalText = None
    """Translation to show; the model's own by default."""
    quick: Flag = False
    """Skip translating without each head, which takes as long as several translations."""
    serve: Flag = False
    """Serve the page on this machine instead of writing a file; several heads can then be switched off together."""
    port: Count = 0
    """Port of --serve; 0 selects a free one."""


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Draw one sentence as a picture (--out picture.png or .svg) or write arrays (.npz, .json)."""

    words: Flag = False
    """Join subwords into words. The page always offers both."""
    kind: Kind = "encoder_decoder"
    """Attention to draw."""
    layer: OptionalCount = None
    """Layer to draw, from 1 (requires --head); all layers by default."""
    head: OptionalCount = None
    """Head to draw, from 1 (requires --layer); all heads by default."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Measure every head over a corpus."""

    report: OptionalFile = None
    """Write the measurements of every head over the corpus to this page, and print them."""
    prune: Count = 0
    """Number of least important heads to switch off; prints BLEU of the corpus with and without them."""
    sentences: Count = 500
    """Maximum number of pairs to read."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Show the attention of every layer and head for a sentence, or measure every head over a corpus."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Write a page that opens offline in any browser",
            'dragoman attention models/mine "Turn off the light." --out page.html',
        ),
        Example("Measure every head over a corpus", "dragoman attention models/mine test.tsv --report heads.html"),
    )

    model: ModelDirectory
    text: Annotated[Positional[str], arg(metavar="TEXT")]
    """Sentence to translate; with --report, a corpus (x.tsv, x.jsonl or a.en,a.de)."""
    out: OptionalFile = None
    """File to write: page.html, picture.png, picture.svg, arrays.npz or numbers.json."""
    device: Device = "auto"
    page: PageOptions = PageOptions()
    picture: PictureOptions = PictureOptions()
    report: ReportOptions = ReportOptions()

    def run(self) -> None:
        """Write or serve the page of one sentence, or the report on a corpus."""
        from dragoman.attention_page.map import check_suffix
        from dragoman.translation.translator import Translator

        if [self.out is not None, self.report.report is not None, self.page.serve].count(True) != 1:
            raise SettingsError(
                "use exactly one of --out page.html (one sentence), --serve (one sentence, in a local browser) and "
                "--report report.html (a corpus)"
            )
        if (self.picture.layer is None) != (self.picture.head is None):
            raise SettingsError(
                "--layer and --head require each other: give both to draw one head, neither to draw all"
            )
        if self.report.prune and self.report.report is None:
            raise SettingsError("--prune requires --report and a corpus")
        if self.page.serve:
            self._serve(Translator.load(self.model, device=self.device))
            return
        path = self.out or self.report.report
        assert path is not None
        if self.out is not None:
            check_suffix(path)
        if not path.parent.is_dir():
            raise StorageError(f"{path}: cannot write: the directory {path.parent} does not exist")
        if self.out is not None:
            self._sentence(Translator.load(self.model, device=self.device), self.out)
        else:
            # Heads can be switched off in torch only.
            self._corpus(Translator.load(self.model, device=self.device, engine="torch"), path)

    def _sentence(self, translator: Translator, out: Path) -> None:
        from dragoman.attention_page.kinds import Head
        from dragoman.attention_page.map import WITH_DETAILS

        page = out.suffix == ".html"
        attention = translator.attention(
            self.text,
            self.page.target,
            details=out.suffix in WITH_DETAILS,
            without_heads=page and not self.page.quick,
        )
        if self.picture.words and not page:
            attention = attention.words()
        kind, layer, number = self.picture.kind, self.picture.layer, self.picture.head
        head = None if layer is None or number is None else Head(kind, layer - 1, number - 1)
        with written_to(out):
            attention.save(out, kind=kind, head=head)
        print(printable(attention.text), printable(attention.translation), printable(out), sep="\n")

    def _serve(self, translator: Translator) -> None:
        from dragoman.serving.attention import AttentionServer

        attention = translator.attention(self.text, self.page.target, without_heads=True)
        with AttentionServer(translator, attention, self.page.port) as server:
            print(f"{server.url}   (press Ctrl-C to stop)", flush=True)
            server.serve_forever()

    def _corpus(self, translator: Translator, out: Path) -> None:
        from dragoman.attention_page.report import save_report, text_table
        from dragoman.inspection.head_measurements import read_measured_pairs

        if self.report.sentences < 1 or self.report.prune < 0:
            raise SettingsError("--sentences must be at least 1, and --prune at least 0")
        pairs, left_out = read_measured_pairs(self.text, self.report.sentences, translator.fits)
        measurements = _measure_with_bar(translator, pairs)
        with written_to(out):
            save_report(measurements, f"The heads of {printable(self.model)} on {printable(self.text)}", out)
        print(text_table(measurements))
        print(
            f"{measurements.sentences:,} pairs of {printable(self.text)}, loss {measurements.loss:.3f} nats per token"
        )
        print(printable(out))
        if left_out:
            print(f"{left_out:,} pairs were left out because a side is empty or longer than any in training")
        if self.report.prune:
            self._prune(translator, pairs, measurements)

    def _prune(self, translator: Translator, pairs: list[Pair], measurements: HeadMeasurements) -> None:
        from dragoman.inspection.pruning import heads_to_prune, prune
        from dragoman.models.description import load_description

        try:
            heads = heads_to_prune(measurements, self.report.prune)
        except SettingsError as error:
            raise SettingsError(f"--prune {self.report.prune}: {error}") from None
        pruned = prune(
            translator.model,
            heads,
            pairs,
            lambda lines: [translation.text for translation in translator.translate(lines)],
            target_language=load_description(self.model).target_language,
        )
        print(f"without {', '.join(head.name for head in heads)}:")
        print(f"BLEU {pruned.before:.2f} before, {pruned.after:.2f} after")


def _measure_with_bar(translator: Translator, pairs: list[Pair]) -> HeadMeasurements:
    """Measure every head, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("switching heads off"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("heads", total=None)
        return translator.measure_heads(
            pairs, on_progress=lambda done, passes: progress.update(task, completed=done, total=passes)
        )
