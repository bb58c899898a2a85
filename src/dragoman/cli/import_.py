"""dragoman import"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.examples import Example
from dragoman.cli.options import OutDirectory
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Import:
    """Write a model directory from a GPT-2, BERT or ViT model in Hugging Face's layout, without a tokenizer."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Import a model", "dragoman import downloads/gpt2 --out models/gpt2"),
        Example("Export it again", "dragoman export models/gpt2 --out exported/gpt2"),
    )

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder with config.json and model.safetensors, as written by `save_pretrained` of transformers."""
    out: OutDirectory
    """Model directory to write; must not exist."""

    def run(self) -> None:
        """Import, and print the size of the model and the names of the tensors that were left out."""
        from dragoman.interop.huggingface import import_model

        conversion = import_model(self.folder, self.out)
        print(f"{printable(self.out)}: {conversion.summary()}")
        if conversion.left_out:
            print(f"left out: {', '.join(map(printable, conversion.left_out))}")
        if conversion.reads_images:
            print("The model takes images as numbers from -1 to 1 (Python).")
        else:
            print("The tokenizer was not imported: the model takes and returns token ids (Python).")
