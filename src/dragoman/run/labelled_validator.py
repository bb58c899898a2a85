"""Validation of a classifier or a tagger during training."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.data.labelled import batches_in_order
from dragoman.data.readers import Pair
from dragoman.device import Precision
from dragoman.evaluation.classification import Classification, span_scores
from dragoman.models.config.labelled import LabelledConfig
from dragoman.models.labelled_model import LabelledModel
from dragoman.representation.labeller import Labeller
from dragoman.text.vocabulary import Vocabulary
from dragoman.training.labelled_objective import mean_label_loss
from dragoman.training.validation import Sample, Validation

METRICS = {False: ("accuracy", "macro_f1"), True: ("accuracy", "macro_f1", "span_f1")}


@dataclass(frozen=True)
class LabelledValidator:
    """Validates a model on held-out examples.

    Attributes:
        pairs: the examples.
        config: settings of the model.
        vocabulary: the vocabulary.
        batch_tokens: size of a batch.
        precision: precision of the loss.
    """

    pairs: Sequence[Pair]
    config: LabelledConfig
    vocabulary: Vocabulary
    batch_tokens: int
    precision: Precision

    def __call__(self, model: LabelledModel) -> Validation:
        """Validate a model, which is in evaluation mode."""
        labeller = Labeller(model, self.config, self.vocabulary, batch_tokens=self.batch_tokens)
        outputs = labeller.label([pair.source for pair in self.pairs])
        rows = [row for example in labeller.rows(self.pairs) for row in example]
        device = next(model.parameters()).device
        batches = (batch for _, batch in batches_in_order(rows, self.batch_tokens))
        samples = [Sample(*pair, output) for pair, output in zip(self.pairs, outputs, strict=True)]
        return Validation(
            loss=mean_label_loss(model, batches, self.precision, device),
            metrics=label_metrics(outputs, [pair.target for pair in self.pairs], tags=labeller.tags),
            samples=tuple(samples[:: len(samples) // 3 + 1]),
        )


def label_metrics(outputs: Sequence[str], references: Sequence[str], *, tags: bool) -> dict[str, float]:
    """Return the metrics of labels in percent, or those of tags, which are separated by spaces."""
    if not tags:
        result = Classification.of(outputs, references)
        return {"accuracy": 100 * result.accuracy, "macro_f1": 100 * result.macro_f1}
    ours, theirs = [line.split() for line in outputs], [line.split() for line in references]
    result = Classification.of([tag for line in ours for tag in line], [tag for line in theirs for tag in line])
    return {
        "accuracy": 100 * result.accuracy,
        "macro_f1": 100 * result.macro_f1,
        "span_f1": 100 * span_scores(ours, theirs).f1,
    }
