"""dragoman attention"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from dragoman.errors import UserError

if TYPE_CHECKING:
    from dragoman.attention_page.kinds import Head
    from dragoman.attention_page.statistics import HeadStudy
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
    kind: Literal["encoder_self", "decoder_self", "encoder_decoder"] = "encoder_decoder"
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
        from dragoman.attention_page.map import SUFFIXES
        from dragoman.translation.translator import Translator

        if [self.out is not None, self.report is not None, self.serve].count(True) != 1:
            raise UserError(
                "give --out page.html for one sentence, --serve to look at it here, or --report report.html for a "
                "corpus"
            )
        if (self.layer is None) != (self.head is None):
            raise UserError("--layer and --head go together: give both for one head, none for all")
        if self.prune and self.report is None:
            raise UserError("--prune needs --report and a corpus")
        if self.serve:
            self._serve(Translator.load(self.model, device=self.device))
            return
        path = self.out or self.report
        assert path is not None
        if self.out is not None and path.suffix not in SUFFIXES:
            raise UserError(f"{path}: choose a name that ends in {', '.join(SUFFIXES)}")
        if not path.parent.is_dir():
            raise UserError(f"{path}: there is no directory {path.parent} to write into")
        if self.out is not None:
            self._sentence(Translator.load(self.model, device=self.device), self.out)
        else:
            # Heads are switched off in torch, which must then be what translates.
            self._corpus(Translator.load(self.model, device=self.device, engine="torch"), path)

    def _sentence(self, translator: Translator, out: Path) -> None:
        from dragoman.attention_page.kinds import Head
        from dragoman.attention_page.plots import draw_head, draw_heads
        from dragoman.files import write_atomically

        page = out.suffix == ".html"
        attention = translator.attention(
            self.text,
            self.target,
            details=page or out.suffix == ".npz",
            without_heads=page and not self.quick,
        )
        if self.words and not page:
            attention = attention.words()
        if out.suffix in (".png", ".svg"):
            form: Literal["png", "svg"] = "png" if out.suffix == ".png" else "svg"
            if self.layer is not None and self.head is not None:
                picture = draw_head(attention, Head(self.kind, self.layer - 1, self.head - 1), form)
            else:
                picture = draw_heads(attention, form, self.kind)
            with _written(out):
                write_atomically(out, picture)
        else:
            with _written(out):
                attention.save(out)
        print(f"{attention.text}\n{attention.translation}\n{out}")

    def _serve(self, translator: Translator) -> None:
        from dragoman.serving.attention import AttentionServer

        attention = translator.attention(self.text, self.target, without_heads=True)
        with AttentionServer(translator, attention, self.port) as server:
            print(f"{server.url}   (until Control-C)", flush=True)
            server.serve_forever()

    def _corpus(self, translator: Translator, out: Path) -> None:
        from itertools import islice

        from dragoman.attention_page.report import COLUMNS, build_report, by_importance, cells, name_of
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.files import write_atomically

        if self.sentences < 1 or self.prune < 0:
            raise UserError("--sentences must be at least 1, and --prune at least 0")
        read = list(islice(read_pairs(parse_corpus(self.text)), self.sentences))
        pairs = [pair for pair, fits in zip(read, translator.fits(read), strict=True) if fits and all(pair)]
        if not pairs:
            raise UserError(f"{self.text} has no pairs to measure on")
        study = _watched_study(translator, pairs)
        with _written(out):
            write_atomically(out, build_report(study, f"The heads of {self.model} on {self.text}").encode())
        rows = [[name_of(each), each.statistics.role[0], *cells(each)] for each in by_importance(study.heads)]
        table = [["head", "looks at", *COLUMNS], *rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        for row in table:
            left = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths, strict=False)]
            right = [f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
            print("  ".join([*left, *right]).rstrip())
        print(f"on {study.sentences:,} pairs of {self.text}, loss {study.loss:.3f} nats per token\n{out}")
        if len(pairs) < len(read):
            print(f"{len(read) - len(pairs):,} pairs were left out: empty, or longer than any in training")
        heads = sum(each.importance is not None for each in study.heads)
        if self.prune >= heads:
            raise UserError(f"--prune {self.prune}: the model has {heads} heads, and one must be left")
        if self.prune:
            self._pruned(translator, pairs, study.least_important(self.prune))

    def _pruned(self, translator: Translator, pairs: list[Pair], heads: list[Head]) -> None:
        from dragoman.attention_page.kinds import NAMES
        from dragoman.evaluation.metrics import bleu_tokenizer_for, score_translations
        from dragoman.inspection.heads import heads_off
        from dragoman.models.description import load_description

        tokenize = bleu_tokenizer_for(load_description(self.model).target_language)

        def bleu(off: list[Head]) -> float:
            with heads_off(translator.model, [off]):
                outputs = [each.text for each in translator.translate([pair.source for pair in pairs])]
            return score_translations(outputs, [pair.target for pair in pairs], tokenize=tokenize).bleu

        names = ", ".join(f"{NAMES[head.kind]} {head.layer + 1}.{head.head + 1}" for head in heads)
        print(f"without {names}:\nBLEU {bleu([]):.2f} before, {bleu(heads):.2f} after")


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Let what keeps `path` from being written be a UserError that names it; files are written under another name."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error


def _watched_study(translator: Translator, pairs: list[Pair]) -> HeadStudy:
    """Show how far it is while a person waits."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("switching heads off"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("heads", total=None)
        return translator.study_heads(
            pairs, tell=lambda done, passes: progress.update(task, completed=done, total=passes)
        )
