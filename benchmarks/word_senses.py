"""Words of several senses in context, from the dictionary files of WordNet that Debian ships.

    apt-get install wordnet-base            # or: apt-get download wordnet-base; dpkg-deb -x wordnet-base_*.deb DIR

The glosses of WordNet contain sentences and phrases in quotes, in which the words of a synset are used in its sense.
`read_occurrences` returns those in which a word of the synset occurs, possibly inflected (wndb(5WN), "Database file
format"). The licence of WordNet permits this use: /usr/share/doc/wordnet-base/copyright.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path("/usr/share/wordnet")
PARTS = ("noun", "verb", "adj", "adv")
_EXAMPLE = re.compile(r'"([^"]+)"')
# Endings of inflected forms of a regular word; irregular forms are in noun.exc and verb.exc.
_ENDINGS = ("", "s", "es", "ed", "d", "ing", "er", "est")


class Occurrence(NamedTuple):
    """A word in context.

    Attributes:
        lemma: the word, with its part of speech: "bank.noun".
        sense: synset, such as "noun:08420278".
        text: sentence or phrase.
        start: index of the first character of the word in the text.
        end: index after its last character.
    """

    lemma: str
    sense: str
    text: str
    start: int
    end: int


def read_occurrences(directory: Path = DIRECTORY) -> list[Occurrence]:
    """Return the words in context of which at least two senses have examples, and at least one of them two examples."""
    by_lemma: dict[str, list[Occurrence]] = defaultdict(list)
    for part in PARTS:
        for occurrence in _occurrences(directory, part):
            by_lemma[occurrence.lemma].append(occurrence)
    kept = []
    for occurrences in by_lemma.values():
        senses = Counter(occurrence.sense for occurrence in occurrences)
        if len(senses) > 1 and max(senses.values()) > 1:
            kept += occurrences
    return kept


def _occurrences(directory: Path, part: str) -> Iterator[Occurrence]:
    irregular: dict[str, set[str]] = defaultdict(set)
    for line in (directory / f"{part}.exc").read_text(encoding="utf-8").splitlines():
        form, *lemmas = line.split()
        for lemma in lemmas:
            irregular[lemma].add(form)
    for line in (directory / f"data.{part}").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):  # the licence
            continue
        data, _, gloss = line.partition(" | ")
        offset, _, _, count, *rest = data.split()
        # "(p)" and the like mark the position of an adjective.
        words = [word.partition("(")[0].lower() for word in rest[: 2 * int(count, 16) : 2]]
        for text in _EXAMPLE.findall(gloss):
            for word in words:
                if "_" not in word and (found := _find(text, word, irregular[word])):
                    yield Occurrence(f"{word}.{part}", f"{part}:{offset}", text, *found)


def _find(text: str, word: str, irregular: set[str]) -> tuple[int, int] | None:
    """Return the place of the first form of a word in a text."""
    stems = {word, word.removesuffix("e"), word + word[-1], word.removesuffix("y") + "i"}
    forms = {stem + ending for stem in stems for ending in _ENDINGS} - (stems - {word}) | irregular
    for match in re.finditer(r"[\w'-]+", text):
        if match[0].lower() in forms:
            return match.start(), match.end()
    return None
