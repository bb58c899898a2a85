"""The interface that every encoder of texts implements.

Letters: B number of texts, T number of tokens, D d_model, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.models.seq2seq import AttentionModules


class TextEncoder(nn.Module, ABC):
    """Base class of models that represent each token of a text by a vector that depends on the whole text.

    A text begins with BOS, which corresponds to BERT's [CLS], and ends with EOS, which corresponds to [SEP].

    Example:
        >>> import torch
        >>> from dragoman.models.registry import build_encoder, text_preset
        >>> encoder = build_encoder(text_preset("tiny", 100, architecture="masked")).eval()
        >>> tokens = torch.randint(100, (2, 7))
        >>> encoder.encode(tokens, torch.ones_like(tokens, dtype=torch.bool)).shape
        torch.Size([2, 7, 64])
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """D, the width of the states."""

    @property
    @abstractmethod
    def max_context(self) -> int | None:
        """Largest number of tokens of a text, if the positions of the model limit it; None for any number."""

    @abstractmethod
    def layers(
        self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], ...]:
        """Return the embeddings and the states after each layer; the last are those of `encode`.

        The arguments are those of `encode`.
        """

    @abstractmethod
    def encode(
        self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Return the states after the last layer; they are unspecified at padding.

        Args:
            tokens: token ids.
            mask: True for tokens, False for padding, which is at the end.
            segments: segment of each token; None for the first segment everywhere. A model without segments ignores
                them.

        Raises:
            CorpusError: the texts are longer than the positions of the model allow.
        """

    def attentions(self) -> AttentionModules:
        """Return the modules that compute the attention weights; by default, none."""
        return AttentionModules()

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """Return the layers that torch.compile makes faster on a GPU; by default, none."""
        return ()
