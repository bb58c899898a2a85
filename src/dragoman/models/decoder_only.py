"""The decoder-only translation model (Liu et al., "Generating Wikipedia by Summarizing Long Sequences", 2018).

A language model reads source and target as one text, and the loss is that of the target only (section 4.2). The source
ends with EOS and the target begins with BOS, which together are the separator.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.models.config.decoder_only import DecoderOnlyConfig
from dragoman.models.language import TransformerLanguageModel, TransformerTextState, build_stack
from dragoman.models.seq2seq import AttentionModules, Decoded, Memory, Seq2Seq, SourcePrediction
from dragoman.models.state import DecoderState
from dragoman.packing import Layout, Padded, layout_of


@dataclass(frozen=True)
class TextMemory(Memory):
    """The source as read by a language model.

    Attributes:
        state: state of the language model after the source, from which it reads the target.
    """

    state: TransformerTextState

    def reorder(self, rows: Int[Tensor, " N"]) -> "TextMemory":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return replace(self, rows=self.states[rows], layout=Padded(self.mask[rows]), state=self.state.reorder(rows))


class DecoderOnly(Seq2Seq):
    """A language model that continues the source with the target.

    Args:
        text: the language model.
    """

    def __init__(self, text: TransformerLanguageModel) -> None:
        super().__init__()
        self.text = text
        self.output = text.output

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> TextMemory:
        """See `Seq2Seq.encode`."""
        states, state = self.text.read_padded(source, self.text.start(len(source)), mask)
        return TextMemory(states, Padded(mask), state)

    def decode_states(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """See `Seq2Seq.decode_states`."""
        assert isinstance(memory, TextMemory)
        states, _ = self.text.read_padded(target, memory.state, target_mask)
        return states

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> Decoded:
        """See `Seq2Seq.forward`; each source is followed by its target without padding between them."""
        S, T = source.shape[1], target.shape[1]
        lengths = source_mask.sum(dim=1, keepdim=True)
        slot = torch.arange(S + T, device=source.device)
        # [W] < [B, 1] -> [B, W], where W = S + T; the text of a row is its source, its target and padding
        in_source = slot < lengths
        mask = slot < lengths + target_mask.sum(dim=1, keepdim=True)
        # [W] - [B, 1] -> [B, W]: index in the target
        index = (slot - lengths).clamp(0, T - 1)
        text = torch.where(in_source, F.pad(source, (0, T)), target.gather(1, index))
        width = int(mask.sum(dim=1).max())
        layout = layout_of(mask[:, :width])
        rows = self.text.read_at_once(text[:, :width], layout)
        # [B, 1] + [T] -> [B, T]: slots of the target; padding has any
        target_slot = (lengths + torch.arange(T, device=source.device)).clamp(max=width - 1)
        # [*BW, D] -> [B, W, D] -> [B, T, D] -> [*BT, D]
        states = layout.batch(rows)
        states = states.gather(1, target_slot.unsqueeze(2).expand(-1, -1, states.shape[2]))
        target_layout = layout_of(target_mask)
        source_prediction = _source_prediction(rows, layout, text[:, :width], lengths)
        return Decoded(target_layout.rows(states), target_layout, rows.new_zeros(()), source_prediction)

    def attentions(self) -> AttentionModules:
        """See `Seq2Seq.attentions`: the self-attention, which reads source and target as one text."""
        return self.text.attentions()

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """See `Seq2Seq.layers_to_compile`."""
        return self.text.layers_to_compile()

    def start(self, memory: Memory) -> TransformerTextState:
        """See `Seq2Seq.start`: the state after the source."""
        assert isinstance(memory, TextMemory)
        return memory.state

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], DecoderState]:
        """See `Seq2Seq.step`."""
        return self.text.step(token, state)


def _source_prediction(
    rows: Float[Tensor, "*BW D"], layout: Layout, text: Int[Tensor, "B W"], lengths: Int[Tensor, "B 1"]
) -> SourcePrediction:
    """Return the prediction of each token of the source after the first.

    Args:
        rows: states of source and target as one text.
        layout: layout of the rows.
        text: the tokens.
        lengths: number of tokens of each source.
    """
    # [W] < [B, 1] -> [B, W]
    counted = torch.arange(text.shape[1], device=text.device) < lengths - 1
    following = text.roll(-1, dims=1)
    # [*BW, D] -> [N, D]; in a packed layout, rows of padding are at the end
    flat = rows.flatten(0, -2)
    tokens, real = (layout.values(x) for x in (following, counted))
    filler = len(flat) - len(tokens)
    return SourcePrediction(flat, F.pad(tokens, (0, filler)), F.pad(real, (0, filler)))


def build_decoder_only(config: DecoderOnlyConfig) -> DecoderOnly:
    """Build and initialise the model that `config` describes."""
    return DecoderOnly(
        build_stack(config, config.source_vocabulary, tied_embeddings=config.tied_embeddings == "three-way")
    )
