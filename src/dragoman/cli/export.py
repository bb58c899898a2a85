"""dragoman export"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tyro.conf import arg

from dragoman.cli.examples import Example
from dragoman.cli.options import ModelDirectory, OutDirectory
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a language model as GPT-2, or a masked language model as BERT, for Hugging Face's transformers."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Export a model", "dragoman export models/mine --out exported/mine"),
        Example("Import it again", "dragoman import exported/mine --out models/again"),
    )

    model: ModelDirectory
    out: OutDirectory
    """Folder to write; must not exist."""
    format: Annotated[Literal["huggingface"], arg(metavar="FORMAT")] = "huggingface"
    """Layout of the folder; huggingface: config.json and model.safetensors, for `from_pretrained`."""

    def run(self) -> None:
        """Export, and print the size of the model."""
        from dragoman.interop.huggingface import export_model

        print(f"{printable(self.out)}: {export_model(self.model, self.out).summary()}")
        print("The tokenizer was not exported: the model takes and returns the same token ids.")
