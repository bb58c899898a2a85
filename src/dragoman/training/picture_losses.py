"""What the objectives of models of pictures share: counting and splitting batches."""

from collections.abc import Iterator

from dragoman.data.picture_batches import PictureBatch


class PictureLosses:
    """Base class of losses of batches of pictures, see `training.objective.Losses`."""

    def tokens(self, batch: PictureBatch) -> int:
        """Return the number of pictures."""
        return len(batch)

    def size(self, batch: PictureBatch) -> int:
        """Return the number of pictures."""
        return len(batch)

    def split(self, batch: PictureBatch, limit: float) -> Iterator[PictureBatch]:
        """Yield parts of the batch, each of at most `limit` pictures, but at least one."""
        rows = max(1, int(min(len(batch), limit)))
        for start in range(0, len(batch), rows):
            yield batch if rows == len(batch) else batch.rows(start, start + rows)

    def describe(self, batch: PictureBatch) -> str:
        """Describe a batch of a single picture."""
        return f"a single picture of {batch.images.shape[2]}x{batch.images.shape[3]}"
