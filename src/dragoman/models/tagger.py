"""A tagger of words: an encoder and a linear map from the state of a word's first token to tags."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.models.config.tagger import TaggerConfig
from dragoman.models.labelled_model import LabelledModel
from dragoman.models.masked import build_masked


class Tagger(LabelledModel):
    """Gives a tag to each word, at its first token (Devlin et al., 2019, section 5.3)."""

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T L"]:
        """See `LabelledModel.forward`."""
        return self.output(self.dropout(self.encoder.encode(tokens, mask)))


def build_tagger(config: TaggerConfig) -> Tagger:
    """Build and initialise the model that `config` describes."""
    return Tagger(build_masked(config.encoder), len(config.labels), config.dropout)
