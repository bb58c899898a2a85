"""The interface of models that give labels to texts or words.

Letters: B number of texts, T number of tokens, D d_model, L number of labels.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.models.initialisation import normal
from dragoman.models.seq2seq import AttentionModules
from dragoman.models.text_encoder import TextEncoder

# Standard deviation of the initial weights of the linear map, as in the encoder.
INITIAL_STD = 0.02


class LabelledModel(nn.Module, ABC):
    """Base class of an encoder of texts with a linear map from states to labels.

    Args:
        encoder: the encoder.
        labels: L, the number of labels.
        dropout: probability of dropping a feature before the linear map.
    """

    def __init__(self, encoder: TextEncoder, labels: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(encoder.width, labels)
        normal(self.output, INITIAL_STD)
        self._frozen = False

    @abstractmethod
    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B P L"]:
        """Return the logits of the labels at the first P positions of each text: all, or only the first one.

        Args:
            tokens: token ids, beginning with BOS and ending with EOS.
            mask: True for tokens, False for padding, which is at the end.
        """

    def freeze_encoder(self) -> None:
        """Keep the weights of the encoder as they are in training, and disable its dropout."""
        self._frozen = True
        self.encoder.requires_grad_(requires_grad=False)
        self.encoder.eval()

    def train(self, mode: bool = True) -> "LabelledModel":
        """Set training mode; a frozen encoder remains in evaluation mode."""
        super().train(mode)
        if self._frozen:
            self.encoder.eval()
        return self

    def attentions(self) -> AttentionModules:
        """Return the modules that compute the attention weights."""
        return self.encoder.attentions()

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """Return the layers that torch.compile makes faster on a GPU."""
        return self.encoder.layers_to_compile()
