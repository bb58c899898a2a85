"""dragoman attention"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from dragoman.attention_page.kinds import Kind
from dragoman.errors import SettingsError, StorageError
from dragoman.printing import printable

if TYPE_CHECKING:
    from dragoman.attention_page.statistics import HeadMeasurements
    from dragoman.data.readers import Pair
    from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Attention:
    """See where a model looks: every layer, every head, as a page, a picture or numbers; or figures over a corpus."""

    model: Positional[Path]
    """A model directory."""
    text: Positional[str]
    """A sentence; with --report, a corpus: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    out: Path | None = None
    """What to write: page.html (to look at, no network needed), picture.png, picture.svg, arrays.npz, numbers.json."""
    target: str | None = None
    """The translation to show; the model's own if not given."""
    words: bool = False
    """Put subwords together to words (of all but the page, which shows both)."""
    kind: Kind = "encoder_decoder"
    """Of a picture: which attention."""
    layer: int | None = None
    """Of a picture: this layer, from 1, with --head; all heads of all layers if not given."""
    head: int | None = None
    """Of a picture: this head, from 1."""
    serve: bool = False
    """Show the page at an address of this machine instead, where several heads can be switched off together."""
    port: int = 0
    """Of --serve; 0 takes one that is free."""
    quick: bool = False
    """Of a page: leave out what happens without each head, which takes as long as some translations."""
    report: Path | None = None
    """Write figures of every head over the corpus to this page, and print them."""
    prune: int = 0
    """Of --report: switch the so many least important heads off, and translate the corpus with and without them."""
    sentences: int = 500
    """Of --report: read so many pairs at most."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""

    def run(self) -> None:
        """One sentence, or a corpus."""
        from dragoman.attention_page.map import check_suffix
        from dragoman.translation.translator import Translator

        if [self.out is not None, self.report is not None, self.serve].count(True) != 1:
            raise SettingsError(
                "give --out page.html for one sentence, --serve to look at it here, or --report report.html for a "
                "corpus"
            )
        if (self.layer is None) != (self.head is None):
            raise SettingsError("--layer and --head go together: give both for one head, none for all")
        if self.prune and self.report is None:
            raise SettingsError("--prune needs --report and a corpus")
        if self.serve:
            self._serve(Translator.load(self.model, device=self.device))
            return
        path = self.out or self.report
        assert path is not None
        if self.out is not None:
            check_suffix(path)
        if not path.parent.is_dir():
            raise StorageError(f"{path}: there is no directory {path.parent} to write into")
        if self.out is not None:
            self._sentence(Translator.load(self.model, device=self.device), self.out)
        else:
            # Heads are switched off in torch, which must then be what translates.
            self._corpus(Translator.load(self.model, device=self.device, engine="torch"), path)

    def _sentence(self, translator: Translator, out: Path) -> None:
        from dragoman.attention_page.kinds import Head
        from dragoman.attention_page.map import WITH_DETAILS

        page = out.suffix == ".html"
        attention = translator.attention(
            self.text,
            self.target,
            details=out.suffix in WITH_DETAILS,
            without_heads=page and not self.quick,
        )
        if self.words and not page:
            attention = attention.words()
        head = None if self.layer is None or self.head is None else Head(self.kind, self.layer - 1, self.head - 1)
        with _written(out):
            attention.save(out, kind=self.kind, head=head)
        print(printable(attention.text), printable(attention.translation), printable(out), sep="\n")

    def _serve(self, translator: Translator) -> None:
        from dragoman.serving.attention import AttentionServer

        attention = translator.attention(self.text, self.target, without_heads=True)
        with AttentionServer(translator, attention, self.port) as server:
            print(f"{server.url}   (until Control-C)", flush=True)
            server.serve_forever()

    def _corpus(self, translator: Translator, out: Path) -> None:
        from dragoman.attention_page.report import save_report, text_table
        from dragoman.inspection.head_measurements import read_measured_pairs

        if self.sentences < 1 or self.prune < 0:
            raise SettingsError("--sentences must be at least 1, and --prune at least 0")
        pairs, left_out = read_measured_pairs(self.text, self.sentences, translator.fits)
        study = _watched_study(translator, pairs)
        with _written(out):
            save_report(study, f"The heads of {printable(self.model)} on {printable(self.text)}", out)
        print(text_table(study))
        print(f"on {study.sentences:,} pairs of {printable(self.text)}, loss {study.loss:.3f} nats per token")
        print(printable(out))
        if left_out:
            print(f"{left_out:,} pairs were left out: empty, or longer than any in training")
        if self.prune:
            self._pruned(translator, pairs, study)

    def _pruned(self, translator: Translator, pairs: list[Pair], study: HeadMeasurements) -> None:
        from dragoman.inspection.pruning import heads_to_prune, prune
        from dragoman.models.description import load_description

        try:
            heads = heads_to_prune(study, self.prune)
        except SettingsError as error:
            raise SettingsError(f"--prune {self.prune}: {error}") from None
        pruned = prune(
            translator.model,
            heads,
            pairs,
            lambda lines: [each.text for each in translator.translate(lines)],
            target_language=load_description(self.model).target_language,
        )
        print(f"without {', '.join(head.name for head in heads)}:")
        print(f"BLEU {pruned.before:.2f} before, {pruned.after:.2f} after")


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Turn an OSError inside into a StorageError that names `path`; files are first written under another name."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error


def _watched_study(translator: Translator, pairs: list[Pair]) -> HeadMeasurements:
    """Show how far it is while a person waits."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("switching heads off"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("heads", total=None)
        return translator.measure_heads(
            pairs, on_progress=lambda done, passes: progress.update(task, completed=done, total=passes)
        )
