"""The endless stream of training windows of a text, which can start at any cursor.

An epoch divides the stream of tokens into windows of equal length, which begin at a random offset, so that the windows
of two epochs differ, and are taken in random order. Both depend only on the seed and the epoch. The tokens before the
offset, and those after the last whole window, are left out of the epoch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dragoman.data.batching import Cursor, generator, wrong_cursor
from dragoman.data.token_stream import TokenStream, WindowBatch, windows_at

# Number of batches after which mapped pages are released; windows are read from all parts of the file.
RELEASE_EVERY = 100


@dataclass(frozen=True)
class TextStream:
    """Stream of batches of windows; its batches depend only on the seed and the cursor.

    Attributes:
        corpus: the training text.
        context: number of tokens in a window. A shorter text is one window.
        batch_tokens: number of tokens in a batch, rounded down to whole windows, but at least one window. The last
            batch of an epoch may have fewer.
        seed: seed of offsets and order.
        shifted: False: windows begin at the same tokens in every epoch, without an offset.
    """

    corpus: TokenStream
    context: int
    batch_tokens: int
    seed: int
    shifted: bool = True

    def __post_init__(self) -> None:
        assert self.context >= 1
        assert self.batch_tokens >= 1

    def longest(self) -> WindowBatch:
        """Return a batch of the largest size; its windows contain several documents if any window does."""
        last = len(self.corpus) - 1 - self._length
        second = self.corpus.starts[1] - 1 if len(self.corpus.starts) > 1 else 0
        rows = min(self._rows, (len(self.corpus) - 1) // self._length)
        return windows_at(self.corpus, np.full(rows, min(second, last), dtype=np.int64), self._length)

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[WindowBatch, Cursor]]:
        """Yield each batch with the cursor after it.

        Raises:
            CorpusError: if the cursor belongs to another corpus or other settings.
        """
        following = cursor
        number = 0
        while True:
            starts = self._starts(following.epoch)
            count = -(-len(starts) // self._rows)
            if following.window != 0 or not 0 <= following.batch < count:
                raise wrong_cursor(following)
            for index in range(following.batch, count):
                if number % RELEASE_EVERY == 0:
                    self.corpus.release()
                number += 1
                last = index + 1 == count
                following = Cursor(epoch=following.epoch + last, batch=0 if last else index + 1)
                batch = starts[index * self._rows : (index + 1) * self._rows]
                yield windows_at(self.corpus, batch.astype(np.int64), self._length), following

    @property
    def _length(self) -> int:
        """Number of tokens in a window."""
        return min(self.context, len(self.corpus) - 1)

    @property
    def _rows(self) -> int:
        return max(1, self.batch_tokens // self.context)

    def _starts(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the index of the first token of each window of an epoch, in random order."""
        targets = len(self.corpus) - 1
        draw = generator(self.seed, epoch)
        # At least one window follows the offset.
        offset = int(draw.integers(min(self._length, targets - self._length + 1))) if self.shifted else 0
        starts = np.arange(offset, targets - self._length + 1, self._length)
        draw.shuffle(starts)
        return starts
