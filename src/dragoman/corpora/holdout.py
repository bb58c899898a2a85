"""Held-out data by a hash of names: whole documents, without anything that training has seen."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.data.readers import Pair
from dragoman.data.splitting import fold

# Of the documents. About half of their pairs have been seen elsewhere and go; what stays is some
# 5 % of all pairs for testing and 3 % for validation.
_TEST_SHARE = 0.05
_VALID_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class Split:
    """Pairs apart, with the names of the held-out documents.

    Attributes:
        repeated: pairs left out of train because they are in it already.
        seen: pairs left out of valid and test because training, or a held-out pair before them,
            has their source or their target, as far as it counts.
    """

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    valid_documents: list[str]
    test_documents: list[str]
    repeated: int
    seen: int


def split_documents(documents: Mapping[str, Sequence[Pair]], source_key: Callable[[str], str] = fold) -> Split:
    """Split by a hash of the documents' names: the same in every language and direction.

    What is boilerplate, shared by many documents, thereby never is in the held-out sets. Targets
    count as well as sources: "Switch on" for "Turn on" tests nothing if its translation was seen.

    Args:
        source_key: of a source, what counts when it is asked whether it has been seen. Of a target, it is `fold`.
    """
    names = sorted(documents)
    sides = {name: side(name, _TEST_SHARE, _VALID_SHARE) for name in names}
    in_training = [pair for name in names if sides[name] == "train" for pair in documents[name]]
    train = list(dict.fromkeys(in_training))
    # A text that folds to nothing ("...") is no test of anything, so it counts as seen.
    sources = {"", *(source_key(pair.source) for pair in train)}
    targets = {"", *(fold(pair.target) for pair in train)}
    held_out: dict[str, list[Pair]] = {"test": [], "valid": []}
    seen = 0
    for part, kept in held_out.items():
        for pair in (pair for name in names if sides[name] == part for pair in documents[name]):
            source, target = source_key(pair.source), fold(pair.target)
            if source in sources or target in targets:
                seen += 1
                continue
            sources.add(source)
            targets.add(target)
            kept.append(pair)
    return Split(
        train=train,
        valid=held_out["valid"],
        test=held_out["test"],
        valid_documents=[name for name in names if sides[name] == "valid"],
        test_documents=[name for name in names if sides[name] == "test"],
        repeated=len(in_training) - len(train),
        seen=seen,
    )


def side(name: str, test_share: float, valid_share: float) -> str:
    """Where a name belongs, to "test", "valid" or "train", by its hash: the same whatever other names there are."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    position = int.from_bytes(digest, "big") / 2**64
    if position < test_share:
        return "test"
    return "valid" if position < test_share + valid_share else "train"
