"""dragoman export"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tyro.conf import arg

from dragoman.cli.examples import Example
from dragoman.cli.options import ModelDirectory, OutDirectory
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a model for Hugging Face's transformers: GPT-2 (language), BERT (masked) or ViT (vision)."""

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

        conversion = export_model(self.model, self.out)
        print(f"{printable(self.out)}: {conversion.summary()}")
        if conversion.reads_images:
            print("The model takes images as numbers from -1 to 1 (image_mean and image_std are 0.5).")
        else:
            print("The tokenizer was not exported: the model takes and returns the same token ids.")
