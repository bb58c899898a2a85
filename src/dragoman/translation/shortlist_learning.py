"""Learning of a model's shortlist from a parallel corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.readers import Pair
from dragoman.errors import CorpusError
from dragoman.models.description import load_description, seq2seq_config
from dragoman.models.vocabularies import load_tokenizer
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.shortlist import Shortlist, learn_shortlist


@dataclass(frozen=True, kw_only=True)
class ShortlistCorpus:
    """Pairs encoded for a model, from which its shortlist is learned.

    Attributes:
        tokenizer: the tokenizer of the model.
        sources: source ids of each pair, at least one.
        targets: target ids of each pair, at least one.
        too_long: number of pairs left out because a side has more than `longest` subwords.
        longest: number of subwords of the longest side in the model's training.
        source_vocabulary: number of source subwords of the model.
        target_vocabulary: number of target subwords of the model.
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
        """Encode pairs with the tokenizer of a model directory; takes about 10 KB of memory per pair.

        Args:
            model: the model directory.
            pairs: the corpus.
            where: name of the corpus in messages.

        Returns:
            The encoded pairs.

        Raises:
            ModelError: if the directory contains no model.
            CorpusError: if no pair can be used.
        """
        description = load_description(model)
        tokenizer = load_tokenizer(model, description, right_to_left=False)
        config, longest = seq2seq_config(description, model), description.trained_length
        all_pairs = list(pairs)
        encoded = zip(
            tokenizer.encode_source([pair.source for pair in all_pairs]),
            tokenizer.encode_target([pair.target for pair in all_pairs]),
            strict=True,
        )
        rows = [(source, target) for source, target in encoded if source and target]
        # Memory grows with the product of a pair's lengths: a line of a megabyte would need terabytes.
        kept = [(source, target) for source, target in rows if max(len(source), len(target)) <= longest]
        if not kept:
            raise CorpusError(
                f"{where}: no pairs to learn from: both sides need text, of at most {longest:,} "
                "subwords, the length of the longest sentence in training"
            )
        return cls(
            tokenizer=tokenizer,
            sources=[source for source, _ in kept],
            targets=[target for _, target in kept],
            too_long=len(rows) - len(kept),
            longest=longest,
            source_vocabulary=config.source_vocabulary,
            target_vocabulary=config.target_vocabulary,
        )

    def learn(
        self, *, likely: int, frequent: int, on_progress: Callable[[int, float], None] | None = None
    ) -> Shortlist:
        """Return the learned shortlist; arguments as for `learn_shortlist`. `Shortlist.save` writes it."""
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
