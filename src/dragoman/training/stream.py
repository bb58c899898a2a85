"""The endless stream of training batches, which can be entered at any cursor."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dragoman.data.batching import Batch, BatchingConfig, Cursor, batches, collate
from dragoman.data.prepared import PreparedCorpus
from dragoman.text.tokenizer import Tokenizer

# Batches are read from all over the file: after so many, the pages that they touched are given back.
RELEASE_EVERY = 10
# Pairs whose lengths are compared at once.
AT_ONCE = 2**18


@dataclass(frozen=True)
class BatchStream:
    """Batches of a prepared corpus: a pure function of the seed and the cursor.

    sampling_alpha   0: the best segmentation, as prepared; above: segmentations are sampled anew for
                     every batch with this smoothing (subword regularisation, Kudo 2018)
    """

    corpus: PreparedCorpus
    tokenizer: Tokenizer
    batching: BatchingConfig
    seed: int
    sampling_alpha: float = 0.0

    def longest(self) -> Batch:
        """A batch of the longest pairs, as many as the budget allows: none takes more memory."""
        sides = self.corpus.source_lengths, self.corpus.target_lengths
        longest = max(int(side.max()) for side in sides)
        rows = max(1, self.batching.batch_tokens // (longest + 1))
        # Some at a time: numbers for ten million pairs at once are 160 MB.
        candidates = np.empty(0, dtype=np.int64)
        for start in range(0, len(self.corpus), AT_ONCE):
            some = np.arange(start, min(start + AT_ONCE, len(self.corpus)))
            candidates = np.concatenate((candidates, some))
            lengths = np.maximum(*(side[candidates] for side in sides))
            candidates = candidates[np.argpartition(-lengths, min(rows, len(lengths)) - 1)[:rows]]
        chosen = candidates.tolist()
        return collate([self.corpus.source(row) for row in chosen], [self.corpus.target(row) for row in chosen])

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Yield each batch with the cursor that stands after it."""
        lengths = (self.corpus.source_lengths, self.corpus.target_lengths)
        for number, (following, rows) in enumerate(batches(*lengths, self.batching, self.seed, cursor)):
            if number % RELEASE_EVERY == 0:
                self.corpus.release()
            sources = [self.corpus.source(int(row)).tolist() for row in rows]
            targets = [self.corpus.target(int(row)).tolist() for row in rows]
            if self.sampling_alpha > 0:
                # The seed belongs to the place in the stream, so that a resumed run draws the same.
                place = f"{self.seed} {following}".encode()
                seed = int.from_bytes(hashlib.sha256(place).digest()[:4], "big")
                tokenizer = self.tokenizer
                yield (
                    collate(
                        tokenizer.sample_source(tokenizer.decode_source(sources), self.sampling_alpha, seed),
                        tokenizer.sample_target(tokenizer.decode_target(targets), self.sampling_alpha, seed),
                    ),
                    following,
                )
            else:
                yield collate(sources, targets), following
