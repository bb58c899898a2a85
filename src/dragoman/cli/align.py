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
    """Pairs, such as those of training: x.tsv, x.jsonl, or a.en,a.de (also .gz, .zst)."""
    gold: Path | None = None
    """A reference in Pharaoh's format, a line for each pair: 0-0 is sure, 0?0 possible. Without one, a lexicon is
    learnt from the corpus in both directions, and what both agree on serves as reference."""
    pairs: int = 500
    """Judge the heads by so many pairs, the first ones."""
    lexicon_pairs: int = 50_000
    """Learn the lexicon from so many pairs at most."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""

    def run(self) -> None:
        """Try every head, write the best."""
        from itertools import islice

        from dragoman.alignment.links import ALIGNMENT_FILE, AlignmentHead, lexical_links
        from dragoman.cli.gold import check_fit, read_gold
        from dragoman.data.readers import parse_corpus, read_pairs
        from dragoman.evaluation.alignment import (
            Link,
            diagonal,
            score_alignments,
            score_partial,
            words,
        )
        from dragoman.translation.translator import Translator

        translator = Translator.load(self.model, device=self.device, engine="torch")
        read = self.pairs if self.gold is not None else max(self.pairs, self.lexicon_pairs)
        every = list(islice(read_pairs(parse_corpus(self.corpus)), read))
        # What is wrong with a reference should show before every head has been tried.
        if self.gold is not None:
            check_fit(translator, every, self.corpus)
            corpus, references = every, read_gold(self.gold, every, f"of {self.corpus}")
        else:
            corpus = [pair for pair, fits in zip(every, translator.fits(every), strict=True) if fits]
            references = []
        if not corpus or self.pairs < 1:
            raise UserError(f"{self.corpus}: no pairs to align")
        pairs = corpus[: self.pairs]
        found: dict[AlignmentHead | str, list[list[Link]]] = {}
        for by_head in translator.alignments_by_head(pairs):
            for each, links in by_head.items():
                found.setdefault(each, []).append(links)
        found["diagonal"] = [diagonal(len(words(pair.source)), len(words(pair.target))) for pair in pairs]
        if self.gold is not None:
            known, judge = sum(len(each.sure) for each in references), "links of the reference"
            scores = {head: score_alignments(links, references) for head, links in found.items()}
        else:
            agreed = lexical_links([(words(pair.source), words(pair.target)) for pair in corpus], len(pairs))
            known, judge = sum(map(len, agreed)), f"links that lexicons of {len(corpus):,} pairs agree on"
            if known < MINIMUM:
                raise UserError(
                    f"{self.corpus} has only {known} words whose translation is fairly sure, too few to judge a "
                    f"head by ({MINIMUM} are needed): give more pairs, or a reference with --gold"
                )
            scores = {head: score_partial(links, agreed) for head, links in found.items()}
        ranked = sorted(scores, key=lambda head: scores[head].error_rate)
        print(f"{'AER':>6} {'precision':>10} {'recall':>7}")
        for head in [*[each for each in ranked if each != "diagonal"][:5], "diagonal"]:
            score = scores[head]
            print(f"{100 * score.error_rate:6.1f} {100 * score.precision:10.1f} {100 * score.recall:7.1f}   {head}")
        print(f"on the first {len(pairs):,} pairs of {self.corpus}, judged by {known:,} {judge}")
        best = next(head for head in ranked if isinstance(head, AlignmentHead))
        best.save(self.model)
        print(f"{self.model / ALIGNMENT_FILE}: {best}")


# Fewer links say little about a head.
MINIMUM = 30
