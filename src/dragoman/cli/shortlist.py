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
        from dragoman.data.tokenizer import Tokenizer
        from dragoman.decoding.shortlist import SHORTLIST_FILE, learn_shortlist
        from dragoman.models.description import load_description

        config = load_description(self.model).model
        tokenizer = Tokenizer.load(self.model)
        pairs = list(islice(read_corpora([parse_corpus(each) for each in self.corpus]), self.pairs))
        if not pairs:
            raise UserError(f"{', '.join(self.corpus)}: no pairs to learn from")
        shortlist = learn_shortlist(
            tokenizer.encode_source([pair.source for pair in pairs]),
            tokenizer.encode_target([pair.target for pair in pairs]),
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
