"""Validation of a language model during training."""

import math
from dataclasses import dataclass

from dragoman.data.evaluation_windows import evaluation_batches
from dragoman.data.token_stream import TokenStream
from dragoman.device import Precision
from dragoman.models.language_model import LanguageModel
from dragoman.training.language_objective import summed_language_loss
from dragoman.training.validation import Validation


@dataclass(frozen=True)
class LanguageValidator:
    """Validates a language model on held-out text, in windows that do not overlap.

    Attributes:
        stream: the validation text.
        context: number of tokens in a window.
        batch_tokens: number of tokens in a batch.
        most_tokens: largest number of tokens to validate on.
        precision: precision of the forward pass.
    """

    stream: TokenStream
    context: int
    batch_tokens: int
    most_tokens: int
    precision: Precision

    def __call__(self, model: LanguageModel) -> Validation:
        """Validate a model, which is in evaluation mode."""
        batch_tokens = max(self.context, self.batch_tokens)
        batches = evaluation_batches(self.stream, self.context, self.context, batch_tokens, self.most_tokens)
        loss, tokens = summed_language_loss(model, batches, self.precision)
        # The number of characters of a token, on average over the text.
        characters = self.stream.meta.characters / (len(self.stream) - self.stream.meta.documents)
        mean = loss / tokens
        return Validation(loss=mean, metrics={"bits_per_character": mean / math.log(2) / characters})
