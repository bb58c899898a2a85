"""`Labeller`: give labels to texts, or tags to words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch

from dragoman.data.labelled import Row, batches_in_order, label_rows, tag_rows
from dragoman.data.readers import Pair
from dragoman.device import select_device
from dragoman.errors import CorpusError, ModelError
from dragoman.models.config.labelled import LabelledConfig
from dragoman.models.description import load_description
from dragoman.models.inference import inference
from dragoman.models.labelled_model import LabelledModel
from dragoman.models.storage import load_labelled_model
from dragoman.models.tagger import Tagger
from dragoman.models.vocabularies import load_vocabulary
from dragoman.representation.units import DEFAULT_BATCH_TOKENS
from dragoman.text.vocabulary import Vocabulary


class Labeller:
    """Gives labels to texts with a classifier, or tags to words with a tagger.

    Args:
        model: the model, on its device.
        config: settings of the model.
        vocabulary: the vocabulary of the model.
        batch_tokens: largest number of tokens in a batch, including padding.

    Attributes:
        tags: True for a tagger, which gives a tag to each word, and False for a classifier.
        labels: all labels.
    """

    def __init__(
        self,
        model: LabelledModel,
        config: LabelledConfig,
        vocabulary: Vocabulary,
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._context = config.context
        self._batch_tokens = batch_tokens
        self.tags = isinstance(model, Tagger)
        self.labels = config.labels

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto") -> Self:
        """Load the classifier or tagger of a model directory.

        Args:
            directory: the model directory.
            device: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".

        Raises:
            ModelError: it is not the directory of a classifier or a tagger, or is damaged.
            SettingsError: the device is not available.
        """
        directory = Path(directory)
        description = load_description(directory)
        if not isinstance(description.model, LabelledConfig):
            raise ModelError(f"{directory} is neither a classifier nor a tagger: train one with --task classify or tag")
        model = load_labelled_model(directory).to(select_device(device))
        return cls(model, description.model, load_vocabulary(directory, description))

    def rows(self, pairs: Sequence[Pair]) -> list[list[Row]]:
        """Return the rows of each example, as in training."""
        build = tag_rows if self.tags else label_rows
        return build(pairs, self._vocabulary, self.labels, self._context)

    def label(self, texts: Sequence[str]) -> list[str]:
        """Return the most probable label of each text.

        For a tagger, a text consists of words that are separated by white space, and so do the returned tags.

        Raises:
            CorpusError: a text is empty.
        """
        if self.tags:
            texts = [" ".join(text.split()) for text in texts]
        for number, text in enumerate(texts, 1):
            if not text.strip():
                raise CorpusError(f"text {number} is empty: leave it out")
        examples = self.rows([Pair(text, " ".join("?" for _ in text.split())) for text in texts])
        flat = [row for rows in examples for row in rows]
        predicted = iter(self._predict(flat))
        outputs = []
        for rows in examples:
            tags = [tag for row in rows for tag in self._labels_of(row, next(predicted))]
            outputs.append(" ".join(tags))
        return outputs

    def _labels_of(self, row: Row, indices: list[int]) -> list[str]:
        """Return the label of a text, or the tags of the words of a row."""
        if not self.tags:
            return [self.labels[indices[0]]]
        return [self.labels[indices[position]] for position in row.positions]

    def _predict(self, rows: Sequence[Row]) -> list[list[int]]:
        """Return the index of the most probable label at each position of each row."""
        best: dict[int, list[int]] = {}
        device = next(self._model.parameters()).device
        with inference([self._model]):
            for numbers, batch in batches_in_order(rows, self._batch_tokens):
                # [B, P, L] -> [B, P]
                indices = self._model(batch.tokens.to(device), batch.mask.to(device)).argmax(dim=2)
                best.update(zip(numbers, torch.Tensor.tolist(indices), strict=True))
        return [best[number] for number in range(len(rows))]
