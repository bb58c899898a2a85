"""dragoman shortlist"""

from dataclasses import dataclass
from typing import ClassVar

from dragoman.cli.examples import Example
from dragoman.cli.options import CorpusNames, Count, ModelDirectory
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class LearnShortlist:
    """Learn the likely target subwords of each source subword, for `dragoman translate --shortlist`."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Learn a shortlist from the training corpus", "dragoman shortlist models/mine mine.tsv"),
        Example("Translate with it", "dragoman translate models/mine letter.txt --shortlist"),
    )

    model: ModelDirectory
    corpus: CorpusNames
    likely: Count = 100
    """Number of target subwords kept per source subword."""
    frequent: Count = 500
    """Number of most frequent target subwords that every sentence may use."""
    pairs: Count = 100_000
    """Maximum number of pairs to read; each takes about 10 KB of memory."""

    def run(self) -> None:
        """Learn the shortlist and write it into the model directory."""
        from itertools import islice

        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.models.description import SHORTLIST_FILE
        from dragoman.translation.shortlist_learning import ShortlistCorpus

        pairs = islice(read_corpora([parse_corpus(name) for name in self.corpus]), self.pairs)
        corpus = ShortlistCorpus.encode(self.model, pairs, where=", ".join(self.corpus))
        if corpus.too_long:
            print(f"left out {corpus.too_long:,} pairs longer than any in training ({corpus.longest:,} subwords)")
        shortlist = corpus.learn(
            likely=self.likely,
            frequent=self.frequent,
            on_progress=lambda number, likelihood: print(
                f"round {number}: log-likelihood {likelihood:.3f} per subword"
            ),
        )
        shortlist.save(self.model)
        own = len(shortlist.likely) / corpus.source_vocabulary
        print(
            f"{printable(self.model / SHORTLIST_FILE)}: {len(shortlist.always)} of {corpus.target_vocabulary:,} "
            f"subwords for every sentence, and on average {own:.0f} more per source subword"
        )
