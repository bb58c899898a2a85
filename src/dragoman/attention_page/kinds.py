"""The three kinds of attention, and a head's name among them."""

from typing import Literal, NamedTuple

Kind = Literal["encoder_self", "decoder_self", "encoder_decoder"]
KINDS: tuple[Kind, ...] = ("encoder_self", "decoder_self", "encoder_decoder")
NAMES: dict[Kind, str] = {
    "encoder_self": "encoder self-attention",
    "decoder_self": "decoder self-attention",
    "encoder_decoder": "encoder-decoder attention",
}


class Head(NamedTuple):
    """One head of one attention; layers and heads count from 0."""

    kind: Kind
    layer: int
    head: int

    @property
    def name(self) -> str:
        """Such as "encoder self-attention 2.3": layer and head, from 1."""
        return f"{NAMES[self.kind]} {self.layer + 1}.{self.head + 1}"
