"""dragoman align"""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Align:
    """Find the head whose attention aligns words best, for `dragoman translate --alignment`."""

    model: Positional[Path]
    """A model directory; the choice is written into it."""
    corpus: Positional[str]
    """Pairs, such as those of training: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    gold: Path | None = None
    """A reference in Pharaoh's format, a line for each pair: 0-0 is sure, 0?0 possible. Without one, a lexicon is
    learnt from the corpus in both directions, and what both agree on serves as reference."""
    pairs: int = 500
    """Judge the heads by so many pairs, the first ones."""
    lexicon_pairs: int = 50_000
    """Learn the lexicon from so many pairs at most."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""

    def run(self) -> None:
        """Compare the heads, print the best, write the very best."""
        from itertools import islice

        from dragoman.alignment.head_ranking import rank_heads_by_lexicons, rank_heads_by_reference
        from dragoman.alignment.reference import read_reference_alignments
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.models.description import ALIGNMENT_FILE
        from dragoman.translation.translator import Translator

        translator = Translator.load(self.model, device=self.device, engine="torch")
        corpus = read_pairs(parse_corpus(self.corpus))
        if self.gold is not None:
            pairs = list(islice(corpus, max(0, self.pairs)))
            references = read_reference_alignments(self.gold, pairs, f"of {self.corpus}")
            study = rank_heads_by_reference(translator, pairs, references, where=self.corpus)
        else:
            pairs = list(islice(corpus, max(0, self.pairs, self.lexicon_pairs)))
            study = rank_heads_by_lexicons(translator, pairs, compared=self.pairs, where=self.corpus)
        print(f"{'AER':>6} {'precision':>10} {'recall':>7}")
        for name, score in [*list(study.scores.items())[:5], ("diagonal", study.diagonal)]:
            print(f"{100 * score.error_rate:6.1f} {100 * score.precision:10.1f} {100 * score.recall:7.1f}   {name}")
        compared_with = (
            "links of the reference"
            if study.lexicon_pairs is None
            else f"links that lexicons of {study.lexicon_pairs:,} pairs agree on"
        )
        print(
            f"on the first {study.pairs:,} pairs of {printable(self.corpus)}, judged by {study.links:,} {compared_with}"
        )
        study.best.save(self.model)
        print(f"{printable(self.model / ALIGNMENT_FILE)}: {study.best}")
