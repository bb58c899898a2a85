"""The interface that every language model implements.

Letters: B number of texts, T number of tokens, D d_model, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.models.seq2seq import AttentionModules, Decoded
from dragoman.models.state import DecoderState


class LanguageModel(nn.Module, ABC):
    """Base class of models that predict each token of a text from the tokens before it.

    Training calls `forward` (windows of text, all positions at once). Generation and evaluation call `start`, and then
    `read` or `step`. All compute the same logits.

    Attributes:
        output: projection onto the vocabulary, without bias. The loss uses its weight directly, to project a few rows
            at a time.

    Example:
        >>> import torch
        >>> from dragoman.models.registry import build_language_model, text_preset
        >>> model = build_language_model(text_preset("tiny", 100)).eval()
        >>> tokens = torch.randint(100, (2, 7))
        >>> states, state = model.read(tokens, model.start(2))
        >>> model.project(states).shape
        torch.Size([2, 7, 100])
        >>> logits, state = model.step(tokens[:, 0], state)
        >>> logits.shape
        torch.Size([2, 100])
    """

    output: nn.Linear

    @property
    @abstractmethod
    def max_context(self) -> int | None:
        """Largest number of tokens of a text, if the positions of the model limit it; None for any number."""

    @property
    def carries_state(self) -> bool:
        """True if the state has a fixed size, so that it can be carried through a text of any length."""
        return False

    @abstractmethod
    def forward(self, tokens: Int[Tensor, "B T"], documents: Int[Tensor, "B T"] | None = None) -> Decoded:
        """Return the states of all positions of windows of text, for training.

        The state at position t depends on tokens 0..t of the same document of its row only.

        Args:
            tokens: token ids, without padding.
            documents: index of the document of each token, which does not decrease along a row; None if each row is a
                part of one document.
        """

    @abstractmethod
    def start(self, rows: int) -> DecoderState:
        """Return the state before the first token of `rows` texts."""

    @abstractmethod
    def read(self, tokens: Int[Tensor, "B T"], state: DecoderState) -> tuple[Float[Tensor, "B T D"], DecoderState]:
        """Read T further tokens of each text.

        Args:
            tokens: the tokens after those that have been read.
            state: the state before these tokens.

        Returns:
            The states at these positions, equal to those of `forward` for the whole text, and the state after them.

        Raises:
            CorpusError: the texts are longer than the positions of the model allow.
        """

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], DecoderState]:
        """Read one token of each text.

        Returns:
            The logits of the next token, and the state after this token.
        """
        # [B] -> [B, 1]
        states, state = self.read(token.unsqueeze(1), state)
        # [B, 1, D] -> [B, D] -> [B, V]
        return self.project(states.squeeze(1)), state

    def project(self, states: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """Return logits over the vocabulary."""
        # [..., D] -> [..., V]
        return self.output(states)

    def attentions(self) -> AttentionModules:
        """Return the modules that compute the attention weights; by default, none."""
        return AttentionModules()

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """Return the layers that torch.compile makes faster on a GPU; by default, none."""
        return ()
