"""Preparation of a run: clean text on disk, a tokenizer, and a prepared corpus."""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import track

from dragoman.data.cleaning import CleaningConfig, CleaningReport, clean
from dragoman.data.prepared import PreparedCorpus, prepare
from dragoman.data.readers import Pair, parse_corpus, read_corpora
from dragoman.data.splitting import count_keys, is_validation
from dragoman.errors import CorpusError, SettingsError, StorageError, quoted
from dragoman.files import atomic_directory
from dragoman.run.config import DataConfig, RunConfig
from dragoman.text.lines import clean_line
from dragoman.text.tokenizer import Tokenizer, train_tokenizer
from dragoman.threads import available_cpus

TRAINING_TEXT, VALIDATION_TEXT = "training.jsonl", "validation.jsonl"
# Different sources that an error message counts up to.
_MOST_KEYS = 1000


@dataclass(frozen=True)
class CleanText:
    """Cleaned pairs on disk, as lines of JSON [source, target].

    Attributes:
        training: file of the training pairs.
        training_pairs: number of training pairs.
        characters: number of distinct characters on both sides of the training pairs.
        validation_pairs: number of validation pairs.
        report: numbers of removed pairs.
    """

    training: Path
    training_pairs: int
    characters: int
    validation_pairs: int
    report: CleaningReport


def write_clean_text(
    corpora: Sequence[str],
    validation: str | None,
    cleaning: CleaningConfig,
    data: DataConfig,
    directory: Path,
    console: Console,
) -> CleanText:
    """Read and clean all corpora, and write them to disk without holding them in memory.

    Args:
        corpora: corpora to train on.
        validation: corpus to validate on, which is cleaned in the same way. None: a part of the corpora is held out.
        cleaning: which pairs are removed as damaged.
        data: share of the pairs that is held out.
        directory: directory to write, which is replaced if it exists.
        console: shows the progress.

    Raises:
        CorpusError: for an invalid line, or if no pairs remain; the message names file and line.
    """
    report = CleaningReport()
    pairs = _progress(read_corpora([parse_corpus(name) for name in corpora]), "reading", console)
    training, validated = 0, 0
    characters: set[str] = set()
    directory.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    with (
        atomic_directory(directory) as temporary,
        (temporary / TRAINING_TEXT).open("wb") as training_file,
        (temporary / VALIDATION_TEXT).open("wb") as validation_file,
    ):
        for pair in map(_cleaned, clean(pairs, cleaning, report)):
            if validation is None and is_validation(pair.source, data.validation_share):
                validation_file.write(_json_line(pair))
                validated += 1
            else:
                training_file.write(_json_line(pair))
                training += 1
                characters.update(*pair)
        if validation is not None:
            held_out = read_corpora([parse_corpus(validation)])
            for pair in map(_cleaned, clean(held_out, cleaning, CleaningReport())):
                validation_file.write(_json_line(pair))
                validated += 1
    if training == validated == 0 or (training == 0 and validation is not None):
        raise CorpusError(f"no pairs are left to train on in {', '.join(corpora)}: {report.sentence()}")
    if validated == 0 and validation is not None:
        raise CorpusError(f"no pairs are left to validate on in {validation}")
    if training == 0 or validated == 0:
        raise _not_split(directory / (TRAINING_TEXT if training else VALIDATION_TEXT), training, validated, data)
    return CleanText(directory / TRAINING_TEXT, training, len(characters), validated, report)


def read_clean_text(path: Path) -> Iterator[Pair]:
    """Yield the pairs that `write_clean_text` wrote.

    Raises:
        StorageError: for a damaged line; the message names it.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                source, target = json.loads(line)
            except ValueError as error:
                raise StorageError(f"{path}:{number} is damaged ({error}): use another --out to train again") from error
            yield Pair(source, target)


def validation_sample(path: Path, pairs: int, limit: int) -> list[Pair]:
    """Return at most `limit` validation pairs, taken at equal intervals.

    Args:
        path: file of the validation pairs.
        pairs: number of pairs in the file.
        limit: largest number of pairs to return.
    """
    stride = -(-pairs // limit)
    return list(islice(read_clean_text(path), 0, None, stride))


def build_tokenizer(text: CleanText, config: RunConfig) -> Tokenizer:
    """Learn the subwords from the training text."""
    return train_tokenizer(read_clean_text(text.training), config.tokenizer)


def build_corpus(
    text: CleanText, tokenizer: Tokenizer, config: RunConfig, directory: Path, console: Console
) -> PreparedCorpus:
    """Turn the training text into memory-mapped subword ids.

    Raises:
        SettingsError: if every pair is longer than data.max_length.
    """
    pairs = _progress(read_clean_text(text.training), "preparing", console, text.training_pairs)
    corpus = prepare(pairs, tokenizer, directory, max_tokens=config.data.max_length, workers=available_cpus())
    if len(corpus) == 0:
        raise SettingsError(
            f"all {text.training_pairs} pairs are longer than data.max_length = "
            f"{config.data.max_length} subwords: increase it"
        )
    return corpus


def _not_split(text: Path, training: int, validated: int, data: DataConfig) -> CorpusError:
    """Return the error of a corpus whose pairs, all of them in `text`, were not divided into two parts."""
    pairs, keys = training + validated, count_keys((pair.source for pair in read_clean_text(text)), _MOST_KEYS)
    if keys == 1 < pairs:
        first = next(read_clean_text(text)).source
        return CorpusError(
            f"all {pairs:,} sources are the same apart from digits, case, punctuation and placeholders (the first is "
            f"{quoted(first)}); such pairs are never divided between training and validation: "
            "use --validation FILE"
        )
    if validated:
        return CorpusError(
            f"all {pairs:,} pairs were held out for validation (data.validation_share = {data.validation_share}), "
            "none are left to train on: use --validation FILE, or lower data.validation_share"
        )
    different = f"{keys:,}" if keys < _MOST_KEYS else f"at least {keys:,}"
    return CorpusError(
        f"the corpus of {pairs:,} pairs is too small to hold out a share of {data.validation_share} for validation: "
        f"it has {different} different sources (ignoring digits, case, punctuation and placeholders): "
        "use --validation FILE, or raise data.validation_share"
    )


def _cleaned(pair: Pair) -> Pair:
    """Clean both lines in the same way as lines to translate, so that training and translation have the same input."""
    return Pair(clean_line(pair.source), clean_line(pair.target))


def _json_line(pair: Pair) -> bytes:
    return json.dumps(pair, ensure_ascii=False).encode() + b"\n"


def _progress(pairs: Iterable[Pair], description: str, console: Console, total: int | None = None) -> Iterable[Pair]:
    return track(pairs, description, total=total, console=console, transient=True, disable=not console.is_terminal)
