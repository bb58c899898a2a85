"""The endless stream of training batches, which can start at any cursor."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dragoman.data.batching import Batch, BatchingConfig, Cursor, batches, collate
from dragoman.data.prepared import PreparedCorpus
from dragoman.text.tokenizer import Tokenizer

# Number of batches after which mapped pages are released; batches are read from all parts of the file.
RELEASE_EVERY = 10
# Number of pairs whose lengths are compared at the same time.
AT_ONCE = 2**18


@dataclass(frozen=True)
class BatchStream:
    """Stream of batches of a prepared corpus; its batches depend only on the seed and the cursor.

    Attributes:
        corpus: the training pairs.
        tokenizer: tokenizer of the corpus.
        batching: settings of the batches.
        seed: seed of the order of batches and of subword sampling.
        sampling_alpha: α of subword regularisation (Kudo 2018), with which segmentations are sampled again for every
            batch; 0: use the best segmentation, as prepared.
    """

    corpus: PreparedCorpus
    tokenizer: Tokenizer
    batching: BatchingConfig
    seed: int
    sampling_alpha: float = 0.0

    def longest(self) -> Batch:
        """Return a batch of as many of the longest pairs as fit into `batch_tokens`; it needs the most memory."""
        sides = self.corpus.source_lengths, self.corpus.target_lengths
        longest = max(int(side.max()) for side in sides)
        rows = max(1, self.batching.batch_tokens // (longest + 1))
        # In blocks: the arrays for ten million pairs at the same time would take 160 MB.
        candidates = np.empty(0, dtype=np.int64)
        for start in range(0, len(self.corpus), AT_ONCE):
            block = np.arange(start, min(start + AT_ONCE, len(self.corpus)))
            candidates = np.concatenate((candidates, block))
            lengths = np.maximum(*(side[candidates] for side in sides))
            candidates = candidates[np.argpartition(-lengths, min(rows, len(lengths)) - 1)[:rows]]
        pairs = candidates.tolist()
        return collate([self.corpus.source(pair) for pair in pairs], [self.corpus.target(pair) for pair in pairs])

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        """Yield each batch with the cursor after it."""
        lengths = (self.corpus.source_lengths, self.corpus.target_lengths)
        for number, (following, rows) in enumerate(batches(*lengths, self.batching, self.seed, cursor)):
            if number % RELEASE_EVERY == 0:
                self.corpus.release()
            sources = [self.corpus.source(int(row)).tolist() for row in rows]
            targets = [self.corpus.target(int(row)).tolist() for row in rows]
            if self.sampling_alpha > 0:
                # The seed depends on the cursor, so that a resumed run samples the same segmentations.
                key = f"{self.seed} {following}".encode()
                seed = int.from_bytes(hashlib.sha256(key).digest()[:4], "big")
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
