"""Generated corpora of algorithmic tasks: copying, reversing and adding; trained on short and tested on long examples.

The tasks are those of Kaiser and Sutskever, "Neural GPUs Learn Algorithms" (2016), and of Dehghani et al., "Universal
Transformers" (2019): decimal digits, up to 40 symbols in training and up to 400 in testing. As in the generators of
tensor2tensor, which Dehghani et al. used, lengths are uniformly distributed; numbers to add begin with their least
significant digit, so that carries move in the direction in which the sum is generated; numbers are not padded; and the
length of an example is the number of symbols in its source, including the plus sign.

There are two differences. Tensor2tensor tests on lengths from 1 to 400, while here all test lengths are longer than
those of training, with equally many examples of each. In tensor2tensor the first summand has at most half of the
symbols, while here the position of the plus sign is uniformly distributed.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpora.folder import CorpusContents, CorpusFiles, find_or_make, sizes
from dragoman.corpora.holdout import part_of
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.data.readers import Pair
from dragoman.errors import SettingsError

TRAINING_PAIRS = 100_000
LONGEST_IN_TRAINING = 40
LONGEST_IN_TEST = 400

_SEED = 1
# Version of the generator: increase it when the same request gives other pairs.
_RECIPE = 1
_HELD_OUT_PAIRS = 1_000
# Fraction of all possible sources that is reserved for each held-out part.
_HELD_OUT_SHARE = 0.05
_TESTS_OF_EACH_LENGTH = 3

Symbols = list[str]


@dataclass(frozen=True, kw_only=True)
class _Task:
    """An algorithmic task.

    Attributes:
        draw: function that returns source and target for a source length and a random number generator.
        shortest: smallest source length.
        description: description for the list of corpora and README.md.
        example: example for README.md.
    """

    draw: Callable[[int, random.Random], tuple[Symbols, Symbols]]
    shortest: int
    description: str
    example: str


def _copy(length: int, generator: random.Random) -> tuple[Symbols, Symbols]:
    digits = _digits(length, generator)
    return digits, digits


def _reverse(length: int, generator: random.Random) -> tuple[Symbols, Symbols]:
    digits = _digits(length, generator)
    return digits, digits[::-1]


def _addition(length: int, generator: random.Random) -> tuple[Symbols, Symbols]:
    first_length = _below(length - 2, generator) + 1
    first, second = (_number(digits, generator) for digits in (first_length, length - 1 - first_length))
    total = sum(int("".join(reversed(number))) for number in (first, second))
    return [*first, "+", *second], list(reversed(str(total)))


_TASKS = {
    "copy": _Task(
        draw=_copy,
        shortest=1,
        description="decimal digits to copy",
        example="`3 1 4` becomes `3 1 4`",
    ),
    "reverse": _Task(
        draw=_reverse,
        shortest=1,
        description="decimal digits to reverse",
        example="`3 1 4` becomes `4 1 3`",
    ),
    "addition": _Task(
        draw=_addition,
        shortest=3,
        description="two decimal numbers to add, least significant digits first",
        example="`7 1 + 5 2 1` becomes `2 4 1`, because 17 + 125 = 142",
    ),
}
SOURCES = tuple(
    CorpusSource(
        name=name,
        description=f"generated: {task.description}; up to {LONGEST_IN_TRAINING} symbols in train.tsv, valid.tsv and "
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
    """Generate the corpus "copy", "reverse" or "addition" in directory/NAME/; the files are always the same.

        train.tsv       pairs of up to 40 symbols; a smaller training set is the beginning of a larger one
        valid.tsv       1,000 other pairs of these lengths
        test-short.tsv  1,000 more pairs of these lengths, which are not in train.tsv or valid.tsv
        test.tsv        three pairs of each length from 41 to 400

    Args:
        name: the corpus.
        directory: the directory in which to make the folder.
        training_pairs: number of pairs in train.tsv.
        on_progress: called with a description of each stage.

    Raises:
        SettingsError: if `training_pairs` is less than 1.
        CorpusError: see `find_or_make`.
        StorageError: see `find_or_make`.
    """
    if training_pairs < 1:
        raise SettingsError(f"the number of training pairs is {training_pairs}; it must be at least 1")
    identity = {"corpus": name, "recipe": _RECIPE, "seed": _SEED, "training_pairs": training_pairs}

    def make() -> CorpusContents:
        on_progress(f"Generating {training_pairs:,} examples of {name} ...")
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
    """Yield pairs of the lengths used in training, for one part of a split by a hash of the source.

    Pairs of held-out parts are distinct.
    """
    generator = _generator(name, f"{part}, short")
    shortest = _TASKS[name].shortest
    seen: set[str] = set()
    while count:
        pair = _pair(name, shortest + _below(LONGEST_IN_TRAINING - shortest + 1, generator), generator)
        if part_of(pair.source, _HELD_OUT_SHARE, _HELD_OUT_SHARE) != part or pair.source in seen:
            continue
        if part != "train":
            seen.add(pair.source)
        count -= 1
        yield pair


def _long(name: str) -> Iterator[Pair]:
    """Yield the pairs of test.tsv, which are longer than those of training."""
    generator = _generator(name, "test, long")
    for length in range(LONGEST_IN_TRAINING + 1, LONGEST_IN_TEST + 1):
        for _ in range(_TESTS_OF_EACH_LENGTH):
            yield _pair(name, length, generator)


def _pair(name: str, length: int, generator: random.Random) -> Pair:
    source, target = _TASKS[name].draw(length, generator)
    return Pair(" ".join(source), " ".join(target))


def _generator(name: str, part: str) -> random.Random:
    # Python guarantees that random() gives the same numbers in every version; NumPy does not.
    return random.Random(f"{_SEED}, {name}, {part}")


def _below(count: int, generator: random.Random) -> int:
    """Return a random whole number from 0 to count - 1."""
    return int(generator.random() * count)


def _digits(length: int, generator: random.Random) -> Symbols:
    uniform = generator.random
    return ["0123456789"[int(uniform() * 10)] for _ in range(length)]


def _number(length: int, generator: random.Random) -> Symbols:
    """Return the digits of a random number, least significant first, without leading zeros."""
    if length == 1:
        return _digits(1, generator)
    return [*_digits(length - 1, generator), "123456789"[_below(9, generator)]]


def _readme(name: str, parts: Mapping[str, Sequence[Pair]]) -> str:
    task = _TASKS[name]
    return f"""# {name}

This corpus contains {task.description}:
{task.example}.
It was generated by Dragoman from random numbers with the seed {_SEED}. No rights are claimed.

{sizes(parts)}

Each line contains a source, a tab and a target. Symbols are separated by spaces.

The length of an example is the number of symbols in its source. In `train.tsv`, `valid.tsv` and
`test-short.tsv`, lengths are uniformly distributed from {task.shortest} to {LONGEST_IN_TRAINING}. In `test.tsv`, they
range from {LONGEST_IN_TRAINING + 1} to {LONGEST_IN_TEST}, with {_TESTS_OF_EACH_LENGTH} examples of each length.
No source in `valid.tsv`, `test.tsv` or `test-short.tsv` is in `train.tsv`. Short examples in `train.tsv` are repeated,
because there are few different ones. The task is from Kaiser and Sutskever, "Neural GPUs Learn
Algorithms" (2016), and Dehghani et al., "Universal Transformers" (2019). `manifest.json` contains
the SHA-256 of every file.
"""
