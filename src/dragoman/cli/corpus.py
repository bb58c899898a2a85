"""dragoman corpus list, fetch, clean, stats"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class ListCorpora:
    """List the corpora that `fetch` knows."""

    def run(self) -> None:
        """Print name, description, licence."""
        from dragoman.corpora import list_corpora

        for corpus in list_corpora():
            print(f"{corpus.name}\n    {corpus.description}")
            size = f"{corpus.download_bytes / 1e6:.0f} MB" if corpus.download_bytes else "nothing"
            print(f"    licence: {corpus.licence} ({corpus.attribution}); {size} to download")
            if corpus.languages:
                print(f"    languages, two of them for --pair: {' '.join(corpus.languages)}")
            if corpus.training_pairs:
                print(f"    {corpus.training_pairs:,} pairs to train on, or as many as --pairs says")


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Fetch or make a corpus: train, valid and test, with nothing held out that training has seen."""

    name: Positional[str]
    """The corpus, as `dragoman corpus list` names it."""
    pair: str | None = None
    """Languages, SOURCE-TARGET, as en-de: for a corpus that has several, such as home-assistant."""
    pairs: int | None = None
    """How many pairs to make for training: for copy, reverse and addition."""
    out: Path = Path("corpora")
    """Where to write NAME/, or NAME/PAIR/ if there are languages."""

    def run(self) -> None:
        """Fetch, or find what is already there."""
        from rich.console import Console

        from dragoman.corpora import fetch

        # Shown on a terminal only, and gone afterwards.
        with Console(stderr=True).status("") as status:
            files = fetch(self.name, self.out, pair=self.pair, training_pairs=self.pairs, on_progress=status.update)
        parts = ", ".join(f"{part}.tsv {pairs:,} pairs" for part, pairs in files.pairs.items())
        print(f"{printable(files.directory)}: {parts}{' (already there)' if files.already_there else ''}")


@dataclass(frozen=True, kw_only=True)
class Clean:
    """Clean corpora as training would: TSV on standard output, the report on standard error."""

    corpora: Positional[tuple[str, ...]]
    """Corpora: x.tsv, x.jsonl (also .gz, .zst), a.en,a.de, or -."""
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")] = ()
    """A rule of the cleaning, as max_characters=500 or copied_source=false."""

    def run(self) -> None:
        """Read, clean, write."""
        from dragoman.data.cleaning import CleaningConfig, CleaningReport, clean
        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.errors import CorpusError
        from dragoman.settings import apply_overrides, from_mapping

        config = from_mapping(CleaningConfig, apply_overrides({}, self.set_), "--set")
        report = CleaningReport()
        pairs = read_corpora([parse_corpus(name) for name in self.corpora])
        for number, (source, target) in enumerate(clean(pairs, config, report), 1):
            if any(mark in source + target for mark in "\t\n"):
                raise CorpusError(f"pair {number} has a tab or line feed, which TSV cannot hold: {source!r}")
            sys.stdout.buffer.write(f"{source}\t{target}\n".encode())
        print(report.table(), file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Count pairs, words, lengths and duplicates, and show examples."""

    corpora: Positional[tuple[str, ...]]
    """Corpora: x.tsv, x.jsonl (also .gz, .zst), a.en,a.de, or -."""

    def run(self) -> None:
        """Print a table."""
        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.data.statistics import corpus_stats

        print(corpus_stats(read_corpora([parse_corpus(name) for name in self.corpora])).table())


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Get, clean and look at corpora."""

    action: (
        Annotated[ListCorpora, tyro.conf.subcommand("list")]
        | Annotated[Fetch, tyro.conf.subcommand("fetch")]
        | Annotated[Clean, tyro.conf.subcommand("clean")]
        | Annotated[Stats, tyro.conf.subcommand("stats")]
    )

    def run(self) -> None:
        """Run the action."""
        self.action.run()
