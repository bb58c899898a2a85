"""Parts of speech of English words, by a tagger that Debian ships together with its model.

    apt-get install liblingua-en-tagger-perl

The tagger is Lingua::EN::Tagger: a hidden Markov model over Penn Treebank's tags, with its dictionary in the package.
"""

import subprocess
from collections.abc import Iterable, Sequence

from dragoman.errors import UserError

# Prints the tagged words of each line as WORD/TAG.
_PROGRAM = """
use Lingua::EN::Tagger;
binmode STDIN, ":encoding(UTF-8)"; binmode STDOUT, ":encoding(UTF-8)";
my $tagger = Lingua::EN::Tagger->new(weight_noun_phrases => 0);
while (my $line = <STDIN>) { chomp $line; print(($tagger->get_readable($line) // ""), "\\n"); }
"""
# Beginning of a Penn tag, and the part of speech.
_PARTS = {
    **{"NN": "noun", "VB": "verb", "MD": "verb", "JJ": "adjective", "RB": "adverb", "DET": "determiner"},
    **{"PDT": "determiner", "WDT": "determiner", "IN": "preposition", "TO": "preposition", "CC": "conjunction"},
    **{"PRP": "pronoun", "WP": "pronoun", "CD": "number"},
}


def tag(texts: Sequence[str], options: Sequence[str] = ()) -> list[list[str | None]]:
    """Return the part of speech of each word of each text; words are separated by white space.

    Args:
        texts: texts without line breaks.
        options: options of perl, such as -I with the folder of a tagger that is not installed.

    Returns:
        For each text, a list as long as `text.split()`; None for a word that is not one of the parts of speech, such as
        a symbol, or that the tagger divides in another way.
    """
    lines = "".join(f"{text}\n" for text in texts).encode()
    try:
        done = subprocess.run(["perl", *options, "-e", _PROGRAM], input=lines, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError("the tagger cannot be run; as root, run: apt-get install liblingua-en-tagger-perl") from error
    tagged = done.stdout.decode().split("\n")[:-1]
    assert len(tagged) == len(texts)
    return [_aligned(text.split(), line.split()) for text, line in zip(texts, tagged, strict=True)]


def _aligned(words: Iterable[str], tagged: Iterable[str]) -> list[str | None]:
    """Return the part of each word: that of the first of the tagger's words which begins the word."""
    parts: list[str | None] = []
    rest = [pair.rsplit("/", 1) for pair in tagged]
    place = 0
    for word in words:
        # The tagger separates punctuation, so one of the next words begins like this one.
        for index in range(place, min(place + 6, len(rest))):
            if word.lstrip("(\"'").startswith(rest[index][0]) and rest[index][0].isalnum():
                penn = rest[index][1]
                parts.append(next((part for start, part in _PARTS.items() if penn.startswith(start)), None))
                place = index + 1
                break
        else:
            parts.append(None)
    return parts
