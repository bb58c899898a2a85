"""dragoman evaluate, dragoman score"""

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from dragoman.cli.choices import EngineName, PrecisionName, metrics, one_of
from dragoman.errors import CorpusError, SettingsError
from dragoman.printing import complain, printable
from dragoman.search.config import SearchConfig
from dragoman.text.lines import MAX_LINE_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dragoman.data.readers import Pair
    from dragoman.translation.evaluation import Evaluation, ReferenceAlignment
    from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Translate a test set and score it: detokenised BLEU, chrF, TER and perplexity; or as --metric says."""

    model: Positional[Path]
    """A model directory."""
    test: Positional[str]
    """Held-out pairs: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    metric: Annotated[str, one_of(metrics())] = "translation"
    """translation: BLEU, chrF, TER. symbols, which white space separates (letters to copy, phonemes): error rates and
    accuracies. summary: ROUGE, against the lead of the source. For the last two, lines of one source are its several
    references: it is translated and counted once."""
    ensemble: tuple[Path, ...] = ()
    """A further model of the same vocabulary; may be given several times. Probabilities of those that write in the same
    direction are averaged; models of both (tokenizer.right_to_left) rank together what either finds, and the perplexity
    is then the geometric mean of both."""
    against: Path | None = None
    """Another model directory: how sure is the difference?"""
    beam: int = SearchConfig.beam
    """Hypotheses kept in search."""
    length_penalty: float = SearchConfig.length_penalty
    """α of the paper."""
    max_source_tokens: int | None = None
    """Longer sources are split into pieces; the longest of training if not given. What cannot be split, such as symbols
    to reverse, needs more. Of such a source, runs of one character and the like are copied: see `translate`."""
    max_line_characters: int = MAX_LINE_CHARACTERS
    """A longer source is copied; a longer pair does not count in the perplexity."""
    length_bounds: str = ""
    """Of --metric symbols: the longest source in each row of the table by length, such as 40,100,200,400; chosen by the
    longest of all if not given."""
    alignment: Path | None = None
    """Also score the alignment of source and reference by the head that `dragoman align` chose, against this file in
    Pharaoh's format: a line for each pair, 0-0 is a sure link, 0?0 a possible one."""
    examples: int = 0
    """Show so many sentences with reference and translation."""
    output: Path | None = None
    """Write the translations to this file, one for each line of the test set."""
    json: bool = False
    """Print JSON instead of a table."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    engine: EngineName = "auto"
    """native is compiled for this processor, and what auto takes on a CPU."""
    precision: PrecisionName = "auto"
    """Of the native engine; the perplexity is computed in torch, in float32."""
    shortlist: bool = False
    """Of the native engine: use the model's shortlist."""

    def run(self) -> None:
        """Translate, score, print."""
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.evaluation.task import TaskOptions
        from dragoman.evaluation.tasks import task_named
        from dragoman.models.description import load_description
        from dragoman.translation.evaluation import evaluate

        if self.length_bounds and self.metric != "symbols":
            raise SettingsError("--length-bounds needs --metric symbols")
        if self.ensemble and self.alignment is not None:
            raise SettingsError("--alignment is of one model, not of an ensemble: leave out one of the two")
        pairs = list(read_pairs(parse_corpus(self.test)))
        if not pairs:
            raise CorpusError(f"{self.test} has no pairs to evaluate on")
        language = load_description(self.model).target_language
        task = task_named(self.metric, pairs, TaskOptions(language=language, length_bounds=_bounds(self.length_bounds)))
        alignment = self._gold(pairs)
        if self.against is not None:
            # What is wrong with it should show before the test set has been translated.
            load_description(self.against)
        translator = self._load(self.model, *self.ensemble)
        if alignment is not None:
            from dragoman.alignment.reference import check_fit

            check_fit(translator, pairs, self.test)
        with _bar() as on_progress:
            found = evaluate(
                translator,
                pairs,
                task,
                name=" + ".join(map(printable, (self.model, *self.ensemble))),
                search=SearchConfig(beam=self.beam, length_penalty=self.length_penalty),
                alignment=alignment,
                keep=lambda outputs: self._write([outputs[row] for row in task.rows]),
                on_progress=on_progress,
            )
            if self.against is not None:
                found = found.against(self._load(self.against), on_progress=on_progress)
        if self.json:
            about = {"metric": self.metric, "pairs": len(pairs), "beam": self.beam}
            print(json.dumps({**found.to_json(), **about}))
        else:
            self._print(found, len(pairs))

    def _gold(self, pairs: "Sequence[Pair]") -> "ReferenceAlignment | None":
        """Read the reference of --alignment: what is wrong with it should show before anything is translated."""
        if self.alignment is None:
            return None
        from dragoman.alignment.heads import AlignmentHead
        from dragoman.alignment.reference import read_reference_alignments
        from dragoman.translation.evaluation import ReferenceAlignment

        head = AlignmentHead.load(self.model)
        return ReferenceAlignment(
            head=head, references=read_reference_alignments(self.alignment, pairs, f"of {self.test}")
        )

    def _load(self, *directories: Path) -> "Translator":
        from dragoman.translation.translator import Translator

        return Translator.load(
            *directories,
            device=self.device,
            engine=self.engine,
            precision=self.precision,
            shortlist=self.shortlist,
            max_source_tokens=self.max_source_tokens,
            max_line_characters=self.max_line_characters,
        )

    def _write(self, lines: "Sequence[str]") -> None:
        from dragoman.files import write_atomically

        if self.output is not None:
            write_atomically(self.output, "".join(line + "\n" for line in lines).encode())

    def _print(self, found: "Evaluation", pairs: int) -> None:
        print(found.table())
        count = len(found.task.sources)
        sources = "" if count == pairs else f" with {count:,} sources"
        print(f"on {pairs:,} pairs{sources} of {printable(self.test)}, beam {self.beam}; {found.engine}")
        for note in found.notes():
            print(note)
        if details := found.scores.details():
            print(f"\n{details}")
        if found.comparison is not None:
            print(f"\nagainst {printable(self.against)}:\n{found.comparison.table()}")
        for source, references, output in found.examples(self.examples):
            print(f"\nsource       {printable(source)}")
            for reference in references:
                print(f"reference    {printable(reference)}")
            print(f"translation  {printable(output)}")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Print how probable each translation is: natural log-probability, tab, length-normalised score."""

    model: Positional[Path]
    """A model directory."""
    corpus: Positional[str]
    """Pairs: x.tsv, x.jsonl, a.en,a.de (also .gz, .zst), or - for TSV on standard input."""
    length_penalty: float = SearchConfig.length_penalty
    """α of the paper, for the score."""
    max_line_characters: int = MAX_LINE_CHARACTERS
    """A pair that is longer on either side is not scored: its numbers are nan."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""

    def run(self) -> None:
        """Score all pairs, a few thousand at a time."""
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
                    complain(f"pair {number}: longer than --max-line-characters; not scored")


def _bounds(text: str) -> list[int]:
    """Whole numbers that commas separate."""
    try:
        return [int(bound) for bound in text.split(",")] if text else []
    except ValueError:
        raise SettingsError(
            f"--length-bounds {text}: give whole numbers with commas between, such as 40,100,200"
        ) from None


@contextmanager
def _bar() -> "Iterator[Callable[[int, int], None]]":
    """Show progress to a person who waits, until everything is translated."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("translating", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total, visible=done < total)
