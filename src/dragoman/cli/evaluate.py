"""dragoman evaluate, dragoman score"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from dragoman.errors import UserError

if TYPE_CHECKING:
    from dragoman.decoding.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Translate a test set and score it: detokenised BLEU, chrF, TER and perplexity."""

    model: Positional[Path]
    """A model directory."""
    test: Positional[str]
    """Held-out translations: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    against: Path | None = None
    """Another model directory: how sure is the difference?"""
    beam: int = 4
    """Hypotheses kept in search."""
    length_penalty: float = 1.0
    """α of the paper."""
    examples: int = 0
    """Show so many sentences with reference and translation."""
    output: Path | None = None
    """Write the translations to this file."""
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
        from dragoman.evaluation.metrics import bleu_tokenizer_for, perplexity, score_translations
        from dragoman.evaluation.significance import paired_bootstrap
        from dragoman.files import write_atomically
        from dragoman.models.description import load_description

        pairs = list(read_pairs(parse_corpus(self.test)))
        if not pairs:
            raise UserError(f"{self.test} has no pairs to evaluate on")
        references = [pair.target for pair in pairs]
        tokenize = bleu_tokenizer_for(load_description(self.model).target_language)
        translator = self._load(self.model)
        translations = self._translate(translator, [pair.source for pair in pairs])
        if self.output is not None:
            write_atomically(self.output, "".join(line + "\n" for line in translations).encode())
        scores = score_translations(translations, references, tokenize=tokenize)
        likelihood = translator.score(pairs)
        surprise = perplexity(
            sum(score.log_probability for score in likelihood), sum(score.tokens for score in likelihood)
        )
        comparison = None
        if self.against is not None:
            other = self._translate(self._load(self.against), [pair.source for pair in pairs])
            comparison = paired_bootstrap(references, other, {str(self.model): translations}, tokenize=tokenize)
        if self.json:
            figures = {**scores.to_json(), "perplexity": surprise}
            if comparison is not None:
                figures["against"] = asdict(comparison)
            print(json.dumps(figures))
            return
        print(f"BLEU        {scores.bleu:6.1f}   {scores.signatures['bleu']}")
        print(f"chrF        {scores.chrf:6.1f}   {scores.signatures['chrf']}")
        print(f"TER         {scores.ter:6.1f}   {scores.signatures['ter']}")
        print(f"perplexity  {surprise:6.2f}   per subword of the reference")
        print(f"on {len(pairs):,} pairs of {self.test}, beam {self.beam}; {translator.engine}")
        if comparison is not None:
            print(f"\nagainst {self.against}:\n{comparison.table()}")
        for i in _spread(len(pairs), self.examples):
            print(f"\nsource       {pairs[i].source}")
            print(f"reference    {references[i]}")
            print(f"translation  {translations[i]}")

    def _load(self, directory: Path) -> "Translator":
        from dragoman.decoding.translator import Translator

        return Translator.load(
            directory, device=self.device, engine=self.engine, precision=self.precision, shortlist=self.shortlist
        )

    def _translate(self, translator: "Translator", sources: list[str]) -> list[str]:
        from rich.console import Console
        from rich.progress import track

        from dragoman.decoding.search import SearchConfig

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
        return [translation.text for translation in stream]


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
        from dragoman.decoding.translator import Translator

        translator = Translator.load(self.model, device=self.device, engine="torch")
        pairs = read_pairs(parse_corpus(self.corpus))
        while chunk := list(islice(pairs, 2000)):
            for score in translator.score(chunk, length_penalty=self.length_penalty):
                sys.stdout.write(f"{score.log_probability:.4f}\t{score.score:.4f}\n")


def _spread(count: int, wanted: int) -> list[int]:
    """`wanted` indices evenly over `count`, or all."""
    wanted = min(wanted, count)
    return [number * count // wanted for number in range(wanted)]
