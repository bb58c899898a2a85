"""dragoman distill"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import arg

from dragoman.cli.examples import Example
from dragoman.cli.options import CorpusNames, Count, ModelDirectory
from dragoman.printing import printable
from dragoman.search.config import SearchConfig


@dataclass(frozen=True, kw_only=True)
class Distill:
    """Replace the targets of a corpus by a model's translations, for a smaller model to learn (Kim and Rush 2016)."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Translate the training corpus", "dragoman distill models/mine mine.tsv --out distilled.jsonl"),
        Example("Train a faster model on the result", "dragoman train distilled.jsonl --preset fast --out models/fast"),
    )

    model: ModelDirectory
    corpus: CorpusNames
    out: Annotated[Path, arg(metavar="FILE")]
    """Corpus to write, .jsonl; each distinct source occurs once."""
    beam: Count = SearchConfig.beam
    """Beam size, at most 200."""

    def run(self) -> None:
        """Translate every source; leave out those that were split or reached the maximum length."""
        from rich.console import Console
        from rich.progress import Progress

        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.translation.distillation import check_name, distill, distinct_sources, write_pairs
        from dragoman.translation.translator import Translator

        check_name(self.out)
        sources = distinct_sources(read_corpora([parse_corpus(name) for name in self.corpus]))
        translator = Translator.load(self.model)
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task(f"translating ({translator.engine})", total=len(sources))
            pairs = distill(
                translator,
                sources,
                search=SearchConfig(beam=self.beam),
                on_progress=lambda done: progress.update(task, completed=done),
            )
        write_pairs(self.out, pairs)
        left_out = len(sources) - len(pairs)
        print(f"{printable(self.out)}: {len(pairs):,} pairs; {left_out:,} sources left out (split or truncated)")
