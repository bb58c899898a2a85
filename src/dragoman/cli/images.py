"""dragoman images train, sample, attention, classify, evaluate"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from dragoman.cli.examples import Example
from dragoman.cli.images_attention import AttentionImages
from dragoman.cli.images_classify import ClassifyImages
from dragoman.cli.images_evaluate import EvaluateImages
from dragoman.cli.images_sample import SampleImages
from dragoman.cli.images_train import TrainImages

ACTIONS: dict[str, type[TrainImages | SampleImages | AttentionImages | ClassifyImages | EvaluateImages]] = {
    "train": TrainImages,
    "sample": SampleImages,
    "attention": AttentionImages,
    "classify": ClassifyImages,
    "evaluate": EvaluateImages,
}


@dataclass(frozen=True, kw_only=True)
class Images:
    """Make pictures with a self-attention GAN, recognise them with a Transformer, and see what both attend to."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (*TrainImages.EXAMPLES[:1], *SampleImages.EXAMPLES[:1])

    action: (
        Annotated[TrainImages, tyro.conf.subcommand("train")]
        | Annotated[SampleImages, tyro.conf.subcommand("sample")]
        | Annotated[AttentionImages, tyro.conf.subcommand("attention")]
        | Annotated[ClassifyImages, tyro.conf.subcommand("classify")]
        | Annotated[EvaluateImages, tyro.conf.subcommand("evaluate")]
    )

    def run(self) -> None:
        """Run the action."""
        self.action.run()
