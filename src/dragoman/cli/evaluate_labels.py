"""dragoman evaluate with a classifier or a tagger"""

import json
from pathlib import Path

from dragoman.cli.writing import written_to
from dragoman.errors import CorpusError, SettingsError
from dragoman.printing import printable

# Confusions and labels that are printed.
MOST_CONFUSIONS, MOST_LABELS = 10, 40


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
    from dragoman.evaluation.classification import Classification, draw_confusion, span_scores
    from dragoman.files import write_atomically
    from dragoman.representation.labeller import Labeller
    from dragoman.run.tasks.labelled import read_labels

    if confusion is not None and confusion.suffix not in (".png", ".svg"):
        raise SettingsError(f"--confusion {confusion}: the picture must end with .png or .svg")
    labeller = Labeller.load(model, device=device)
    pairs = list(read_tagged(Path(test)) if labeller.tags else read_labels(test))
    if not pairs:
        raise CorpusError(f"{test} contains no texts to evaluate on")
    outputs, references = labeller.label([pair.source for pair in pairs]), [pair.target for pair in pairs]
    metrics: dict[str, float] = {}
    if labeller.tags:
        ours, theirs = [line.split() for line in outputs], [line.split() for line in references]
        result = Classification.of([tag for line in ours for tag in line], [tag for line in theirs for tag in line])
        spans = span_scores(ours, theirs)
        if spans.references or spans.outputs:
            metrics = {"span precision": spans.precision, "span recall": spans.recall, "span F1": spans.f1}
    else:
        result = Classification.of(outputs, references)
    metrics = {"accuracy": result.accuracy, "macro F1": result.macro_f1, **metrics}
    if output is not None:
        with written_to(output):
            write_atomically(output, "".join(line + "\n" for line in outputs).encode())
    if confusion is not None:
        with written_to(confusion):
            draw_confusion(result, confusion)
    scores = result.by_label()
    if json_output:
        by_label = {
            label: {"precision": score.precision, "recall": score.recall, "f1": score.f1, "support": score.support}
            for label, score in scores.items()
        }
        named = {name.lower().replace(" ", "_"): value for name, value in metrics.items()}
        print(json.dumps({**named, "labels": by_label, "texts": len(pairs), "total": result.total}))
        return
    for name, value in metrics.items():
        print(f"{name:<15}{100 * value:6.1f} %")
    print(f"on {result.total:,} labels of {len(pairs):,} texts of {printable(test)}")
    most_frequent = sorted(scores, key=lambda label: (-scores[label].support, label))[:MOST_LABELS]
    width = max(map(len, map(printable, (*most_frequent, "label"))))
    print(f"\n{'label':<{width}}  precision  recall     F1  support")
    for label in most_frequent:
        score = scores[label]
        values = f"{100 * score.precision:9.1f}  {100 * score.recall:6.1f}  {100 * score.f1:5.1f}  {score.support:7,}"
        print(f"{printable(label):<{width}}  {values}")
    if confusions := result.confusions(MOST_CONFUSIONS):
        print("\nmost frequent confusions (reference, output):")
        for reference, answer, count in confusions:
            print(f"{count:7,}  {printable(reference)}  {printable(answer)}")
