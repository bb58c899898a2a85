"""dragoman calibrate"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import arg

from dragoman.cli.bars import bar
from dragoman.cli.examples import Example
from dragoman.cli.options import CorpusName, Device, Flag, ModelDirectory, OptionalCorpus, OptionalFile
from dragoman.cli.writing import written_to
from dragoman.errors import CorpusError, SettingsError
from dragoman.printing import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.evaluation.calibration import Reliability
    from dragoman.translation.rated_lines import RatedLines
    from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Fit how probable it is that a translation is good, and measure it: the confidence that the server shows."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Fit it to held-out pairs", "dragoman calibrate models/mine valid.tsv"),
        Example(
            "Measure it on other pairs, with a picture",
            "dragoman calibrate models/mine valid.tsv --test test.tsv --figure confidence.png",
        ),
    )

    model: ModelDirectory
    corpus: CorpusName
    test: Annotated[
        OptionalCorpus, arg(help="Measure the error on these pairs; by default by cross-validation on the corpus.")
    ] = None
    figure: OptionalFile = None
    """Draw the reliability diagram to this file (.png or .svg)."""
    json: Flag = False
    """Print JSON instead of a table."""
    device: Device = "auto"

    def run(self) -> None:
        """Translate the pairs, fit, measure, and write the confidence into the model directory."""
        from dragoman.models.description import CONFIDENCE_FILE
        from dragoman.translation.confidence import GOOD_CHRF
        from dragoman.translation.translator import Translator

        if self.figure is not None and self.figure.suffix not in (".png", ".svg"):
            raise SettingsError(f"{self.figure}: choose a name that ends in .png or .svg")
        translator = Translator.load(self.model, device=self.device)
        rated = _rate(translator, self.corpus)
        confidence = rated.fit()
        if self.test is None:
            measured, predicted = rated, rated.cross_validated()
        else:
            measured = _rate(translator, self.test)
            predicted = [confidence.at(value) for value in measured.certainties]
        results = _results(measured, predicted, base_rate=sum(rated.good) / len(rated.good))
        if self.figure is not None:
            self._draw(results)
        confidence.save(self.model)
        fitted, name = results["confidence"], printable(self.model / CONFIDENCE_FILE)
        if self.json:
            report = {key: result.to_json() for key, result in results.items()}
            print(json.dumps({"good_chrf": GOOD_CHRF, "left_out": measured.left_out, **report}))
            return
        print(fitted.table())
        print()
        for key, result in results.items():
            ends = result.error_samples
            print(
                f"{key:<16} calibration error {100 * result.error:4.1f} % "
                f"(bootstrap samples: {100 * ends.low:.1f} to {100 * ends.high:.1f}), Brier score {result.brier:.3f}"
            )
        print(
            f"{100 * fitted.base_rate:.1f} % of {fitted.count:,} lines are good: chrF of at least {GOOD_CHRF:g}; "
            + ("cross-validated on " if self.test is None else "measured on ")
            + printable(self.test or self.corpus)
        )
        if measured.left_out:
            print(f"{measured.left_out:,} lines without a confidence are left out: empty, copied or truncated ones")
        print(f"{name}: fitted to {confidence.lines:,} lines of {printable(self.corpus)}")

    def _draw(self, results: "Mapping[str, Reliability]") -> None:
        from dragoman.evaluation.calibration import draw_reliability
        from dragoman.files import write_atomically

        assert self.figure is not None
        picture = draw_reliability(results, "svg" if self.figure.suffix == ".svg" else "png")
        with written_to(self.figure):
            write_atomically(self.figure, picture)


def _rate(translator: "Translator", corpus: str) -> "RatedLines":
    """Translate the sources of a corpus, and compare with its targets.

    Raises:
        CorpusError: if it has no pairs.
    """
    from dragoman.data.readers import parse_corpus, read_pairs
    from dragoman.search.config import DEFAULT_SEARCH
    from dragoman.translation.evaluation import translate_all
    from dragoman.translation.rated_lines import RatedLines

    pairs = list(read_pairs(parse_corpus(corpus)))
    if not pairs:
        raise CorpusError(f"{corpus} contains no pairs")
    with bar("translating") as on_progress:
        translations = translate_all(translator, [pair.source for pair in pairs], DEFAULT_SEARCH, on_progress)
    return RatedLines.of(translations, [pair.target for pair in pairs])


def _results(measured: "RatedLines", predicted: list[float], *, base_rate: float) -> "Mapping[str, Reliability]":
    """Return the reliability of the confidence, of the certainty itself, and of one number for all lines.

    Raises:
        CorpusError: if no line has a certainty.
    """
    from dragoman.evaluation.calibration import reliability

    if not measured.good:
        raise CorpusError("no line of the test pairs has a confidence: all are empty, copied or truncated")
    return {
        "confidence": reliability(predicted, measured.good),
        "certainty": reliability(measured.certainties, measured.good),
        "base rate": reliability([base_rate] * len(measured.good), measured.good),
    }
