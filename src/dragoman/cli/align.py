"""dragoman align"""

from dataclasses import dataclass
from typing import ClassVar

from dragoman.cli.examples import Example
from dragoman.cli.options import CorpusName, Count, Device, ModelDirectory, OptionalFile
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Align:
    """Find the attention head that aligns words best, for `dragoman translate --alignment`."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Select a head with the training corpus, without a reference", "dragoman align models/mine mine.tsv"),
        Example("Select it with reference alignments", "dragoman align models/mine test.tsv --reference test.pharaoh"),
    )

    model: ModelDirectory
    corpus: CorpusName
    reference: OptionalFile = None
    """Reference alignments (Pharaoh format, one line per pair: 0-0 sure, 0?0 possible); by default learned lexicons."""
    pairs: Count = 500
    """Number of leading pairs used to rank heads."""
    lexicon_pairs: Count = 50_000
    """Maximum number of pairs from which the lexicons are learned."""
    device: Device = "auto"

    def run(self) -> None:
        """Rank the heads, print the best five, and write the best into the model directory."""
        from itertools import islice

        from dragoman.alignment.head_ranking import rank_heads_by_lexicons, rank_heads_by_reference
        from dragoman.alignment.reference import read_reference_alignments
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.models.description import ALIGNMENT_FILE
        from dragoman.translation.translator import Translator

        translator = Translator.load(self.model, device=self.device, engine="torch")
        corpus = read_pairs(parse_corpus(self.corpus))
        if self.reference is not None:
            pairs = list(islice(corpus, max(0, self.pairs)))
            references = read_reference_alignments(self.reference, pairs, self.corpus)
            ranking = rank_heads_by_reference(translator, pairs, references, where=self.corpus)
        else:
            pairs = list(islice(corpus, max(0, self.pairs, self.lexicon_pairs)))
            ranking = rank_heads_by_lexicons(translator, pairs, compared=self.pairs, where=self.corpus)
        print(f"{'AER':>6} {'precision':>10} {'recall':>7}")
        for head, metrics in [*list(ranking.metrics.items())[:5], ("diagonal", ranking.diagonal)]:
            print(
                f"{100 * metrics.error_rate:6.1f} {100 * metrics.precision:10.1f} {100 * metrics.recall:7.1f}   {head}"
            )
        reference_links = (
            "links of the reference"
            if ranking.lexicon_pairs is None
            else f"links on which lexicons of {ranking.lexicon_pairs:,} pairs agree"
        )
        print(
            f"first {ranking.pairs:,} pairs of {printable(self.corpus)}, ranked by {ranking.links:,} {reference_links}"
        )
        ranking.best.save(self.model)
        print(f"{printable(self.model / ALIGNMENT_FILE)}: {ranking.best}")
