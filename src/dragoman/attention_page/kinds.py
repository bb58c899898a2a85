"""The three kinds of attention, and the identification of a head."""

from typing import Literal, NamedTuple

Kind = Literal["encoder_self", "decoder_self", "encoder_decoder"]
KINDS: tuple[Kind, ...] = ("encoder_self", "decoder_self", "encoder_decoder")
NAMES: dict[Kind, str] = {
    "encoder_self": "encoder self-attention",
    "decoder_self": "decoder self-attention",
    "encoder_decoder": "encoder-decoder attention",
}
# Names of the kinds in a model that reads one text.
NAMES_IN_TEXT: dict[Kind, str] = {
    "encoder_self": "self-attention",
    "decoder_self": "causal self-attention",
    "encoder_decoder": "encoder-decoder attention",
}


class Head(NamedTuple):
    """A head, identified by kind of attention, layer and head; layers and heads are counted from 0.

    Example:
        >>> Head("encoder_self", layer=1, head=2).name
        'encoder self-attention 2.3'
    """

    kind: Kind
    layer: int
    head: int

    @property
    def name(self) -> str:
        """Name such as "encoder self-attention 2.3", with layer and head counted from 1."""
        return self.name_among(NAMES)

    def name_among(self, names: dict[Kind, str]) -> str:
        """Name with one of these names of kinds, `NAMES` or `NAMES_IN_TEXT`."""
        return f"{names[self.kind]} {self.layer + 1}.{self.head + 1}"
