"""The attention head that aligns words: selected on data, and stored in the model directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import ModelError, quoted, reason_of
from dragoman.files import parse_json_object, read_verified
from dragoman.models.description import ALIGNMENT_FILE, LISTED_FILES, add_file, load_description
from dragoman.settings import from_mapping

# Upper limit of the numbers of layers and heads, larger than in any model.
LIMIT = 1 << 16


@dataclass(frozen=True, kw_only=True)
class AlignmentHead:
    """An encoder-decoder attention head used for word alignment.

    Attributes:
        layer: decoder layer, from 0.
        head: head of the layer, from 0; None: the mean of the layer's heads.
        from_input: True: a target token is aligned by the attention at the decoder position where the token is the
            input; False: at the position where it is predicted, which is one earlier and depends on the preceding
            tokens only (Chen et al., "Accurate Word Alignment Induction from Neural Machine Translation", 2020).

    Raises:
        ModelError: if a number is negative or too large for any model.

    Example:
        >>> from dragoman.alignment.heads import AlignmentHead
        >>> print(AlignmentHead(layer=2, head=0, from_input=True))
        layer 3, head 1, where a token is the input
    """

    layer: int
    head: int | None
    from_input: bool

    def __post_init__(self) -> None:
        if not 0 <= self.layer < LIMIT or not 0 <= (self.head or 0) < LIMIT:
            raise ModelError(f"layer {quoted(self.layer)}, head {quoted(self.head)} does not exist")

    def __str__(self) -> str:
        head = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {head}, where a token is {'the input' if self.from_input else 'predicted'}"

    def save(self, directory: Path) -> None:
        """Write the head into a model directory.

        Raises:
            ModelError: if `directory` contains no model.
        """
        values = {"layer": self.layer, "head": self.head, "read": self.from_input}
        add_file(directory, ALIGNMENT_FILE, (json.dumps(values) + "\n").encode())

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the head that was selected for a model.

        Raises:
            ModelError: if none was selected, or the file is damaged or not the one listed in config.json.
        """
        path, digests = directory / ALIGNMENT_FILE, load_description(directory).listed
        try:
            mapping = parse_json_object(read_verified(path, LISTED_FILES[ALIGNMENT_FILE], digests))
        except FileNotFoundError:
            raise ModelError(
                f"no alignment head was selected for {directory}: `dragoman align` selects one on a corpus"
            ) from None
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} is damaged: {reason_of(error)}; `dragoman align` writes it again") from error
        stored = from_mapping(_StoredHead, mapping, str(path), error=ModelError)
        return cls(layer=stored.layer, head=stored.head, from_input=stored.read)


@dataclass(frozen=True, kw_only=True)
class _StoredHead:
    """Contents of the file; `read` is `AlignmentHead.from_input`."""

    layer: int
    head: int | None
    read: bool

    def __post_init__(self) -> None:
        # Raises ModelError for numbers out of range, to which the reader of the file adds its path.
        AlignmentHead(layer=self.layer, head=self.head, from_input=self.read)


def alignment_heads(arrays: AttentionArrays) -> Iterator[AlignmentHead]:
    """Yield every alignment head of a model with this encoder-decoder attention."""
    layers, heads = arrays.weights.shape[:2]
    for layer in range(layers):
        for head in [*range(heads), *([None] if heads > 1 else [])]:
            for from_input in (False, True):
                yield AlignmentHead(layer=layer, head=head, from_input=from_input)
