"""Which head aligns words, and how well: against a statistical aligner's symmetrised output.

    python benchmarks/alignment.py MODEL TRAIN.tsv HELD_OUT.tsv

eflomal (Östling and Tiedemann, 2016) aligns the training corpus and the held-out pairs together, in both directions;
grow-diag-final-and joins the two (Koehn et al., 2003). It is drawn anew in every round, as it samples. Every layer and
head of the model is scored against that, beside a diagonal; so is the head that `dragoman align` would choose without
eflomal, on the training corpus. The last line is JSON, the ratio first: the diagonal's disagreement over the best
head's.
"""

import argparse
import json
import platform
import statistics
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import eflomal

from dragoman import Translator, __version__
from dragoman.alignment.head_ranking import rank_heads_by_lexicons
from dragoman.alignment.heads import AlignmentHead
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.evaluation.alignment import (
    Link,
    Reference,
    alignment_metrics,
    diagonal,
    words,
)

# As `dragoman align` by default.
JUDGED = 500
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def grow_diag_final_and(forward: set[Link], backward: set[Link]) -> set[Link]:
    """What both directions say, and of what one says: neighbours of that, and links of two words that have none."""
    union, found = forward | backward, forward & backward
    grown = True
    while grown:
        grown = False
        for s, t in sorted(found):
            for ds, dt in NEIGHBOURS:
                link = (s + ds, t + dt)
                sources, targets = {s for s, _ in found}, {t for _, t in found}
                if link in union - found and (link[0] not in sources or link[1] not in targets):
                    found.add(link)
                    grown = True
    for direction in (forward, backward):
        for s, t in sorted(direction):
            if s not in {s for s, _ in found} and t not in {t for _, t in found}:
                found.add((s, t))
    return found


def statistical(training: Sequence[Pair], held_out: Sequence[Pair]) -> list[set[Link]]:
    """eflomal's links of the held-out pairs, both directions joined."""
    pairs = [*training, *held_out]
    with tempfile.TemporaryDirectory() as folder:
        forward, backward = Path(folder) / "forward", Path(folder) / "backward"
        eflomal.Aligner().align(
            [" ".join(words(pair.source)).lower() + "\n" for pair in pairs],
            [" ".join(words(pair.target)).lower() + "\n" for pair in pairs],
            links_filename_fwd=str(forward),
            links_filename_rev=str(backward),
        )
        directions = [path.read_text().splitlines()[-len(held_out) :] for path in (forward, backward)]
    return [grow_diag_final_and(links_of(one), links_of(other)) for one, other in zip(*directions, strict=True)]


def links_of(line: str) -> set[Link]:
    return {(int(source), int(target)) for source, target in (link.split("-") for link in line.split())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("train")
    parser.add_argument("held_out")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    training = list(read_pairs(parse_corpus(options.train)))
    # One word has one place only: such pairs say nothing.
    held_out = [
        pair
        for pair in read_pairs(parse_corpus(options.held_out))
        if len(words(pair.source)) > 1 or len(words(pair.target)) > 1
    ][: options.pairs]
    translator = Translator.load(options.model, engine="torch")
    by_head = translator.alignments_by_head(held_out)
    found: dict[AlignmentHead | str, list[list[Link]]] = {
        head: [links[head] for links in by_head] for head in by_head[0]
    }
    found["diagonal"] = [diagonal(len(words(pair.source)), len(words(pair.target))) for pair in held_out]
    scores: dict[AlignmentHead | str, list[float]] = {head: [] for head in found}
    agreement: list[float] = []
    before: list[set[Link]] | None = None
    for _ in range(options.rounds):
        joined = statistical(training, held_out)
        references = [Reference(frozenset(links), frozenset(links)) for links in joined]
        for head, links in found.items():
            scores[head].append(alignment_metrics(links, references).error_rate)
        if before is not None:
            agreement.append(alignment_metrics(before, references).error_rate)
        before = joined
    medians = {head: statistics.median(each) for head, each in scores.items()}
    ranked = sorted(medians, key=lambda head: medians[head])
    shown = ranked[:8] + [head for head in ranked[8:] if head == "diagonal"]
    rows = {str(head): scores[head] for head in shown}
    choice = rank_heads_by_lexicons(translator, training, compared=JUDGED).best
    rows[f"chosen by `dragoman align`: {choice}"] = scores[choice]
    if agreement:
        rows["eflomal against itself, round by round"] = agreement
    width = max(map(len, rows))
    print(f"{'':{width}}  AER, %   lowest to highest")
    for name, each in rows.items():
        print(f"{name:{width}}  {100 * statistics.median(each):6.1f}   {100 * min(each):.1f} to {100 * max(each):.1f}")
    print(
        f"{len(held_out):,} held-out pairs, {options.rounds} rounds; dragoman {__version__}, "
        f"eflomal {version('eflomal')}, torch {version('torch')}, Python {platform.python_version()}"
    )
    best = next(head for head in ranked if isinstance(head, AlignmentHead))
    print(
        json.dumps(
            {
                "ratio": medians["diagonal"] / medians[best],
                "best": str(best),
                "error_rate": medians[best],
                "diagonal": medians["diagonal"],
                "pairs": len(held_out),
                "rounds": options.rounds,
            }
        )
    )


if __name__ == "__main__":
    main()
