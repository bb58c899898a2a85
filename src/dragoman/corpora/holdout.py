"""Selection of held-out data: whole documents, chosen by a hash of their names, without texts of the training data."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.data.readers import Pair
from dragoman.data.splitting import fold

# Fractions of the documents. About half of their pairs occur in training data too and are left out; the rest is about
# 5 % of all pairs for testing and 3 % for validation.
_TEST_SHARE = 0.05
_VALID_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class Split:
    """Pairs of each part, with the names of the held-out documents.

    Attributes:
        train: pairs of the training data.
        valid: pairs of the validation data.
        test: pairs of the test data.
        valid_documents: names of the documents of the validation data.
        test_documents: names of the documents of the test data.
        repeated: number of pairs left out of `train` because it contains them already.
        seen: number of pairs left out of `valid` and `test` because their folded source or target occurs in the
            training data or in an earlier held-out pair.
    """

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    valid_documents: list[str]
    test_documents: list[str]
    repeated: int
    seen: int

    @property
    def parts(self) -> dict[str, list[Pair]]:
        """The pairs of each part, by name."""
        return {"train": self.train, "valid": self.valid, "test": self.test}


def split_documents(
    documents: Mapping[str, Sequence[Pair]],
    source_key: Callable[[str], str] = fold,
    *,
    compare_targets: bool = True,
) -> Split:
    """Split documents by a hash of their names, which is the same in every language and direction.

    A held-out pair is left out if its source or its target occurs in the training data. So texts that many documents
    share are never held out. Targets are compared because a source such as "Switch on" is no test if the training data
    contains the same target with the source "Turn on".

    Args:
        documents: pairs of each document.
        source_key: function that returns the part of a source that is compared, in folded form. Targets are compared
            after `fold`.
        compare_targets: False if targets are labels, which the parts have in common; then only sources are compared.
    """
    names = sorted(documents)
    part_by_name = {name: part_of(name, _TEST_SHARE, _VALID_SHARE) for name in names}
    in_training = [pair for name in names if part_by_name[name] == "train" for pair in documents[name]]
    train = list(dict.fromkeys(in_training))
    # A text that folds to "" (such as "...") is useless as a test, so it is treated as seen.
    sources = {"", *(source_key(pair.source) for pair in train)}
    targets = {"", *(fold(pair.target) for pair in train)}
    held_out: dict[str, list[Pair]] = {"test": [], "valid": []}
    seen = 0
    for part, kept in held_out.items():
        for pair in (pair for name in names if part_by_name[name] == part for pair in documents[name]):
            source, target = source_key(pair.source), fold(pair.target)
            if source in sources or (compare_targets and target in targets):
                seen += 1
                continue
            sources.add(source)
            targets.add(target)
            kept.append(pair)
    return Split(
        train=train,
        valid=held_out["valid"],
        test=held_out["test"],
        valid_documents=[name for name in names if part_by_name[name] == "valid"],
        test_documents=[name for name in names if part_by_name[name] == "test"],
        repeated=len(in_training) - len(train),
        seen=seen,
    )


def part_of(name: str, test_share: float, valid_share: float) -> str:
    """Return the part ("test", "valid" or "train") to which a name belongs; it depends only on the hash of the name.

    Args:
        name: the name, for example of a document.
        test_share: fraction of names in "test".
        valid_share: fraction of names in "valid".
    """
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    fraction = int.from_bytes(digest, "big") / 2**64
    if fraction < test_share:
        return "test"
    return "valid" if fraction < test_share + valid_share else "train"
