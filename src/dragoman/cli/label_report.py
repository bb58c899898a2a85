"""What `dragoman evaluate` and `dragoman images evaluate` print of a model that gives labels."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError
from dragoman.printing import printable

if TYPE_CHECKING:
    from dragoman.evaluation.classification import Classification

# Confusions and labels that are printed.
MOST_CONFUSIONS, MOST_LABELS = 10, 40


def check_confusion_file(confusion: Path | None) -> None:
    """Check the file of --confusion before the model is used.

    Raises:
        SettingsError: if it is a picture of another format.
    """
    if confusion is not None and confusion.suffix not in (".png", ".svg"):
        raise SettingsError(f"--confusion {printable(confusion)}: the picture must end with .png or .svg")


def report_labels(
    result: "Classification",
    *,
    further: Mapping[str, float],
    independent: bool,
    of: tuple[int, str],
    test: Path | str,
    confusion: Path | None,
    json_output: bool,
) -> None:
    """Print accuracy, macro F1, the scores of each label and the most frequent confusions; draw the confusion.

    Args:
        result: outputs and references.
        further: further metrics, 0 to 1, by their names.
        independent: True to print the interval of the accuracy, which is valid for labels of separate inputs.
        of: number and name of the inputs, such as (200, "texts").
        test: the test set, for the table.
        confusion: picture of the confusion to draw; None for no picture.
        json_output: True to print JSON instead of tables.

    Raises:
        StorageError: if the picture cannot be written.
    """
    from dragoman.evaluation.classification import draw_confusion

    if confusion is not None:
        with written_to(confusion):
            draw_confusion(result, confusion)
    metrics = {"accuracy": result.accuracy, "macro F1": result.macro_f1, **further}
    low, high = result.accuracy_interval()
    scores = result.by_label()
    inputs, name_of_inputs = of
    if json_output:
        by_label = {
            label: {"precision": score.precision, "recall": score.recall, "f1": score.f1, "support": score.support}
            for label, score in scores.items()
        }
        named: dict[str, object] = {name.lower().replace(" ", "_"): value for name, value in metrics.items()}
        if independent:
            named["accuracy_interval"] = [low, high]
        print(json.dumps({**named, "labels": by_label, name_of_inputs: inputs, "total": result.total}))
        return
    for name, value in metrics.items():
        ends = f"  (95 % interval: {100 * low:.1f} to {100 * high:.1f})" if independent and name == "accuracy" else ""
        print(f"{name:<15}{100 * value:6.1f} %{ends}")
    print(f"on {result.total:,} labels of {inputs:,} {name_of_inputs} of {printable(test)}")
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
