"""dragoman evaluate, dragoman score"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from dragoman.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dragoman.alignment.heads import AlignmentHead
    from dragoman.cli.tasks import Report, Task
    from dragoman.data.readers import Pair
    from dragoman.evaluation.alignment import AlignmentScores, Reference
    from dragoman.evaluation.significance import Significance
    from dragoman.models.figures import Figure
    from dragoman.translation.results import Translation
    from dragoman.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Translate a test set and score it: detokenised BLEU, chrF, TER and perplexity; or as --metric says."""

    model: Positional[Path]
    """A model directory."""
    test: Positional[str]
    """Held-out pairs: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    metric: Literal["translation", "symbols", "summary"] = "translation"
    """translation: BLEU, chrF, TER. symbols, which white space separates (letters to copy, phonemes): error rates and
    accuracies. summary: ROUGE, against the lead of the source. For the last two, lines of one source are its several
    references: it is translated and counted once."""
    ensemble: tuple[Path, ...] = ()
    """A further model of the same vocabulary; may be given several times. Probabilities of those that write in the same
    direction are averaged; models of both (tokenizer.right_to_left) rank together what either finds, and the perplexity
    is then the geometric mean of both."""
    against: Path | None = None
    """Another model directory: how sure is the difference?"""
    beam: int = 4
    """Hypotheses kept in search."""
    length_penalty: float = 1.0
    """α of the paper."""
    max_source_tokens: int | None = None
    """Longer sources are split into pieces; the longest of training if not given. What cannot be split, such as symbols
    to reverse, needs more."""
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
    engine: Literal["auto", "native", "torch"] = "auto"
    """native is compiled for this processor, and what auto takes on a CPU."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """Of the native engine; the perplexity is computed in torch, in float32."""
    shortlist: bool = False
    """Of the native engine: use the model's shortlist."""

    def run(self) -> None:
        """Translate, score, print."""
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.evaluation.metrics import perplexity
        from dragoman.files import write_atomically
        from dragoman.models.description import load_description

        if self.length_bounds and self.metric != "symbols":
            raise UserError("--length-bounds needs --metric symbols")
        if self.ensemble and self.alignment is not None:
            raise UserError("--alignment is of one model, not of an ensemble: leave out one of the two")
        pairs = list(read_pairs(parse_corpus(self.test)))
        if not pairs:
            raise UserError(f"{self.test} has no pairs to evaluate on")
        task = self._task(pairs)
        aligned_by, gold = None, []
        if self.alignment is not None:
            from dragoman.alignment.gold import read_gold
            from dragoman.alignment.heads import AlignmentHead

            # What is wrong with the reference should show before the test set has been translated.
            aligned_by, gold = AlignmentHead.load(self.model), read_gold(self.alignment, pairs, f"of {self.test}")
        if self.against is not None:
            # What is wrong with it should show before the test set has been translated.
            load_description(self.against)
        translator = self._load(self.model, *self.ensemble)
        name = " + ".join(map(str, (self.model, *self.ensemble)))
        if aligned_by is not None:
            from dragoman.alignment.gold import check_fit

            check_fit(translator, pairs, self.test)
        translations = self._translate(translator, task.sources)
        outputs = [translation.text for translation in translations]
        if self.output is not None:
            write_atomically(self.output, "".join(outputs[row] + "\n" for row in task.rows).encode())
        likelihood = translator.score(pairs)
        comparison = None
        if self.against is not None:
            other = self._translate(self._load(self.against), task.sources)
            comparison = task.compare([translation.text for translation in other], name, outputs)
        found = _Found(
            scores=task.score(outputs, name),
            perplexity=perplexity(
                sum(score.log_probability for score in likelihood), sum(score.tokens for score in likelihood)
            ),
            figures=translator.figures(pairs),
            split=sum(translation.pieces > 1 for translation in translations),
            truncated=sum(translation.truncated for translation in translations),
            max_source_tokens=translator.max_source_tokens,
            engine=translator.engine,
            comparison=comparison,
            alignment=None if aligned_by is None else _alignment(translator, pairs, gold, aligned_by),
        )
        if self.json:
            about = {"metric": self.metric, "pairs": len(pairs), "beam": self.beam}
            print(json.dumps({**found.to_json(), **about}))
            return
        print(found.table())
        sources = "" if len(task.sources) == len(pairs) else f" with {len(task.sources):,} sources"
        print(f"on {len(pairs):,} pairs{sources} of {self.test}, beam {self.beam}; {translator.engine}")
        for note in found.notes(len(task.sources)):
            print(note)
        if details := found.scores.details():
            print(f"\n{details}")
        if comparison is not None:
            print(f"\nagainst {self.against}:\n{comparison.table()}")
        for i in _spread(len(task.sources), self.examples):
            print(f"\nsource       {task.sources[i]}")
            for reference in task.references[i]:
                print(f"reference    {reference}")
            print(f"translation  {outputs[i]}")

    def _task(self, pairs: "Sequence[Pair]") -> "Task":
        from dragoman.cli.tasks import Summaries, Symbols, Translations
        from dragoman.models.description import load_description

        language = load_description(self.model).target_language
        if self.metric == "symbols":
            return Symbols(pairs, _bounds(self.length_bounds))
        return Summaries(pairs, language) if self.metric == "summary" else Translations(pairs, language)

    def _load(self, *directories: Path) -> "Translator":
        from dragoman.translation.translator import Translator

        return Translator.load(
            *directories,
            device=self.device,
            engine=self.engine,
            precision=self.precision,
            shortlist=self.shortlist,
            max_source_tokens=self.max_source_tokens,
        )

    def _translate(self, translator: "Translator", sources: "Sequence[str]") -> "list[Translation]":
        from rich.console import Console
        from rich.progress import track

        from dragoman.search.config import SearchConfig

        console = Console(stderr=True)
        search = SearchConfig(beam=self.beam, length_penalty=self.length_penalty)
        stream = track(
            translator.translate_stream(iter(sources), search=search),
            "translating",
            total=len(sources),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        return list(stream)


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What an evaluation found.

    split, truncated   sources that were split, outputs that the maximum length ended
    """

    scores: "Report"
    perplexity: float
    figures: "Mapping[str, Figure]"
    split: int
    truncated: int
    max_source_tokens: int
    engine: str
    comparison: "Significance | None"
    alignment: "AlignmentScores | None"

    def to_json(self) -> dict[str, object]:
        """Plain values; figures and comparison only if there are any."""
        report: dict[str, object] = {
            **self.scores.to_json(),
            "perplexity": self.perplexity,
            "split": self.split,
            "truncated": self.truncated,
            "max_source_tokens": self.max_source_tokens,
            "engine": self.engine,
        }
        if self.figures:
            report["figures"] = {name: figure.to_json() for name, figure in self.figures.items()}
        if self.alignment is not None:
            report["alignment"] = asdict(self.alignment)
        if self.comparison is not None:
            report["against"] = asdict(self.comparison)
        return report

    def table(self) -> str:
        """Name, value and note in columns."""
        rows = [*self.scores.rows(), ("perplexity", f"{self.perplexity:.2f}", "per subword of the reference")]
        for name, figure in self.figures.items():
            rows.append((name, f"{figure.mean:.2f}", f"mean over tokens; at most {figure.maximum:g}"))
        if self.alignment is not None:
            found = self.alignment
            rows.append(("AER", f"{100 * found.error_rate:.1f}", "alignment error rate, %; lower is better"))
            rows.append(("alignment precision", f"{100 * found.precision:.1f}", f"% of {found.links:,} links"))
            rows.append(("alignment recall", f"{100 * found.recall:.1f}", "% of the sure links"))
        names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
        return "\n".join(f"{name:<{names}}  {value:>{max(values, 6)}}   {note}".rstrip() for name, value, note in rows)

    def notes(self, sources: int) -> "Iterator[str]":
        """What should be known of the outputs for so many sources."""
        if self.split:
            yield (
                f"{self.split:,} of {sources:,} sources had more than {self.max_source_tokens:,} subwords and were "
                "split into pieces; --max-source-tokens sets this limit"
            )
        if self.truncated:
            yield f"{self.truncated:,} of {sources:,} outputs were ended by the maximum length, not by the model"


@dataclass(frozen=True, kw_only=True)
class Score:
    """Print how probable each translation is: natural log-probability, tab, length-normalised score."""

    model: Positional[Path]
    """A model directory."""
    corpus: Positional[str]
    """Pairs: x.tsv, x.jsonl, a.en,a.de (also .gz, .zst), or - for TSV on standard input."""
    length_penalty: float = 1.0
    """α of the paper, for the score."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""

    def run(self) -> None:
        """Score all pairs, a few thousand at a time."""
        from itertools import islice

        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.translation.translator import Translator

        translator = Translator.load(self.model, device=self.device, engine="torch")
        pairs = read_pairs(parse_corpus(self.corpus))
        while chunk := list(islice(pairs, 2000)):
            for score in translator.score(chunk, length_penalty=self.length_penalty):
                sys.stdout.write(f"{score.log_probability:.4f}\t{score.score:.4f}\n")


def _alignment(
    translator: "Translator",
    pairs: "Sequence[Pair]",
    gold: "Sequence[Reference]",
    by: "AlignmentHead",
) -> "AlignmentScores":
    from dragoman.evaluation.alignment import score_alignments

    return score_alignments(translator.align(pairs, by), gold)


def _bounds(text: str) -> list[int]:
    """Whole numbers that commas separate."""
    try:
        return [int(bound) for bound in text.split(",")] if text else []
    except ValueError:
        raise UserError(f"--length-bounds {text}: give whole numbers with commas between, such as 40,100,200") from None


def _spread(count: int, wanted: int) -> list[int]:
    """`wanted` indices evenly over `count`, or all."""
    wanted = min(wanted, count)
    return [number * count // wanted for number in range(wanted)]
