"""Compare the word alignments of a model's attention heads with those of eflomal, a statistical aligner.

    python benchmarks/alignment.py MODEL TRAIN.tsv HELD_OUT.tsv

eflomal (Östling and Tiedemann, 2016) aligns the training corpus and the held-out pairs together, in both directions,
and grow-diag-final-and joins the two (Koehn et al., 2003). eflomal samples, so it is run again in every round. The
script prints the alignment error rate of every layer and head of the model, of a diagonal, and of the head that
`dragoman align` selects on the training corpus without eflomal. The last line is JSON and begins with the ratio of the
diagonal's error rate to the best head's.
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

# Pairs used to rank heads, the default of `dragoman align`.
RANKING_PAIRS = 500
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def grow_diag_final_and(forward: set[Link], backward: set[Link]) -> set[Link]:
    """Return the links of both directions, grown by neighbouring links of one direction and links of unlinked words."""
    union, links = forward | backward, forward & backward
    grown = True
    while grown:
        grown = False
        for s, t in sorted(links):
            for ds, dt in NEIGHBOURS:
                link = (s + ds, t + dt)
                sources, targets = {s for s, _ in links}, {t for _, t in links}
                if link in union - links and (link[0] not in sources or link[1] not in targets):
                    links.add(link)
                    grown = True
    for direction in (forward, backward):
        for s, t in sorted(direction):
            if s not in {s for s, _ in links} and t not in {t for _, t in links}:
                links.add((s, t))
    return links


def align_with_eflomal(training: Sequence[Pair], held_out: Sequence[Pair]) -> list[set[Link]]:
    """Return eflomal's links of the held-out pairs, both directions joined."""
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
    return [
        grow_diag_final_and(parse_links(forward_line), parse_links(backward_line))
        for forward_line, backward_line in zip(*directions, strict=True)
    ]


def parse_links(line: str) -> set[Link]:
    return {(int(source), int(target)) for source, target in (link.split("-") for link in line.split())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model directory")
    parser.add_argument("train", help="training corpus")
    parser.add_argument("held_out", help="held-out corpus")
    parser.add_argument("--pairs", type=int, default=1000, help="number of leading held-out pairs to align")
    parser.add_argument("--rounds", type=int, default=5, help="runs of eflomal")
    options = parser.parse_args()
    training = list(read_pairs(parse_corpus(options.train)))
    # Pairs of one word on each side can only be aligned in one way.
    held_out = [
        pair
        for pair in read_pairs(parse_corpus(options.held_out))
        if len(words(pair.source)) > 1 or len(words(pair.target)) > 1
    ][: options.pairs]
    translator = Translator.load(options.model, engine="torch")
    by_head = translator.alignments_by_head(held_out)
    alignments: dict[AlignmentHead | str, list[list[Link]]] = {
        head: [links[head] for links in by_head] for head in by_head[0]
    }
    alignments["diagonal"] = [diagonal(len(words(pair.source)), len(words(pair.target))) for pair in held_out]
    error_rates: dict[AlignmentHead | str, list[float]] = {head: [] for head in alignments}
    agreement: list[float] = []
    previous: list[set[Link]] | None = None
    for _ in range(options.rounds):
        joined = align_with_eflomal(training, held_out)
        references = [Reference(frozenset(links), frozenset(links)) for links in joined]
        for head, links in alignments.items():
            error_rates[head].append(alignment_metrics(links, references).error_rate)
        if previous is not None:
            agreement.append(alignment_metrics(previous, references).error_rate)
        previous = joined
    medians = {head: statistics.median(rates) for head, rates in error_rates.items()}
    ranked = sorted(medians, key=lambda head: medians[head])
    shown = ranked[:8] + [head for head in ranked[8:] if head == "diagonal"]
    rows = {str(head): error_rates[head] for head in shown}
    selected = rank_heads_by_lexicons(translator, training, compared=RANKING_PAIRS).best
    rows[f"selected by `dragoman align`: {selected}"] = error_rates[selected]
    if agreement:
        rows["eflomal compared with itself, round by round"] = agreement
    width = max(map(len, rows))
    print(f"{'':{width}}  AER, %   lowest to highest")
    for name, rates in rows.items():
        print(
            f"{name:{width}}  {100 * statistics.median(rates):6.1f}   {100 * min(rates):.1f} to {100 * max(rates):.1f}"
        )
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
