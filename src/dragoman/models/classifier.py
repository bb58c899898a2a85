"""A classifier of texts: an encoder and a linear map from the vector of a text to labels (Devlin et al., 2019)."""

from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.models.config.classifier import ClassifierConfig
from dragoman.models.labelled_model import LabelledModel
from dragoman.models.masked import build_masked
from dragoman.models.text_encoder import TextEncoder


class Classifier(LabelledModel):
    """Gives one label to each text.

    Args:
        encoder: the encoder.
        labels: L, the number of labels.
        dropout: probability of dropping a feature before the linear map.
        pool: vector of a text: the "mean" of the states of its tokens, or the state of the "first".
    """

    def __init__(self, encoder: TextEncoder, labels: int, dropout: float, pool: Literal["mean", "first"]) -> None:
        super().__init__(encoder, labels, dropout)
        self.pool = pool

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B 1 L"]:
        """See `LabelledModel.forward`."""
        states = self.encoder.encode(tokens, mask)
        if self.pool == "first":
            # [B, T, D] -> [B, 1, D]
            vector = states[:, :1]
        else:
            # [B, T] -> [B, T, 1]
            real = mask.unsqueeze(2).to(states.dtype)
            # [B, T, D] -> [B, 1, D]
            vector = (states * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True).clamp(min=1)
        return self.output(self.dropout(vector))


def build_classifier(config: ClassifierConfig) -> Classifier:
    """Build and initialise the model that `config` describes."""
    return Classifier(build_masked(config.encoder), len(config.labels), config.dropout, config.pool)
