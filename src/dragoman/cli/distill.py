"""dragoman distill"""

import json
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from dragoman.errors import UserError


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
    beam: int = 4
    """Hypotheses kept in search."""

    def run(self) -> None:
        """Translate every source; leave out what was cut short or split."""
        from rich.console import Console
        from rich.progress import track

        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.files import write_atomically
        from dragoman.search.config import SearchConfig
        from dragoman.translation.translator import Translator

        if self.out.suffix != ".jsonl":
            raise UserError(f"{self.out}: give a name that ends in .jsonl")
        pairs = read_corpora([parse_corpus(each) for each in self.corpus])
        sources = list(dict.fromkeys(pair.source for pair in pairs if pair.source.strip()))
        translator = Translator.load(self.model)
        console = Console(stderr=True)
        found = track(
            translator.translate_stream(sources, search=SearchConfig(beam=self.beam)),
            f"translating ({translator.engine})",
            total=len(sources),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        lines = [
            json.dumps({"source": source, "target": each.text}, ensure_ascii=False) + "\n"
            for source, each in zip(sources, found, strict=True)
            if each.text and not each.truncated and each.pieces == 1
        ]
        write_atomically(self.out, "".join(lines).encode())
        print(f"{self.out}: {len(lines):,} pairs; {len(sources) - len(lines):,} sources were too long or ran on")
