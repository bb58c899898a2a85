"""Learn the shortlist of a model from a parallel corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.readers import Pair
from dragoman.errors import CorpusError
from dragoman.models.description import load_description
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.loading import load_tokenizer
from dragoman.translation.shortlist import Shortlist, learn_shortlist


@dataclass(frozen=True, kw_only=True)
class ShortlistCorpus:
    """Pairs as a model's ids, to learn its shortlist from; none of them empty or longer than any in training.

    too_long                                the number of pairs left out because of their length
    longest                                 the number of subwords that a side may have
    source_vocabulary, target_vocabulary    of the model
    """

    tokenizer: Tokenizer
    sources: list[list[int]]
    targets: list[list[int]]
    too_long: int
    longest: int
    source_vocabulary: int
    target_vocabulary: int

    @classmethod
    def encode(cls, model: Path, pairs: Iterable[Pair], *, where: str = "the corpus") -> ShortlistCorpus:
        """Encode pairs, about 10 KB of memory for each, with the tokenizer of a model directory.

        where  names the corpus in messages

        Raises UserError when the directory holds no model, or no pair can be used.
        """
        description = load_description(model)
        tokenizer = load_tokenizer(model, description, right_to_left=False)
        longest = description.trained_length
        every = list(pairs)
        encoded = zip(
            tokenizer.encode_source([pair.source for pair in every]),
            tokenizer.encode_target([pair.target for pair in every]),
            strict=True,
        )
        rows = [(source, target) for source, target in encoded if source and target]
        # Memory grows with the product of a pair's lengths: a megabyte on a line would need terabytes.
        kept = [(source, target) for source, target in rows if max(len(source), len(target)) <= longest]
        if not kept:
            raise CorpusError(
                f"{where}: no pairs to learn from: both sides need text, of at most {longest:,} "
                "subwords, the longest of training"
            )
        return cls(
            tokenizer=tokenizer,
            sources=[source for source, _ in kept],
            targets=[target for _, target in kept],
            too_long=len(rows) - len(kept),
            longest=longest,
            source_vocabulary=description.model.source_vocabulary,
            target_vocabulary=description.model.target_vocabulary,
        )

    def learn(
        self, *, likely: int, frequent: int, on_progress: Callable[[int, float], None] | None = None
    ) -> Shortlist:
        """Learn the shortlist; see `learn_shortlist`. `Shortlist.save` writes it beside the model."""
        joint = self.tokenizer.joint
        return learn_shortlist(
            self.sources,
            self.targets,
            self.source_vocabulary,
            joint=joint,
            special=[] if joint else self.tokenizer.target_bytes,
            likely=likely,
            frequent=frequent,
            on_progress=on_progress,
        )
