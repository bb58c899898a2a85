"""Compare generated pictures with held-out ones, and with the training pictures to see whether they are copies.

    dragoman corpus fetch mnist-5k --out corpora
    dragoman images train corpora/mnist-5k/train --validation corpora/mnist-5k/valid --grey --out models/digits ...
    python benchmarks/generated_pictures.py models/digits corpora/mnist-5k/test corpora/mnist-5k/train \\
        [--neighbours neighbours.png]

The features are those of the classifier in MODEL/run/judge, which was trained on the training pictures: the distances
can be compared with those of other models by the same classifier only, not with published ones. --neighbours draws
generated pictures beside the training pictures that are nearest to them, by pixels. The last line is JSON and begins
with the ratio of the Fréchet distance to that of real pictures, both by half of the real pictures.
"""

import argparse
import json
import platform
from pathlib import Path

import torch

from dragoman import __version__
from dragoman.data.picture_reading import PictureSet, read_pictures
from dragoman.evaluation.nearest_neighbours import copying_test, nearest_neighbours
from dragoman.evaluation.picture_scores import score_pictures
from dragoman.images.picture_classifier import PictureClassifier
from dragoman.images.picture_generator import PictureGenerator
from dragoman.picture_page.grid import neighbour_grid
from dragoman.picture_page.pixels import save_png


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="model directory of a GAN, with run/")
    parser.add_argument("test", type=Path, help="folder of pictures that were not trained on")
    parser.add_argument("training", type=Path, help="folder of the training pictures")
    parser.add_argument("--pictures", type=int, default=1000, help="pictures to generate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--neighbours", type=Path, help="PNG file")
    arguments = parser.parse_args()
    generator = PictureGenerator.load(arguments.model, device="cpu")
    judge = PictureClassifier.load(arguments.model / "run" / "judge", device="cpu")

    def read(folder: Path) -> PictureSet:
        return read_pictures(
            folder,
            generator.config.size,
            channels=1 if generator.config.channels == 1 else 3,
            broken="refuse",
            animated="refuse",
        )

    test, training = read(arguments.test), read(arguments.training)
    generated = generator.sample(arguments.pictures, seed=arguments.seed)
    # [N, H, W, C] -> [N, H*W*C]
    pixels = [images.reshape(len(images), -1) for images in (generated, test.images, training.images)]
    copying = copying_test(pixels[0], pixels[1], pixels[2])
    name = "the classifier of the training pictures"
    scores = score_pictures(judge.features(test.images), judge.features(generated), features=name, copying=copying)
    print(scores.table())
    if arguments.neighbours is not None:
        indices, distances = nearest_neighbours(pixels[0][:10], pixels[2], 5)
        save_png(neighbour_grid(generated[:10], training.images, indices, distances, scale=2), arguments.neighbours)
    print(f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    ratio = scores.frechet.generated_half / scores.frechet.real_half
    print(json.dumps({"ratio": round(ratio, 2), **scores.to_json()}))


if __name__ == "__main__":
    main()
