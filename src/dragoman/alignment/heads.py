"""Where to look for an alignment: an encoder-decoder attention head, chosen on data and kept beside the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import ModelError, quoted, reason_of
from dragoman.files import parse_json_object, read_listed
from dragoman.models.description import ALIGNMENT_FILE, LISTED_FILES, add_file, load_description
from dragoman.settings import from_mapping

# No model has as many layers, or heads.
MOST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class AlignmentHead:
    """Where to look for the alignment; layer and head count from 0.

    head  None: the mean of the layer's heads
    read  look from where the target token is read, which knows the token, and not from where it is predicted, which is
          one position earlier (Chen et al., "Accurate Word Alignment Induction from Neural Machine Translation", 2020)
    """

    layer: int
    head: int | None
    read: bool

    def __post_init__(self) -> None:
        if not 0 <= self.layer < MOST or not 0 <= (self.head or 0) < MOST:
            raise ModelError(f"there is no layer {quoted(self.layer)}, head {quoted(self.head)}")

    def __str__(self) -> str:
        head = "mean of heads" if self.head is None else f"head {self.head + 1}"
        return f"layer {self.layer + 1}, {head}, where a token is {'read' if self.read else 'predicted'}"

    def save(self, directory: Path) -> None:
        """Write the choice beside a model.

        Raises ModelError when `directory` holds no model.
        """
        add_file(directory, ALIGNMENT_FILE, (json.dumps(asdict(self)) + "\n").encode())

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the choice beside a model.

        Raises ModelError when there is none, or the file is damaged, or not the one that config.json lists.
        """
        path, digests = directory / ALIGNMENT_FILE, load_description(directory).listed
        try:
            mapping = parse_json_object(read_listed(path, LISTED_FILES[ALIGNMENT_FILE], digests))
        except FileNotFoundError:
            raise ModelError(
                f"{directory} does not say which head aligns words: `dragoman align` finds it on a corpus"
            ) from None
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} is damaged: {reason_of(error)}; `dragoman align` writes it anew") from error
        return from_mapping(cls, mapping, str(path), error=ModelError)


def alignment_heads(arrays: AttentionArrays) -> Iterator[AlignmentHead]:
    """Yield everything that can be chosen of an encoder-decoder attention."""
    layers, heads = arrays.weights.shape[:2]
    for layer in range(layers):
        for head in [*range(heads), *([None] if heads > 1 else [])]:
            for read in (False, True):
                yield AlignmentHead(layer=layer, head=head, read=read)
