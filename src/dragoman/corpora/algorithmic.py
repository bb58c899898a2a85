"""Copying, reversing and adding numbers: made, not fetched; trained on short ones, tested on long ones.

After Kaiser and Sutskever, "Neural GPUs Learn Algorithms" (2016), and the algorithmic tasks of Dehghani et al.,
"Universal Transformers" (2019): decimal digits, up to 40 symbols in training, up to 400 in testing. As in the
generators of tensor2tensor, which the latter used, lengths are drawn evenly; numbers to be added begin with their
least significant digit, so that a carry goes the way in which the sum is written; they are not padded; and the length
of an example is that of its source, the plus sign included.

Departures: tensor2tensor tests on lengths from 1 to 400, and here all lengths tested are beyond those of training, as
many examples of each. Its first summand has at most half the symbols, and here the plus sign may stand anywhere.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpora.folder import CorpusContents, CorpusFiles, find_or_make, sizes
from dragoman.corpora.holdout import side
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.data.readers import Pair
from dragoman.errors import SettingsError

TRAINING_PAIRS = 100_000
LONGEST_IN_TRAINING = 40
LONGEST_IN_TEST = 400

_SEED = 1
# To be increased when the same request would give other files.
_RECIPE = 1
_HELD_OUT_PAIRS = 1_000
# Of all sources there are; each held-out part is drawn from its own.
_HELD_OUT_SHARE = 0.05
_TESTS_OF_EACH_LENGTH = 3

Symbols = list[str]


@dataclass(frozen=True, kw_only=True)
class _Task:
    """`draw` makes source and target of a given source length, `shortest` at least; `what` and `example` are told."""

    draw: Callable[[int, random.Random], tuple[Symbols, Symbols]]
    shortest: int
    what: str
    example: str


def _copy(length: int, generator: random.Random) -> tuple[Symbols, Symbols]:
    digits = _digits(length, generator)
    return digits, digits


def _reverse(length: int, generator: random.Random) -> tuple[Symbols, Symbols]:
    digits = _digits(length, generator)
    return digits, digits[::-1]


def _addition(length: int, generator: random.Random) -> tuple[Symbols, Symbols]:
    first_length = _below(length - 2, generator) + 1
    first, second = (_number(each, generator) for each in (first_length, length - 1 - first_length))
    total = sum(int("".join(reversed(number))) for number in (first, second))
    return [*first, "+", *second], list(reversed(str(total)))


_TASKS = {
    "copy": _Task(
        draw=_copy,
        shortest=1,
        what="decimal digits, to be written once more",
        example="`3 1 4` is to become `3 1 4`",
    ),
    "reverse": _Task(
        draw=_reverse,
        shortest=1,
        what="decimal digits, to be written from last to first",
        example="`3 1 4` is to become `4 1 3`",
    ),
    "addition": _Task(
        draw=_addition,
        shortest=3,
        what="two decimal numbers, to be added, least significant digits first",
        example="`7 1 + 5 2 1` is to become `2 4 1`, as 17 + 125 = 142",
    ),
}
SOURCES = tuple(
    CorpusSource(
        name=name,
        description=f"made here: {task.what}; up to {LONGEST_IN_TRAINING} symbols in train.tsv, valid.tsv and "
        f"test-short.tsv, {LONGEST_IN_TRAINING + 1} to {LONGEST_IN_TEST} in test.tsv",
        licence="none needed",
        attribution="random numbers",
        training_pairs=TRAINING_PAIRS,
    )
    for name, task in _TASKS.items()
)


def fetch(
    name: str, directory: Path, training_pairs: int = TRAINING_PAIRS, on_progress: OnProgress = no_progress
) -> CorpusFiles:
    """Make the corpus "copy", "reverse" or "addition" in directory/NAME/: the same bytes every time.

    train.tsv      lengths up to 40, drawn evenly; fewer pairs are the beginning of more
    valid.tsv      1,000 others of these lengths
    test-short.tsv another 1,000 of them: not seen in training, but no longer than what was
    test.tsv       three pairs of each length from 41 to 400

    Raises SettingsError for fewer than one pair, and what `find_or_make` raises.
    """
    if training_pairs < 1:
        raise SettingsError(f"{training_pairs} pairs to train on; at least 1 is needed")
    identity = {"corpus": name, "recipe": _RECIPE, "seed": _SEED, "training_pairs": training_pairs}

    def make() -> CorpusContents:
        on_progress(f"Drawing {training_pairs:,} examples of {name} ...")
        parts = {
            "train": list(_short(name, "train", training_pairs)),
            "valid": list(_short(name, "valid", _HELD_OUT_PAIRS)),
            "test": list(_long(name)),
            "test-short": list(_short(name, "test", _HELD_OUT_PAIRS)),
        }
        about = {"licence": "none needed", "attribution": "random numbers"}
        return CorpusContents(parts=parts, left_out={}, about=about, readme=_readme(name, parts))

    return find_or_make(directory / name, identity, make)


def _short(name: str, part: str, count: int) -> Iterator[Pair]:
    """Examples of training's lengths, on one side of a split by a hash of the source; distinct ones if held out."""
    generator = _generator(name, f"{part}, short")
    shortest = _TASKS[name].shortest
    seen: set[str] = set()
    while count:
        pair = _pair(name, shortest + _below(LONGEST_IN_TRAINING - shortest + 1, generator), generator)
        if side(pair.source, _HELD_OUT_SHARE, _HELD_OUT_SHARE) != part or pair.source in seen:
            continue
        if part != "train":
            seen.add(pair.source)
        count -= 1
        yield pair


def _long(name: str) -> Iterator[Pair]:
    generator = _generator(name, "test, long")
    for length in range(LONGEST_IN_TRAINING + 1, LONGEST_IN_TEST + 1):
        for _ in range(_TESTS_OF_EACH_LENGTH):
            yield _pair(name, length, generator)


def _pair(name: str, length: int, generator: random.Random) -> Pair:
    source, target = _TASKS[name].draw(length, generator)
    return Pair(" ".join(source), " ".join(target))


def _generator(name: str, part: str) -> random.Random:
    # Python's, of which random() is promised to give the same numbers in every version; NumPy's Generator is not.
    return random.Random(f"{_SEED}, {name}, {part}")


def _below(count: int, generator: random.Random) -> int:
    """A whole number from 0 to count - 1."""
    return int(generator.random() * count)


def _digits(length: int, generator: random.Random) -> Symbols:
    uniform = generator.random
    return ["0123456789"[int(uniform() * 10)] for _ in range(length)]


def _number(length: int, generator: random.Random) -> Symbols:
    """Digits from the least significant one on; the last is 0 only if it is the only one."""
    if length == 1:
        return _digits(1, generator)
    return [*_digits(length - 1, generator), "123456789"[_below(9, generator)]]


def _readme(name: str, parts: Mapping[str, Sequence[Pair]]) -> str:
    task = _TASKS[name]
    return f"""# {name}

Here are {task.what}:
{task.example}.
Made by Dragoman from random numbers with the seed {_SEED}; nobody has rights on them.

{sizes(parts)}

One pair a line, source, tab, target; the symbols stand apart.

The length of an example is the number of symbols in its source. In `train.tsv`, `valid.tsv` and
`test-short.tsv` it is drawn evenly from {task.shortest} to {LONGEST_IN_TRAINING}. In `test.tsv` it goes from
{LONGEST_IN_TRAINING + 1} to {LONGEST_IN_TEST}, with {_TESTS_OF_EACH_LENGTH} examples of each.
No source of the held-out files is in `train.tsv`, where the shortest examples are repeated, there
being so few of them. The task is that of Kaiser and Sutskever, "Neural GPUs Learn Algorithms"
(2016), and of Dehghani et al., "Universal Transformers" (2019). `manifest.json` has the SHA-256 of
every file.
"""
