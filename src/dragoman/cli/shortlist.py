"""dragoman shortlist"""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from dragoman.errors import UserError


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
        from dragoman.models.description import load_description
        from dragoman.text.tokenizer import Tokenizer
        from dragoman.translation.shortlist import SHORTLIST_FILE, learn_shortlist

        description = load_description(self.model)
        config, limit = description.model, description.trained_length
        tokenizer = Tokenizer.load(self.model)
        pairs = list(islice(read_corpora([parse_corpus(each) for each in self.corpus]), self.pairs))
        encoded = zip(
            tokenizer.encode_source([pair.source for pair in pairs]),
            tokenizer.encode_target([pair.target for pair in pairs]),
            strict=True,
        )
        # Memory grows with the product of a pair's lengths: a megabyte on a line would need terabytes.
        rows = [(source, target) for source, target in encoded if source and target]
        kept = [(source, target) for source, target in rows if max(len(source), len(target)) <= limit]
        if not kept:
            raise UserError(
                f"{', '.join(self.corpus)}: no pairs to learn from: both sides need text, of at most {limit:,} "
                "subwords, the longest of training"
            )
        if len(kept) < len(rows):
            print(f"pairs left out as longer than any in training ({limit:,} subwords): {len(rows) - len(kept):,}")
        shortlist = learn_shortlist(
            [source for source, _ in kept],
            [target for _, target in kept],
            config.source_vocabulary,
            joint=tokenizer.joint,
            special=[] if tokenizer.joint else tokenizer.target_bytes,
            likely=self.likely,
            frequent=self.frequent,
            tell=lambda number, likelihood: print(f"round {number}: log-likelihood {likelihood:.3f} a subword"),
        )
        shortlist.save(self.model)
        own = len(shortlist.likely) / config.source_vocabulary
        print(
            f"{self.model / SHORTLIST_FILE}: of {config.target_vocabulary:,} subwords, {len(shortlist.always)} for "
            f"every sentence and {own:.0f} more for each of its subwords"
        )
