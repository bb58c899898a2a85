"""dragoman shortlist"""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class LearnShortlist:
    """Learn which target subwords go with which source subwords, for `dragoman translate --shortlist`."""

    model: Positional[Path]
    """A model directory; the shortlist is written into it."""
    corpus: Positional[tuple[str, ...]]
    """What it was trained on: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    likely: int = 100
    """Target subwords kept for each source subword."""
    frequent: int = 500
    """Target subwords that every sentence may use, the most frequent ones."""
    pairs: int = 100_000
    """Read so many pairs at most; about 10 KB of memory for each."""

    def run(self) -> None:
        """Read, learn, write."""
        from itertools import islice

        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.models.description import SHORTLIST_FILE
        from dragoman.translation.shortlist_learning import ShortlistCorpus

        pairs = islice(read_corpora([parse_corpus(each) for each in self.corpus]), self.pairs)
        corpus = ShortlistCorpus.encode(self.model, pairs, where=", ".join(self.corpus))
        if corpus.too_long:
            print(f"pairs left out as longer than any in training ({corpus.longest:,} subwords): {corpus.too_long:,}")
        shortlist = corpus.learn(
            likely=self.likely,
            frequent=self.frequent,
            on_progress=lambda number, likelihood: print(f"round {number}: log-likelihood {likelihood:.3f} a subword"),
        )
        shortlist.save(self.model)
        own = len(shortlist.likely) / corpus.source_vocabulary
        print(
            f"{printable(self.model / SHORTLIST_FILE)}: of {corpus.target_vocabulary:,} subwords, "
            f"{len(shortlist.always)} for every sentence and {own:.0f} more for each of its subwords"
        )
