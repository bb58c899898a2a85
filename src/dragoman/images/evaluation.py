"""Evaluation of models of pictures on pictures that they have not seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from jaxtyping import UInt8

from dragoman.data.picture_reading import PictureSet
from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.evaluation.classification import Classification
from dragoman.evaluation.nearest_neighbours import copying_test, nearest_neighbours
from dragoman.evaluation.picture_scores import PictureScores, score_pictures
from dragoman.images.picture_classifier import PictureClassifier
from dragoman.images.picture_generator import PictureGenerator, Pictures
from dragoman.models.description import CONFIG_FILE

# Directory in run/ of the classifier by which generated pictures are judged.
JUDGE = "judge"
# Number of neighbours for precision and recall.
K = 3
# Generated pictures that are shown with their nearest training pictures, and the number of these.
SHOWN, NEAREST = 10, 5


@dataclass(frozen=True, kw_only=True, eq=False)
class GeneratedPictures:
    """Generated pictures and their scores.

    Attributes:
        pictures: the pictures, [N, H, W, C].
        scores: their scores against real pictures.
    """

    pictures: Pictures
    scores: PictureScores


def judge_of(model: Path) -> Path:
    """Return the directory of the classifier by which the training of a GAN judged its pictures.

    Raises:
        ModelError: if the model directory has none.
    """
    judge = model / "run" / JUDGE
    if not (judge / CONFIG_FILE).exists():
        raise ModelError(
            f"{model} has no run/{JUDGE}, the classifier whose features are compared: copy run/ of the model directory "
            "too, or give a classifier of such pictures (--judge MODEL)"
        )
    return judge


def evaluate_generator(
    generator: PictureGenerator,
    judge: PictureClassifier,
    test: PictureSet,
    *,
    count: int,
    seed: int,
    features: str,
    training: PictureSet | None = None,
) -> GeneratedPictures:
    """Compare generated pictures with real ones by the features of a classifier.

    Args:
        generator: the maker of pictures.
        judge: the classifier, of pictures of the same size and number of channels.
        test: real pictures that were not trained on.
        count: number of pictures to generate, with all labels in turn.
        seed: seed of their random vectors.
        features: name of the classifier, for the table.
        training: the training pictures: also test whether generated pictures are copies of them, by pixels.

    Raises:
        SettingsError: if the classifier is one of other pictures, or `count` < 4.
        CorpusError: if there are fewer than 8 real pictures, or as in `copying_test`.
    """
    of_generator = (generator.config.size, generator.config.channels)
    of_judge = (judge.config.image_size, judge.config.channels)
    if of_generator != of_judge:
        texts = [f"{size}x{size} with {channels} channels" for size, channels in (of_generator, of_judge)]
        raise SettingsError(
            f"the model makes pictures of {texts[0]}, but the classifier takes pictures of {texts[1]}: choose a "
            "classifier of pictures of the same size and number of channels"
        )
    if count < K + 1:
        raise SettingsError(f"at least {K + 1} pictures must be generated, not {count}")
    if len(test) < 2 * (K + 1):
        raise CorpusError(f"at least {2 * (K + 1)} real pictures are needed, for two halves; there are {len(test)}")
    generated = generator.sample(count, seed=seed)
    copying = None
    if training is not None:
        copying = copying_test(as_rows(generated), as_rows(test.images), as_rows(training.images))
    scores = score_pictures(
        judge.features(test.images), judge.features(generated), features=features, k=K, copying=copying
    )
    return GeneratedPictures(pictures=generated, scores=scores)


def neighbours_by_pixels(
    generated: Pictures, training: Pictures
) -> tuple[Pictures, npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the first generated pictures, and indices and distances of the training pictures nearest to each.

    Raises:
        CorpusError: if there are no training pictures, or they have another size.
    """
    shown = generated[:SHOWN]
    return shown, *nearest_neighbours(as_rows(shown), as_rows(training), min(NEAREST, len(training)))


def evaluate_classifier(classifier: PictureClassifier, test: PictureSet) -> Classification:
    """Compare the labels that a classifier gives to pictures with those that the pictures have.

    Raises:
        CorpusError: if the pictures have no labels, or are of another size than those of the model.
    """
    if test.labels is None:
        raise CorpusError("the pictures have no labels: put them into subfolders named after their labels")
    references: Sequence[str] = [test.label_names[i] for i in test.labels.tolist()]
    return Classification.of([label for label, _ in classifier.classify(test.images)], references)


def as_rows(pictures: Pictures) -> UInt8[np.ndarray, "N P"]:
    """Return pictures [N, H, W, C] as rows of pixels."""
    # [N, H, W, C] -> [N, H*W*C]
    return pictures.reshape(len(pictures), -1)
