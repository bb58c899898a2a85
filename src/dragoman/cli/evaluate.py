"""dragoman evaluate, dragoman score"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.bars import bar
from dragoman.cli.choices import metrics, one_of
from dragoman.cli.examples import Example
from dragoman.cli.options import (
    CORPUS_FORMATS,
    BeamOptions,
    CorpusName,
    Count,
    Device,
    Ensemble,
    Flag,
    LongLineOptions,
    ModelDirectory,
    Number,
    OptionalCount,
    OptionalFile,
    OptionalModel,
    TranslationEngineOptions,
    changed_options,
    check_one_model,
)
from dragoman.errors import CorpusError, SettingsError
from dragoman.printing import print_message, printable
from dragoman.search.config import SearchConfig
from dragoman.text.lines import MAX_LINE_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.data.readers import Pair
    from dragoman.translation.evaluation import Evaluation, ReferenceAlignment
    from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Select what is measured."""

    metric: Annotated[
        str,
        one_of(metrics()),
        arg(
            help=(
                "translation: BLEU, chrF, TER; symbols: error rates of white-space-separated symbols; summary: ROUGE. "
                "For the last two, lines with the same source are the references of one output, which counts once."
            )
        ),
    ] = "translation"
    against: OptionalModel = None
    """Second model: test whether the difference is significant."""
    length_bounds: Annotated[str, arg(metavar="N,N,...", help_behavior_hint="")] = ""
    """Longest source of each row of the table by length, such as 40,100,200 (requires --metric symbols)."""
    alignment: OptionalFile = None
    """Reference alignments (Pharaoh format): also evaluate the word alignment of source and reference."""


@dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Evaluate a language model with other windows than those of training."""

    context: OptionalCount = None
    """Number of tokens from which the next one is predicted; by default as in training."""
    stride: OptionalCount = None
    """Number of tokens that each window scores, at most the context; by default half of it. Fewer are more exact."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOutputOptions:
    """Print or write more than the table."""

    examples: Count = 0
    """Number of sentences to print with reference and translation."""
    output: OptionalFile = None
    """Write the translations, or the labels, to this file, one line per line of the test set."""
    confusion: OptionalFile = None
    """Draw the confusion of labels to this file (.png or .svg); for a classifier or a tagger."""
    json: Flag = False
    """Print JSON instead of a table."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Measure a model: BLEU, chrF, TER and perplexity of a translation model, bits per byte of a language model."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Measure a model and print ten of its translations", "dragoman evaluate models/mine test.tsv --examples 10"
        ),
        Example(
            "Test whether it differs from another model", "dragoman evaluate models/mine test.tsv --against models/old"
        ),
    )

    model: ModelDirectory
    test: Annotated[
        Positional[str],
        arg(
            metavar="CORPUS",
            help=f"Sentence pairs: {CORPUS_FORMATS}. For a language model: text, a folder, or x.jsonl (key text). "
            "For a classifier: a text, a tab and its label on each line; for a tagger: a word, a tab and its tag.",
        ),
    ]
    ensemble: Ensemble = ()
    metric: MetricOptions = MetricOptions()
    search: BeamOptions = BeamOptions()
    engine: TranslationEngineOptions = TranslationEngineOptions()
    long_line: LongLineOptions = LongLineOptions()
    window: WindowOptions = WindowOptions()
    output: EvaluateOutputOptions = EvaluateOutputOptions()

    def run(self) -> None:
        """Measure the model and print the metrics."""
        from dragoman.models.description import load_description
        from dragoman.models.registry import kind_of

        kind = kind_of(load_description(self.model).model)
        if kind not in ("classifier", "tagger") and self.output.confusion is not None:
            raise SettingsError("--confusion: available for classifiers and taggers only")
        if kind == "language":
            self._evaluate_language_model()
        elif kind in ("classifier", "tagger"):
            self._evaluate_labels()
        else:
            self._evaluate_translator()

    def _evaluate_language_model(self) -> None:
        """Predict the text, and print the losses."""
        from dragoman.cli.evaluate_language import evaluate_language_model

        changed = [
            *changed_options(self.metric),
            *changed_options(self.search),
            *changed_options(self.long_line),
            *(name for name in changed_options(self.output) if name != "--json"),
            *(name for name in changed_options(self.engine) if name == "--shortlist"),
            *(["--ensemble"] if self.ensemble else []),
        ]
        if changed:
            raise SettingsError(
                f"{', '.join(changed)}: not available for a language model, and {printable(self.model)} is one"
            )
        evaluate_language_model(
            self.model,
            self.test,
            device=self.engine.device,
            engine=self.engine.engine,
            precision=self.engine.precision,
            context=self.window.context,
            stride=self.window.stride,
            json_output=self.output.json,
        )

    def _evaluate_labels(self) -> None:
        """Label the test set, and print the metrics."""
        from dragoman.cli.evaluate_labels import evaluate_labels

        changed = [
            *changed_options(self.metric),
            *changed_options(self.search),
            *changed_options(self.long_line),
            *changed_options(self.window),
            *(name for name in changed_options(self.output) if name == "--examples"),
            *(name for name in changed_options(self.engine) if name != "--device"),
            *(["--ensemble"] if self.ensemble else []),
        ]
        if changed:
            raise SettingsError(
                f"{', '.join(changed)}: not available for classifiers and taggers, and {printable(self.model)} is one"
            )
        evaluate_labels(
            self.model,
            self.test,
            device=self.engine.device,
            confusion=self.output.confusion,
            output=self.output.output,
            json_output=self.output.json,
        )

    def _evaluate_translator(self) -> None:
        """Translate the test set, measure, and print the metrics."""
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.evaluation.task import TaskOptions
        from dragoman.evaluation.tasks import task_named
        from dragoman.models.description import load_description
        from dragoman.translation.evaluation import evaluate

        if changed := changed_options(self.window):
            raise SettingsError(f"{', '.join(changed)}: available for language models only")
        if self.metric.length_bounds and self.metric.metric != "symbols":
            raise SettingsError("--length-bounds requires --metric symbols")
        if self.metric.alignment is not None:
            check_one_model(self.ensemble, "--alignment")
        pairs = list(read_pairs(parse_corpus(self.test)))
        if not pairs:
            raise CorpusError(f"{self.test} contains no pairs to evaluate on")
        language = load_description(self.model).target_language
        bounds = _bounds(self.metric.length_bounds)
        task = task_named(self.metric.metric, pairs, TaskOptions(language=language, length_bounds=bounds))
        alignment = self._reference_alignment(pairs)
        against = self.metric.against
        if against is not None:
            # Report an unusable model before the test set is translated.
            load_description(against)
        translator = self._load(self.model, *self.ensemble)
        if alignment is not None:
            from dragoman.alignment.reference import check_fit

            check_fit(translator, pairs, self.test)
        with bar("translating") as on_progress:
            evaluation = evaluate(
                translator,
                pairs,
                task,
                name=" + ".join(map(printable, (self.model, *self.ensemble))),
                search=SearchConfig(beam=self.search.beam, length_penalty=self.search.length_penalty),
                alignment=alignment,
                on_outputs=lambda outputs: self._write([outputs[row] for row in task.rows]),
                on_progress=on_progress,
            )
            if against is not None:
                evaluation = evaluation.against(self._load(against), on_progress=on_progress)
        if self.output.json:
            about = {"metric": self.metric.metric, "pairs": len(pairs), "beam": self.search.beam}
            print(json.dumps({**evaluation.to_json(), **about}))
        else:
            self._print(evaluation, len(pairs))

    def _reference_alignment(self, pairs: "Sequence[Pair]") -> "ReferenceAlignment | None":
        """Read the file of --alignment; called before translating, so that errors in it are reported at once."""
        if self.metric.alignment is None:
            return None
        from dragoman.alignment.heads import AlignmentHead
        from dragoman.alignment.reference import read_reference_alignments
        from dragoman.translation.evaluation import ReferenceAlignment

        head = AlignmentHead.load(self.model)
        return ReferenceAlignment(
            head=head, references=read_reference_alignments(self.metric.alignment, pairs, self.test)
        )

    def _load(self, *directories: Path) -> "Translator":
        from dragoman.translation.translator import Translator

        return Translator.load(
            *directories,
            device=self.engine.device,
            engine=self.engine.engine,
            precision=self.engine.precision,
            shortlist=self.engine.shortlist,
            max_source_tokens=self.long_line.max_source_tokens,
            max_line_characters=self.long_line.max_line_characters,
        )

    def _write(self, lines: "Sequence[str]") -> None:
        from dragoman.files import write_atomically

        if self.output.output is not None:
            write_atomically(self.output.output, "".join(line + "\n" for line in lines).encode())

    def _print(self, evaluation: "Evaluation", pairs: int) -> None:
        print(evaluation.table())
        count = len(evaluation.task.sources)
        sources = "" if count == pairs else f" with {count:,} sources"
        print(f"on {pairs:,} pairs{sources} of {printable(self.test)}, beam {self.search.beam}; {evaluation.engine}")
        for note in evaluation.notes():
            print(note)
        if details := evaluation.metrics.details():
            print(f"\n{details}")
        if evaluation.significance is not None:
            print(f"\nagainst {printable(self.metric.against)}:\n{evaluation.significance.table()}")
        for source, references, output in evaluation.examples(self.output.examples):
            print(f"\nsource       {printable(source)}")
            for reference in references:
                print(f"reference    {printable(reference)}")
            print(f"translation  {printable(output)}")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Print the natural log-probability of each translation, a tab, and its length-normalised score."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Score pairs of source and translation", "dragoman score models/mine pairs.tsv"),
        Example(
            "Read the least probable translations first",
            "dragoman score models/mine pairs.tsv | paste - pairs.tsv | sort -g -k 2",
        ),
    )

    model: ModelDirectory
    corpus: CorpusName
    length_penalty: Number = SearchConfig.length_penalty
    """Length penalty α in the length-normalised score."""
    max_line_characters: Count = MAX_LINE_CHARACTERS
    """Pairs with a longer side are not scored: nan is printed."""
    device: Device = "auto"

    def run(self) -> None:
        """Score and print the pairs, a few thousand at a time."""
        from itertools import islice

        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.search.results import NOT_SCORED
        from dragoman.translation.translator import Translator

        translator = Translator.load(
            self.model, device=self.device, engine="torch", max_line_characters=self.max_line_characters
        )
        pairs = read_pairs(parse_corpus(self.corpus))
        number = 0
        while chunk := list(islice(pairs, 2000)):
            for score in translator.score(chunk, length_penalty=self.length_penalty):
                number += 1
                sys.stdout.write(f"{score.log_probability:.4f}\t{score.score:.4f}\n")
                if score is NOT_SCORED:
                    print_message(f"pair {number}: longer than --max-line-characters; not scored")


def _bounds(text: str) -> list[int]:
    """Parse whole numbers separated by commas."""
    try:
        return [int(bound) for bound in text.split(",")] if text else []
    except ValueError:
        raise SettingsError(
            f"--length-bounds {text}: expected whole numbers separated by commas, such as 40,100,200"
        ) from None
