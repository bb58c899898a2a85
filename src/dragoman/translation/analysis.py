"""What models say of pairs of a source and a given target: scores, alignments, figures, attention, heads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import CorpusError, SettingsError
from dragoman.search.config import SearchConfig
from dragoman.search.results import NOT_SCORED, Score
from dragoman.text.lines import MAX_LINE_CHARACTERS, clean_line, read_line
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.assembly import AlignPieces
from dragoman.translation.backend import Backend, inspectable_of, scorer_of

if TYPE_CHECKING:
    from dragoman.alignment.heads import AlignmentHead
    from dragoman.alignment.links import TokenizedPair
    from dragoman.attention_page.kinds import Head
    from dragoman.attention_page.map import AttentionMap
    from dragoman.attention_page.statistics import HeadMeasurements
    from dragoman.evaluation.alignment import Link
    from dragoman.models.seq2seq import Seq2Seq
    from dragoman.models.token_statistics import TokenStatistic

Ids = list[list[int]]


class PairAnalyzer:
    """Analyzes pairs of a source and a given target, each taken as one piece. Computes in torch, whatever the engine.

    Args:
        backend: the models.
        tokenizer: that of the models.
        max_source_tokens: what has more tokens on a side is too long for one piece.
        max_line_characters: what has more characters on a side is too long for the models.
    """

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        *,
        max_source_tokens: int,
        max_line_characters: int = MAX_LINE_CHARACTERS,
    ) -> None:
        if max_source_tokens < 1:
            raise SettingsError(f"max_source_tokens must be at least 1, got {max_source_tokens}")
        if max_line_characters < 1:
            raise SettingsError(f"max_line_characters must be at least 1, got {max_line_characters}")
        self.backend = backend
        self.tokenizer = tokenizer
        self.max_source_tokens = max_source_tokens
        self.max_line_characters = max_line_characters

    @property
    def engine(self) -> str:
        """What searches, in a few words."""
        return self.backend.description

    @property
    def model(self) -> Seq2Seq:
        """The model in torch.

        Raises SettingsError when there are several.
        """
        return inspectable_of(self.backend).only_model

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Say of each pair whether it can be taken as one piece: at most `max_source_tokens` on either side."""
        return [
            max(len(source), len(target)) <= self.max_source_tokens
            for source, target in zip(*self._encode(pairs), strict=True)
        ]

    def score(
        self, pairs: Sequence[tuple[str, str]], *, length_penalty: float = SearchConfig.length_penalty
    ) -> list[Score]:
        """Return the log-probability of each (source, target), in order.

        Computed in float32. For a line in one piece and its translation this is what `translate` reports, within the
        precision of its engine and provided that the tokenizer gives back the tokens which the search chose. A pair
        that is not `scorable` gets numbers that are not a number.
        """
        scorable = self.scorable(pairs)
        some = [pair for pair, takes in zip(pairs, scorable, strict=True) if takes]
        found = iter(scorer_of(self.backend).score(*self._encode(some), length_penalty))
        return [next(found) if takes else NOT_SCORED for takes in scorable]

    def scorable(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Say of each pair whether it is scored: at most `max_line_characters` on either side."""
        return [max(map(len, pair)) <= self.max_line_characters for pair in pairs]

    def token_statistics(self, pairs: Sequence[tuple[str, str]]) -> dict[str, TokenStatistic]:
        """Return what the model reports of its own on pairs of (source, target).

        Such as the Universal Transformer's steps; empty for most models. See `Seq2Seq.token_statistics`.
        """
        return scorer_of(self.backend).token_statistics(*self._encode(pairs))

    def align(self, pairs: Sequence[tuple[str, str]], by: AlignmentHead) -> list[list[Link]]:
        """Return which word of each source each word of its target comes from.

        Raises UserError when there are several models, or the model has no such head.
        """
        return self._piece_aligner(by)(*self._encode(pairs))

    def alignments_by_head(self, pairs: Sequence[tuple[str, str]]) -> list[dict[AlignmentHead, list[Link]]]:
        """Return, for each pair, the links by every head: to choose one (see `alignment.head_ranking`)."""
        from dragoman.alignment.links import align_by_head

        return align_by_head(inspectable_of(self.backend), self._tokenized(*self._encode(pairs)))

    def _piece_aligner(self, by: AlignmentHead) -> AlignPieces:
        """Return what aligns the words of sources and targets that are given as ids.

        Raises SettingsError when there are several models.
        """
        from dragoman.alignment.links import align

        backend = inspectable_of(self.backend)
        return lambda sources, targets: align(backend, self._tokenized(sources, targets), by)

    def _attention_of(
        self, text: str, target: str, *, details: bool, candidates: int, without_heads: bool
    ) -> AttentionMap:
        """Return the attention while the model reads `text` and writes `target`; see `Translator.attention`."""
        from dragoman.inspection.sentence import attention_map

        return attention_map(
            inspectable_of(self.backend),
            self.tokenizer,
            self._shown("text", text, self.tokenizer.encode_source),
            self._shown("translation", target, self.tokenizer.encode_target),
            details=details,
            candidates=candidates,
            without_heads=without_heads,
        )

    def _shown(self, what: str, line: str, encode: Callable[[Sequence[str]], Ids]) -> str:
        """Return the line as clean text; raise CorpusError when it is empty, or too long to show its attention."""
        text = read_line(line)[0]
        [ids] = encode([text])
        if not ids:
            raise CorpusError(f"the {what} is empty: give one with words in it to see the attention for")
        if len(ids) > self.max_source_tokens:
            raise CorpusError(
                f"the {what} has {len(ids):,} subwords, and attention is shown for at most {self.max_source_tokens:,}, "
                "the longest of training: give a shorter one, a sentence at a time"
            )
        return text

    def without(self, attention: AttentionMap, heads: Collection[Head]) -> tuple[str, float]:
        """Return what the model says to the text of a map with these heads off, and what it gives to its translation.

        The first by greedy search; the second is the log-probability in nats. `attention` is of these models.
        """
        from dragoman.inspection import ablation

        [source], [output] = self._encode([(attention.text, attention.translation)])
        found = ablation.without_all(self.model, source, output, heads)
        [said] = self.tokenizer.decode_target([found.output])
        return clean_line(said), found.log_probability

    def measure_heads(
        self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int, int], None] | None = None
    ) -> HeadMeasurements:
        """Return figures of every head over pairs of (source, target); see `HeadMeasurements`.

        Takes a pass over the pairs for each head; `on_progress` is called with the number of passes done, and of all.

        Raises UserError when there are no pairs, or several models.
        """
        from dragoman.inspection.head_measurements import IdPair, measure_heads

        if not pairs:
            raise CorpusError("no pairs to measure the heads on")
        sources, targets = self._encode(pairs)
        texts, target_texts = self.tokenizer.source_texts, self.tokenizer.target_texts
        rows = [
            IdPair(source, target, tuple(texts(source)), tuple(target_texts(target)))
            for source, target in zip(sources, targets, strict=True)
        ]
        batches = [
            [rows[i] for i in batch] for batch in inspectable_of(self.backend).batches(sources, targets, width=1)
        ]
        right_to_left = self.tokenizer.right_to_left
        return measure_heads(
            self.model, batches, on_progress=on_progress or (lambda *_: None), right_to_left=right_to_left
        )

    def _encode(self, pairs: Sequence[tuple[str, str]]) -> tuple[Ids, Ids]:
        sources = self.tokenizer.encode_source([read_line(source)[0] for source, _ in pairs])
        targets = self.tokenizer.encode_target([read_line(target)[0] for _, target in pairs])
        return sources, targets

    def _tokenized(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[TokenizedPair]:
        from dragoman.alignment.links import TokenizedPair

        return [TokenizedPair.of(*pair, self.tokenizer) for pair in zip(sources, targets, strict=True)]
