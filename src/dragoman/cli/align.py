"""dragoman align"""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from dragoman.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Align:
    """Find the head whose attention aligns words best, for `dragoman translate --alignment`."""

    model: Positional[Path]
    """A model directory; the choice is written into it."""
    corpus: Positional[str]
    """Held-out pairs: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    gold: Path | None = None
    """A reference in Pharaoh's format, a line for each pair: 0-0 is sure, 0?0 possible. Without one, words that are the
    same on both sides (names, numbers, placeholders) serve as reference."""
    pairs: int = 1000
    """Read so many pairs at most."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""

    def run(self) -> None:
        """Try every head, write the best."""
        from itertools import islice

        from dragoman.cli.gold import read_gold
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.decoding.alignment import ALIGNMENT_FILE, AlignmentHead
        from dragoman.decoding.translator import Translator
        from dragoman.evaluation.alignment import (
            Link,
            Reference,
            diagonal,
            score_alignments,
            touching,
            words,
        )
        from dragoman.evaluation.alignment import anchors as anchors_of

        translator = Translator.load(self.model, device=self.device, engine="torch")
        pairs = list(islice(read_pairs(parse_corpus(self.corpus)), self.pairs))
        if not pairs:
            raise UserError(f"{self.corpus}: no pairs to align")
        found: dict[AlignmentHead | str, list[list[Link]]] = {}
        for by_head in translator.alignments_by_head(pairs):
            for each, links in by_head.items():
                found.setdefault(each, []).append(links)
        found["diagonal"] = [diagonal(len(words(pair.source)), len(words(pair.target))) for pair in pairs]
        if self.gold is not None:
            references = read_gold(self.gold, pairs, f"of {self.corpus}")
        else:
            anchors = [frozenset(anchors_of(words(pair.source), words(pair.target))) for pair in pairs]
            if sum(map(len, anchors)) < MINIMUM:
                raise UserError(
                    f"only {sum(map(len, anchors))} words of {self.corpus} are the same on both sides, too few to "
                    f"judge a head by ({MINIMUM} are needed): give more pairs, or a reference with --gold"
                )
            references = [Reference(these, these) for these in anchors]
            found = {
                head: [touching(links, these) for links, these in zip(each, anchors, strict=True)]
                for head, each in found.items()
            }
        scores = {head: score_alignments(each, references) for head, each in found.items()}
        ranked = sorted(scores, key=lambda head: scores[head].error_rate)
        print(f"{'AER':>6} {'precision':>10} {'recall':>7}")
        for head in [*[each for each in ranked if each != "diagonal"][:5], "diagonal"]:
            score = scores[head]
            print(f"{100 * score.error_rate:6.1f} {100 * score.precision:10.1f} {100 * score.recall:7.1f}   {head}")
        judge = "the reference" if self.gold is not None else "words that are the same on both sides"
        links_known = sum(len(reference.sure) for reference in references)
        print(f"on {len(pairs):,} pairs of {self.corpus}, judged by {links_known:,} links of {judge}")
        best = next(head for head in ranked if isinstance(head, AlignmentHead))
        best.save(self.model)
        print(f"{self.model / ALIGNMENT_FILE}: {best}")


# Fewer words that are the same on both sides say little about a head.
MINIMUM = 30
