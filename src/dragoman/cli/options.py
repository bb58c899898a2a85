"""Types of arguments and groups of options that several verbs share. Nothing here needs torch.

A verb is a dataclass, its fields are the arguments and options. A field that is itself one of the dataclasses below is
shown in --help as a group of options of its own.
"""

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dragoman.cli.choices import EngineName, PrecisionName
from dragoman.errors import SettingsError
from dragoman.search.config import DEFAULT_BATCH_TOKENS, SamplingConfig, SearchConfig
from dragoman.text.lines import MAX_LINE_CHARACTERS

CORPUS_FILES = "x.tsv, x.jsonl (also .gz, .zst) or two parallel files a.en,a.de"
CORPUS_FORMATS = f"{CORPUS_FILES}, or - for TSV on standard input"


def _hint(default: str) -> str:
    """Return what --help shows after the description of an option that may be left out."""
    return "" if default in ("None", "False") else f"(default: {default})"


Flag = Annotated[bool, arg(help_behavior_hint=_hint)]
Count = Annotated[int, arg(metavar="N")]
Number = Annotated[float, arg(metavar="X")]
OptionalCount = Annotated[int | None, arg(metavar="N", help_behavior_hint=_hint)]
OptionalFile = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint=_hint)]
OptionalCorpus = Annotated[str | None, arg(metavar="CORPUS", help_behavior_hint=_hint)]
OptionalModel = Annotated[Path | None, arg(metavar="MODEL", help_behavior_hint=_hint)]
OptionalText = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint=_hint)]
OptionalLanguage = Annotated[str | None, arg(metavar="CODE", help_behavior_hint=_hint)]

ModelDirectory = Annotated[Positional[Path], arg(metavar="MODEL", help="Model directory, as written by `train`.")]
CorpusName = Annotated[Positional[str], arg(metavar="CORPUS", help=f"Sentence pairs: {CORPUS_FORMATS}.")]
CorpusNames = Annotated[
    Positional[tuple[str, ...]],
    arg(
        metavar="CORPUS ...",
        help=f"Sentence pairs: {CORPUS_FORMATS}. Several are read in order.",
        help_behavior_hint="",
    ),
]
OutDirectory = Annotated[Path, arg(metavar="DIR")]
Device = Annotated[
    str, arg(metavar="DEVICE", help="Device to compute on: auto (a GPU if there is one), cpu, cuda or cuda:N.")
]
Labels = Annotated[tuple[str, ...], arg(name="label", metavar="LABEL", help_behavior_hint="")]
Ensemble = Annotated[
    tuple[Path, ...],
    arg(
        metavar="MODEL",
        help=(
            "Further model with the same vocabulary. Probabilities of models of one writing direction are averaged; "
            "models of both directions (tokenizer.right_to_left) rank the candidates of either."
        ),
    ),
]


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """Search for the most probable output."""

    beam: Count = SearchConfig.beam
    """Beam size, at most 200; 1 is greedy search, the fastest."""
    length_penalty: Number = SearchConfig.length_penalty
    """Length penalty α (Wu et al. 2016); higher values favour longer output."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions(BeamOptions):
    """Search for the most probable output."""

    n_best: Count = SearchConfig.n_best
    """Number of alternatives (or of samples) per line, at most the beam size; above 1 requires --json."""
    max_length_factor: Number = SearchConfig.max_length_factor
    """Output has at most factor x source length + offset subwords, and never more than 4,096."""
    max_length_offset: Count = SearchConfig.max_length_offset
    """Offset of that limit, in subwords."""
    min_length_factor: Number = SearchConfig.min_length_factor
    """Output has at least factor x source length + 1 subwords."""
    prefixes: OptionalFile = None
    """File with one line per input line: the required beginning of its translation. Not for right-to-left models."""

    def config(self, *, sample: bool) -> SearchConfig:
        """Return the settings of the search; with `sample`, --n-best is the number of samples instead.

        Raises:
            SettingsError: when a value is out of bounds.
        """
        return SearchConfig(
            beam=self.beam,
            length_penalty=self.length_penalty,
            n_best=1 if sample else self.n_best,
            max_length_factor=self.max_length_factor,
            max_length_offset=self.max_length_offset,
            min_length_factor=self.min_length_factor,
        )


@dataclass(frozen=True, kw_only=True)
class TokenSamplingOptions:
    """Draw tokens at random from the model's distribution."""

    temperature: Number = SamplingConfig.temperature
    """Sampling temperature; below 1 the output is more predictable, above 1 more varied."""
    top_k: OptionalCount = SamplingConfig.top_k
    """Draw only from the N most probable tokens."""
    top_p: Number = SamplingConfig.top_p
    """Draw only from the most probable tokens whose probabilities sum to X."""
    min_p: Number = SamplingConfig.min_p
    """Draw only from the tokens whose probability is at least X times the highest one."""
    seed: Count = SamplingConfig.seed
    """Random seed; the same seed gives the same samples."""

    def sampling(self, samples: int) -> SamplingConfig:
        """Return the settings for this number of samples.

        Raises:
            SettingsError: when a value is out of bounds.
        """
        return SamplingConfig(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            samples=samples,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(TokenSamplingOptions):
    """Draw outputs at random from the model's distribution instead of searching."""

    sample: Flag = False
    """Sample instead of searching; the other options of this group require it."""

    def config(self, samples: int) -> SamplingConfig | None:
        """Return the settings for this number of samples per line; None without --sample.

        Raises:
            SettingsError: when a value is out of bounds.
        """
        return self.sampling(samples) if self.sample else None


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Choose what computes, and how fast."""

    device: Device = "auto"
    engine: EngineName = "auto"
    """native is compiled C++ for one model on a CPU; torch runs everything. auto selects native where it can."""
    precision: PrecisionName = "auto"
    """Precision of the native engine; auto selects its fastest, which `dragoman doctor` prints."""


@dataclass(frozen=True, kw_only=True)
class TranslationEngineOptions(EngineOptions):
    """Choose what computes, and how fast."""

    shortlist: Flag = False
    """Use the shortlist that `dragoman shortlist` learned: faster, slightly worse (native engine)."""


@dataclass(frozen=True, kw_only=True)
class BatchedEngineOptions(TranslationEngineOptions):
    """Choose what computes, and how fast."""

    threads: OptionalCount = None
    """Number of threads of the native engine; by default one per available core."""
    batch_tokens: Count = DEFAULT_BATCH_TOKENS
    """Batch size: sentences x source length x beam size."""


@dataclass(frozen=True, kw_only=True)
class GenerationEngineOptions(EngineOptions):
    """Choose what computes, and how fast."""

    threads: OptionalCount = None
    """Number of threads of the native engine; by default one per available core."""
    context: OptionalCount = None
    """Number of tokens that the model reads in sequence, or memory of a Transformer-XL; by default as in training."""


@dataclass(frozen=True, kw_only=True)
class LongLineOptions:
    """Handle lines that are longer than the sentences seen in training."""

    max_source_tokens: OptionalCount = None
    """Split longer lines into segments (default: longest source in training); base64 and the like in them is copied."""
    max_line_characters: Count = MAX_LINE_CHARACTERS
    """Copy longer lines without translating them."""


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """State the languages of the corpus."""

    source_language: OptionalLanguage = None
    """Code of the source language, such as en; stored with the model."""
    target_language: OptionalLanguage = None
    """Code of the target language, such as de; selects the BLEU tokenizer."""


@dataclass(frozen=True, kw_only=True)
class RunFileOptions:
    """Set any of the settings that the run-file reference lists."""

    config: OptionalFile = None
    """Run file in TOML."""
    set_: Annotated[tuple[str, ...], arg(name="set", metavar="KEY=VALUE")] = ()
    """One setting, such as training.steps=2000; overrides the run file."""


def check_one_model(ensemble: tuple[Path, ...], option: str) -> None:
    """Refuse an option that works with one model only.

    Raises:
        SettingsError: when there is an ensemble.
    """
    if ensemble:
        raise SettingsError(f"{option} works with one model, not with an ensemble: leave out {option} or --ensemble")


def changed_options(options: object) -> list[str]:
    """Return the names of the options in a group, such as --beam, whose values are not the defaults."""
    assert is_dataclass(options)
    return [
        f"--{field.name.rstrip('_').replace('_', '-')}"
        for field in fields(options)
        if getattr(options, field.name) != field.default
    ]
