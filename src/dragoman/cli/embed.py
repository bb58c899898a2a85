"""dragoman embed"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Device, ModelDirectory, OptionalCount, OptionalFile
from dragoman.cli.writing import written_to
from dragoman.errors import CorpusError, SettingsError
from dragoman.printing import printable
from dragoman.representation.units import Pool, Unit

if TYPE_CHECKING:
    from dragoman.representation.embedder import Embeddings


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Represent texts, words or tokens by vectors of a model of any kind."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Write a vector for each line of a file", "dragoman embed models/mine --input lines.txt --out lines.parquet"
        ),
        Example(
            "Print the nearest neighbours of each word in other texts",
            'dragoman embed models/mine "the river bank" "the bank lends money" --of words --neighbours 3',
        ),
    )

    model: ModelDirectory
    texts: Annotated[Positional[tuple[str, ...]], arg(metavar="TEXT ...", help="Texts.", help_behavior_hint="")] = ()
    input: OptionalFile = None
    """File with one text per line, or - for standard input; these texts follow those of the command line."""
    of: Unit = "texts"
    """What the vectors represent: whole texts, words (separated by white space), or tokens."""
    layer: Count = -1
    """0 for the embeddings, 1 for the first layer, and so on; -1 for the last layer."""
    pool: Pool = "mean"
    """Vector of a word or a text: the mean of the vectors of its tokens, or the vector of the first."""
    out: OptionalFile = None
    """Write the vectors to this file (.npy, .npz or .parquet) instead of printing them."""
    neighbours: OptionalCount = None
    """Print this number of nearest neighbours of each vector, by cosine, instead of the vectors."""
    device: Device = "auto"

    def run(self) -> None:
        """Compute the vectors, and write or print them."""
        if self.neighbours is not None and self.neighbours < 1:
            raise SettingsError(f"--neighbours must be at least 1, not {self.neighbours}")
        texts = [*self.texts, *self._lines()]
        if not texts:
            raise CorpusError("give at least one text, or --input FILE")
        from dragoman.representation.embedder import Embedder
        from dragoman.representation.writing import check_suffix, write_embeddings

        if self.out is not None:
            check_suffix(self.out)
        embedder = Embedder.load(self.model, device=self.device)
        embeddings = embedder.embed(texts, of=self.of, layer=self.layer, pool=self.pool)
        if self.out is not None:
            with written_to(self.out):
                write_embeddings(self.out, embeddings)
        if self.neighbours is not None:
            _print_neighbours(embeddings, self.neighbours)
        elif self.out is not None:
            number, width = embeddings.vectors.shape
            print(f"{printable(self.out)}: {number:,} vectors of {width} numbers")
        else:
            for text, label, vector in zip(
                embeddings.texts.tolist(), embeddings.labels, embeddings.vectors.tolist(), strict=True
            ):
                print(json.dumps({"text": text, "label": label, "vector": vector}))

    def _lines(self) -> list[str]:
        if self.input is None:
            return []
        data = sys.stdin.buffer.read() if self.input == Path("-") else self.input.read_bytes()
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        texts = []
        for number, line in enumerate(lines, 1):
            try:
                texts.append(line.decode())
            except UnicodeDecodeError as error:
                raise CorpusError(f"{self.input}:{number} is not UTF-8 (byte {error.start + 1}): convert it") from error
        return texts


def _print_neighbours(embeddings: "Embeddings", number: int) -> None:
    """Print each label with its text, and its neighbours below it."""
    for index, nearest in enumerate(embeddings.neighbours(number)):
        print(f"{printable(embeddings.labels[index])}  (text {embeddings.texts[index] + 1})")
        for other, cosine in nearest:
            print(f"  {cosine:6.3f}  {printable(embeddings.labels[other])}  (text {embeddings.texts[other] + 1})")
