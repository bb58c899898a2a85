"""dragoman attention"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from tyro.conf import Positional, arg

from dragoman.attention_page.kinds import Kind
from dragoman.cli.bars import bar
from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Device, Flag, ModelDirectory, OptionalCount, OptionalFile, OptionalText
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError, StorageError
from dragoman.printing import printable

if TYPE_CHECKING:
    from dragoman.attention_page.kinds import Head
    from dragoman.attention_page.map import AttentionMap
    from dragoman.attention_page.statistics import HeadMeasurements
    from dragoman.data.readers import Pair
    from dragoman.representation.text_analyzer import TextAnalyzer
    from dragoman.serving.attention_server import Without
    from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Show one sentence as a page (--out page.html, or --serve)."""

    target: OptionalText = None
    """Translation to show; a translation model's own by default."""
    quick: Flag = False
    """Skip translating or predicting without each head, which takes as long as several translations."""
    serve: Flag = False
    """Serve the page on this machine instead of writing a file; several heads can then be switched off together."""
    port: Count = 0
    """Port of --serve; 0 selects a free one."""


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Draw one sentence as a picture (--out picture.png or .svg) or write arrays (.npz, .json)."""

    words: Flag = False
    """Join subwords into words. The page always offers both."""
    kind: Literal["auto", Kind] = "auto"
    """Attention to draw; auto: encoder_decoder, or the self-attention of a model that reads one text."""
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
    """Number of least important heads to switch off; prints BLEU of the corpus, or the loss, with and without them."""
    sentences: Count = 500
    """Maximum number of pairs, or of windows of text, to read."""


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
    """Sentence to translate, or text to read; with --report, a corpus (x.tsv, x.jsonl or a.en,a.de; of a language model
    or an encoder: a file or folder of text)."""
    out: OptionalFile = None
    """File to write: page.html, picture.png, picture.svg, arrays.npz or numbers.json."""
    device: Device = "auto"
    page: PageOptions = PageOptions()
    picture: PictureOptions = PictureOptions()
    report: ReportOptions = ReportOptions()

    def run(self) -> None:
        """Write or serve the page of one sentence, or the report on a corpus."""
        from dragoman.attention_page.map import check_suffix
        from dragoman.models.config import TextModelConfig
        from dragoman.models.description import load_description

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
        path = self.out or self.report.report
        if self.out is not None:
            check_suffix(self.out)
        if path is not None and not path.parent.is_dir():
            raise StorageError(f"{path}: cannot write: the directory {path.parent} does not exist")
        if isinstance(load_description(self.model).model, TextModelConfig):
            self._run_on_text()
        else:
            self._run_on_pair()

    def _run_on_pair(self) -> None:
        from dragoman.translation.translator import Translator

        if self.report.report is not None:
            # Heads can be switched off in torch only.
            self._corpus(Translator.load(self.model, device=self.device, engine="torch"), self.report.report)
            return
        translator = Translator.load(self.model, device=self.device)
        attention = translator.attention(
            self.text, self.page.target, details=self._with_details, without_heads=self._without_heads
        )
        if self.out is None:
            self._serve(translator.translate_without, attention)
        else:
            self._save(attention, self.out)

    def _run_on_text(self) -> None:
        from dragoman.representation.text_analyzer import TextAnalyzer

        if self.page.target is not None:
            raise SettingsError(f"--target is a translation, and {self.model} does not translate: leave it out")
        analyzer = TextAnalyzer.load(self.model, device=self.device)
        if self.report.report is not None:
            self._texts(analyzer, self.report.report)
            return
        attention = analyzer.attention(self.text, details=self._with_details, without_heads=self._without_heads)
        if self.out is None:
            self._serve(analyzer.predict_without, attention)
        else:
            self._save(attention, self.out)

    @property
    def _with_details(self) -> bool:
        from dragoman.attention_page.map import WITH_DETAILS

        return self.out is None or self.out.suffix in WITH_DETAILS

    @property
    def _without_heads(self) -> bool:
        return self.page.serve or (self.out is not None and self.out.suffix == ".html" and not self.page.quick)

    def _save(self, attention: AttentionMap, out: Path) -> None:
        from dragoman.attention_page.kinds import Head

        if self.picture.words and out.suffix != ".html":
            attention = attention.words()
        layer, number = self.picture.layer, self.picture.head
        kind = attention.main_kind if self.picture.kind == "auto" else self.picture.kind
        head = None if layer is None or number is None else Head(kind, layer - 1, number - 1)
        with written_to(out):
            attention.save(out, kind=kind, head=head)
        print(printable(attention.text))
        if attention.translation or not attention.is_text:
            print(printable(attention.translation))
        print(printable(out))

    def _serve(self, without: Without, attention: AttentionMap) -> None:
        from dragoman.serving.attention_server import AttentionServer

        with AttentionServer(without, attention, self.page.port) as server:
            print(f"{server.url}   (press Ctrl-C to stop)", flush=True)
            server.run()

    def _corpus(self, translator: Translator, out: Path) -> None:
        from dragoman.inspection.head_measurements import read_measured_pairs

        self._check_report()
        pairs, left_out = read_measured_pairs(self.text, self.report.sentences, translator.fits)
        with bar("switching heads off") as on_progress:
            measurements = translator.measure_heads(pairs, on_progress=on_progress)
        self._write_report(measurements, f"{measurements.sentences:,} pairs", out)
        if left_out:
            print(f"{left_out:,} pairs were left out because a side is empty or longer than any in training")
        if self.report.prune:
            self._prune(translator, pairs, measurements)

    def _texts(self, analyzer: TextAnalyzer, out: Path) -> None:
        from dragoman.data.texts import find_texts, read_texts

        self._check_report()
        windows = analyzer.windows(read_texts(find_texts([self.text])), self.report.sentences)
        with bar("switching heads off") as on_progress:
            measurements = analyzer.measure_heads(windows, on_progress=on_progress)
        self._write_report(measurements, f"{measurements.sentences:,} windows", out)
        if self.report.prune:
            heads = self._pruned_heads(measurements)
            print(f"without {', '.join(head.name_among(measurements.names) for head in heads)}:")
            print(f"loss {measurements.loss:.3f} before, {analyzer.loss_without(windows, heads):.3f} after")

    def _check_report(self) -> None:
        if self.report.sentences < 1 or self.report.prune < 0:
            raise SettingsError("--sentences must be at least 1, and --prune at least 0")

    def _write_report(self, measurements: HeadMeasurements, unit: str, out: Path) -> None:
        from dragoman.attention_page.report import save_report, text_table

        with written_to(out):
            save_report(measurements, f"The heads of {printable(self.model)} on {printable(self.text)}", out)
        print(text_table(measurements))
        print(f"{unit} of {printable(self.text)}, loss {measurements.loss:.3f} nats per token")
        print(printable(out))

    def _pruned_heads(self, measurements: HeadMeasurements) -> list[Head]:
        from dragoman.inspection.pruning import heads_to_prune

        try:
            return heads_to_prune(measurements, self.report.prune)
        except SettingsError as error:
            raise SettingsError(f"--prune {self.report.prune}: {error}") from None

    def _prune(self, translator: Translator, pairs: list[Pair], measurements: HeadMeasurements) -> None:
        from dragoman.inspection.pruning import prune
        from dragoman.models.description import load_description

        heads = self._pruned_heads(measurements)
        pruned = prune(
            translator.model,
            heads,
            pairs,
            lambda lines: [translation.text for translation in translator.translate(lines)],
            target_language=load_description(self.model).target_language,
        )
        print(f"without {', '.join(head.name for head in heads)}:")
        print(f"BLEU {pruned.before:.2f} before, {pruned.after:.2f} after")
