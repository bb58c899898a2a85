"""dragoman evaluate with a classifier or a tagger"""

from pathlib import Path

from dragoman.cli.label_report import check_confusion_file, report_labels
from dragoman.cli.writing import written_to
from dragoman.errors import CorpusError


def evaluate_labels(
    model: Path, test: str, *, device: str, confusion: Path | None, output: Path | None, json_output: bool
) -> None:
    """Label a test set, and print accuracy, macro F1, F1 of spans for a tagger, and the scores of each label.

    Args:
        model: model directory of a classifier or a tagger.
        test: the test set, in the format of the training corpora.
        device: device to compute on.
        confusion: picture of the confusion to draw; None for no picture.
        output: file to which the labels are written, one line for each text; None to write none.
        json_output: True to print JSON instead of a table.

    Raises:
        CorpusError: the test set is empty, or has a line of another form.
        ModelError: the model cannot be read.
    """
    from dragoman.data.labelled import read_tagged
    from dragoman.evaluation.classification import Classification, span_scores
    from dragoman.files import write_atomically
    from dragoman.representation.labeller import Labeller
    from dragoman.run.tasks.labelled import read_labels

    check_confusion_file(confusion)
    labeller = Labeller.load(model, device=device)
    pairs = list(read_tagged(Path(test)) if labeller.tags else read_labels(test))
    if not pairs:
        raise CorpusError(f"{test} contains no texts to evaluate on")
    outputs, references = labeller.label([pair.source for pair in pairs]), [pair.target for pair in pairs]
    further: dict[str, float] = {}
    if labeller.tags:
        ours, theirs = [line.split() for line in outputs], [line.split() for line in references]
        result = Classification.of([tag for line in ours for tag in line], [tag for line in theirs for tag in line])
        spans = span_scores(ours, theirs)
        if spans.references or spans.outputs:
            further = {"span precision": spans.precision, "span recall": spans.recall, "span F1": spans.f1}
    else:
        result = Classification.of(outputs, references)
    if output is not None:
        with written_to(output):
            write_atomically(output, "".join(line + "\n" for line in outputs).encode())
    report_labels(
        result,
        further=further,
        # The tags of a sentence depend on each other.
        independent=not labeller.tags,
        of=(len(pairs), "texts"),
        test=test,
        confusion=confusion,
        json_output=json_output,
    )
