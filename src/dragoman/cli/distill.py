"""dragoman distill"""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from dragoman.printing import printable
from dragoman.search.config import SearchConfig


@dataclass(frozen=True, kw_only=True)
class Distill:
    """Write a corpus anew with a model's own translations, for a smaller model to learn from.

    What a teacher says is more regular than what people wrote, and easier to learn (Kim and Rush, "Sequence-level
    knowledge distillation", 2016).
    """

    model: Positional[Path]
    """The teacher: a model directory."""
    corpus: Positional[tuple[str, ...]]
    """Corpora: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst); only their sources are used, each once."""
    out: Path
    """The new corpus, .jsonl."""
    beam: int = SearchConfig.beam
    """Hypotheses kept in search."""

    def run(self) -> None:
        """Translate every source; leave out what was cut short or split."""
        from rich.console import Console
        from rich.progress import Progress

        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.translation.distillation import check_name, distill, distinct_sources, write_pairs
        from dragoman.translation.translator import Translator

        check_name(self.out)
        sources = distinct_sources(read_corpora([parse_corpus(each) for each in self.corpus]))
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
        print(f"{printable(self.out)}: {len(pairs):,} pairs; {left_out:,} sources were too long or ran on")
