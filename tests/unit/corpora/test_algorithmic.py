"""Copying, reversing, adding: the targets are correct, and test sources are not in the training data."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from dragoman.corpora import CorpusFiles, fetch
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.errors import UserError

TASKS = ["copy", "reverse", "addition"]


@pytest.fixture(scope="module", params=TASKS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, CorpusFiles]:
    directory = tmp_path_factory.mktemp(request.param)
    return request.param, fetch(request.param, directory, training_pairs=4000)


def read(files: CorpusFiles, part: str) -> list[Pair]:
    return list(read_pairs(parse_corpus(str(files.directory / f"{part}.tsv"))))


def length(text: str) -> int:
    return len(text.split(" "))


def test_the_files_of_a_corpus(made: tuple[str, CorpusFiles]) -> None:
    task, files = made
    assert files.directory.name == task
    names = ["README.md", "manifest.json", "test-short.tsv", "test.tsv", "train.tsv", "valid.tsv"]
    assert sorted(path.name for path in files.directory.iterdir()) == names
    assert files.pairs == {"train": 4000, "valid": 1000, "test": 1080, "test-short": 1000}
    assert {part: len(read(files, part)) for part in files.pairs} == files.pairs
    manifest = json.loads((files.directory / "manifest.json").read_bytes())
    assert (manifest["corpus"], manifest["training_pairs"], manifest["seed"]) == (task, 4000, 1)
    assert set(manifest["files"]) == set(names) - {"manifest.json"}


def test_targets_are_correct(made: tuple[str, CorpusFiles]) -> None:
    task, files = made
    for part in files.pairs:
        for source, target in read(files, part):
            # Symbols are single characters separated by one space.
            assert all(len(symbol) == 1 for text in (source, target) for symbol in text.split(" "))
            symbols, answer = source.replace(" ", ""), target.replace(" ", "")
            if task == "copy":
                assert answer == symbols
            elif task == "reverse":
                assert answer == symbols[::-1]
            else:
                first, second = symbols.split("+")
                numbers = [int(number[::-1]) for number in (first, second, answer)]
                assert numbers[0] + numbers[1] == numbers[2]
                # Numbers have no leading zeros.
                for number in (first, second, answer):
                    assert number == "0" or not number.endswith("0")


def test_lengths(made: tuple[str, CorpusFiles]) -> None:
    task, files = made
    shortest = 3 if task == "addition" else 1
    expected = 4000 / (41 - shortest)
    counts = Counter(length(pair.source) for pair in read(files, "train"))
    assert set(counts) == set(range(shortest, 41))
    # The counts are binomial with a standard deviation of 10. All of the shortest sources may be held out, or none.
    assert all(abs(counts[n] - expected) < 5 * expected**0.5 for n in range(4, 41))
    for part in ("valid", "test-short"):
        lengths = [length(pair.source) for pair in read(files, part)]
        assert shortest <= min(lengths) <= 6
        assert max(lengths) == 40
    tested = Counter(length(pair.source) for pair in read(files, "test"))
    assert tested == dict.fromkeys(range(41, 401), 3)


def test_held_out_sources_are_distinct_and_not_in_the_training_data(made: tuple[str, CorpusFiles]) -> None:
    _, files = made
    held_out = [pair.source for part in ("valid", "test", "test-short") for pair in read(files, part)]
    assert len(set(held_out)) == len(held_out)
    assert {pair.source for pair in read(files, "train")}.isdisjoint(held_out)


def test_all_digits_are_equally_frequent(made: tuple[str, CorpusFiles]) -> None:
    _, files = made
    counts = Counter("".join(pair.source for pair in read(files, "train")))
    total = sum(counts[digit] for digit in "0123456789")
    # The most significant digit is not 0, so this digit is slightly less frequent in additions.
    assert all(0.085 < counts[digit] / total < 0.11 for digit in "0123456789")


def test_a_smaller_training_set_is_the_beginning_of_a_larger_one(made: tuple[str, CorpusFiles], tmp_path: Path) -> None:
    task, more = made
    few = fetch(task, tmp_path, training_pairs=20)
    assert read(more, "train")[:20] == read(few, "train")
    for part in ("valid", "test", "test-short"):
        assert read(more, part) == read(few, part)


def test_the_content_is_the_same_on_every_machine(made: tuple[str, CorpusFiles]) -> None:
    """Golden hashes: published results are for exactly these files."""
    task, files = made
    content = b"".join((files.directory / f"{part}.tsv").read_bytes() for part in files.pairs)
    assert (
        hashlib.sha256(content).hexdigest()
        == {
            "copy": "9a4ce86976c94791673ac2f910dd712decfc1b676204e5d5640bd326993f29b2",
            "reverse": "1444beddc83b7c54196512e281e6d00c04408eb1fdb36725ce11f2141313d96e",
            "addition": "436146b87ae2e1ed7aadb2adf571ad77c3068eedea2293c611b0576169dba4c8",
        }[task]
    )


def test_another_number_of_pairs_is_another_corpus(tmp_path: Path) -> None:
    assert not fetch("copy", tmp_path, training_pairs=30).already_there
    assert fetch("copy", tmp_path, training_pairs=30).already_there
    with pytest.raises(UserError, match="other settings; remove it"):
        fetch("copy", tmp_path, training_pairs=31)
