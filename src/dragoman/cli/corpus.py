"""dragoman corpus list, fetch, clean, stats"""

import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro
from tyro.conf import Positional, arg

from dragoman.cli.examples import Example
from dragoman.cli.fetching import CORPORA, described, with_status
from dragoman.cli.options import CorpusNames, OptionalCount, OutDirectory


@dataclass(frozen=True, kw_only=True)
class ListCorpora:
    """List the corpora that `dragoman corpus fetch` provides."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("List names, sizes and licences", "dragoman corpus list"),
        Example("Fetch one of them", "dragoman corpus fetch home-assistant --pair en-de"),
    )

    def run(self) -> None:
        """Print name, description and licence of each corpus."""
        from dragoman.corpora import list_corpora

        for corpus in list_corpora():
            print(f"{corpus.name}\n    {corpus.description}")
            size = f"{corpus.download_bytes / 1e6:.0f} MB" if corpus.download_bytes else "nothing"
            print(f"    licence: {corpus.licence} ({corpus.attribution}); {size} to download")
            if corpus.languages:
                print(f"    languages for --pair: {' '.join(corpus.languages)}")
            if corpus.training_pairs:
                print(f"    {corpus.training_pairs:,} pairs to train on, or the number given with --pairs")


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """Download or generate a corpus: train.tsv, valid.tsv and test.tsv without overlap, or folders of pictures."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Fetch English-German user-interface strings", "dragoman corpus fetch home-assistant --pair en-de"),
        Example("Generate numbers to reverse", "dragoman corpus fetch reverse --pairs 20000"),
    )

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Name of the corpus; `dragoman corpus list` prints them."""
    pair: Annotated[str | None, arg(metavar="SOURCE-TARGET", help_behavior_hint="")] = None
    """Languages, such as en-de, of a corpus with several languages."""
    pairs: OptionalCount = None
    """Number of training pairs to generate (copy, reverse, addition)."""
    out: OutDirectory = CORPORA
    """Directory in which NAME/ or NAME/SOURCE-TARGET/ is written."""

    def run(self) -> None:
        """Fetch the corpus unless the directory already has it."""
        from dragoman.corpora import fetch, fetch_pictures, source_named
        from dragoman.errors import SettingsError

        if source_named(self.name).kind == "pictures":
            if self.pair is not None or self.pairs is not None:
                raise SettingsError(f"{self.name} consists of pictures; remove --pair and --pairs")
            print(described(with_status(lambda report: fetch_pictures(self.name, self.out, on_progress=report))))
        else:
            pair, pairs = self.pair, self.pairs
            files = with_status(
                lambda report: fetch(self.name, self.out, pair=pair, training_pairs=pairs, on_progress=report)
            )
            print(described(files))


@dataclass(frozen=True, kw_only=True)
class Clean:
    """Clean corpora as training does: TSV on standard output, a report on standard error."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Clean a corpus", "dragoman corpus clean mine.tsv > clean.tsv"),
        Example("Keep pairs with equal sides", "dragoman corpus clean mine.tsv --set copied_source=false > clean.tsv"),
    )

    corpora: CorpusNames
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")] = ()
    """One cleaning rule, such as max_characters=500."""

    def run(self) -> None:
        """Read, clean and print the pairs; print the report."""
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
    """Print numbers of pairs, words and duplicates, lengths, and examples."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Describe a corpus", "dragoman corpus stats mine.tsv"),
        Example("Describe two parallel files", "dragoman corpus stats mine.en,mine.de"),
    )

    corpora: CorpusNames

    def run(self) -> None:
        """Print the table of statistics."""
        from dragoman.data.readers import parse_corpus, read_corpora
        from dragoman.data.statistics import corpus_stats

        print(corpus_stats(read_corpora([parse_corpus(name) for name in self.corpora])).table())


ACTIONS: dict[str, type[ListCorpora | Fetch | Clean | Stats]] = {
    "list": ListCorpora,
    "fetch": Fetch,
    "clean": Clean,
    "stats": Stats,
}


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Fetch, clean and describe corpora."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = ListCorpora.EXAMPLES

    action: (
        Annotated[ListCorpora, tyro.conf.subcommand("list")]
        | Annotated[Fetch, tyro.conf.subcommand("fetch")]
        | Annotated[Clean, tyro.conf.subcommand("clean")]
        | Annotated[Stats, tyro.conf.subcommand("stats")]
    )

    def run(self) -> None:
        """Run the action."""
        self.action.run()
