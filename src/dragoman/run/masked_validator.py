"""Validation of an encoder of texts during its training by masking."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dragoman.data.masking import MaskedBatch, Masking
from dragoman.data.token_stream import TokenStream, windows_at
from dragoman.device import Precision
from dragoman.models.masked import MaskedModel
from dragoman.training.masked_objective import validate_masked
from dragoman.training.validation import Validation


@dataclass(frozen=True)
class MaskedValidator:
    """Validates a model on held-out text, in windows that do not overlap and with the same masks every time.

    Attributes:
        stream: the validation text.
        masking: selects the tokens to predict.
        length: number of tokens of text in a window.
        batch_tokens: number of tokens of text in a batch.
        most_tokens: largest number of tokens to validate on.
        precision: precision of the forward pass.
    """

    stream: TokenStream
    masking: Masking
    length: int
    batch_tokens: int
    most_tokens: int
    precision: Precision

    def __call__(self, model: MaskedModel) -> Validation:
        """Validate a model, which is in evaluation mode."""
        return validate_masked(model, self.batches(), self.precision, next(model.parameters()).device)

    def batches(self) -> Iterator[MaskedBatch]:
        """Yield the batches."""
        length = min(self.length, len(self.stream) - 1)
        windows = max(1, min(self.most_tokens, len(self.stream) - 1) // length)
        rows = max(1, self.batch_tokens // length)
        for start in range(0, windows, rows):
            numbers = np.arange(start, min(start + rows, windows))
            # The second half of a single window could not be replaced by that of another one.
            if len(numbers) > 1 or windows == 1 or not self.masking.config.next_sentence:
                yield self.masking.batch(windows_at(self.stream, numbers * length, length), None)
