"""Analysis of pairs of a source and a given target: scores, alignments, token statistics, attention, heads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import CorpusError, SettingsError
from dragoman.search.config import SearchConfig
from dragoman.search.results import NOT_SCORED, Score
from dragoman.text.lines import MAX_LINE_CHARACTERS, clean_line, read_line
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.assembly import AlignSegments
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
    """The part of `Translator` that analyses pairs of a source and a given target.

    Each side is taken as one segment, whatever its length. Everything is computed in torch, with either engine.

    Args:
        backend: the models and the engine that runs them.
        tokenizer: the tokenizer of the models.
        max_source_tokens: a side of more tokens does not fit into one segment.
        max_line_characters: a side of more characters is not scored.
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
        """A short description of the engine, its precision and its threads or device."""
        return self.backend.description

    @property
    def model(self) -> Seq2Seq:
        """The model, in torch.

        Raises:
            SettingsError: if the translator has several models.
        """
        return inspectable_of(self.backend).only_model

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return, for each pair, True if both sides have at most `max_source_tokens` tokens.

        Args:
            pairs: (source, target) pairs.

        Returns:
            One value per pair, in order.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> translator.fits([("The door is open.", "Die Tür ist offen."), ("door " * 1000, "")])
            [True, False]
        """
        return [
            max(len(source), len(target)) <= self.max_source_tokens
            for source, target in zip(*self._encode(pairs), strict=True)
        ]

    def score(
        self, pairs: Sequence[tuple[str, str]], *, length_penalty: float = SearchConfig.length_penalty
    ) -> list[Score]:
        """Return the log-probability of each target, given its source.

        Computed in float32. For a line of one segment and its translation, this is the value that `translate` reports,
        up to the precision of the engine, provided that the tokenizer encodes the output to the tokens that the search
        found.

        Args:
            pairs: (source, target) pairs.
            length_penalty: alpha of the length penalty (see `dragoman.search.config.length_penalty`); 0 for none.

        Returns:
            One score per pair, in order. The numbers of a pair that is not `scorable` are NaN.

        Raises:
            SettingsError: if the backend cannot score.
            FloatingPointError: if the models compute probabilities that are not finite.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> [score] = translator.score([("Turn off the light.", "Schalte das Licht aus.")])
            >>> score.log_probability < 0
            True
        """
        scorable = self.scorable(pairs)
        scorable_pairs = [pair for pair, is_scorable in zip(pairs, scorable, strict=True) if is_scorable]
        scores = iter(scorer_of(self.backend).score(*self._encode(scorable_pairs), length_penalty))
        return [next(scores) if is_scorable else NOT_SCORED for is_scorable in scorable]

    def scorable(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return, for each pair, True if both sides have at most `max_line_characters` characters.

        Args:
            pairs: (source, target) pairs.

        Returns:
            One value per pair, in order.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine", max_line_characters=100)
            >>> translator.scorable([("The door is open.", "Die Tür ist offen."), ("door " * 1000, "")])
            [True, False]
        """
        return [max(map(len, pair)) <= self.max_line_characters for pair in pairs]

    def token_statistics(self, pairs: Sequence[tuple[str, str]]) -> dict[str, TokenStatistic]:
        """Return statistics that the model itself reports about tokens, such as the Universal Transformer's steps.

        Args:
            pairs: (source, target) pairs.

        Returns:
            Mean and maximum over all tokens, by name; empty for most architectures. See `Seq2Seq.token_statistics`.

        Raises:
            SettingsError: if the backend cannot score.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> translator.token_statistics([("The door is open.", "Die Tür ist offen.")])
            {}
        """
        return scorer_of(self.backend).token_statistics(*self._encode(pairs))

    def align(self, pairs: Sequence[tuple[str, str]], head: AlignmentHead) -> list[list[Link]]:
        """Return, for each target word, the source word that it translates, according to an attention head.

        Args:
            pairs: (source, target) pairs.
            head: the attention head. `AlignmentHead.load` reads the one that `dragoman align` selected for a model.

        Returns:
            The links of each pair, as (source word, target word). Words are separated by spaces and counted from 0.

        Raises:
            SettingsError: if the translator has several models.
            ModelError: if the model has no such head.

        Example:
            >>> from dragoman import Translator
            >>> from dragoman.alignment.heads import AlignmentHead
            >>> translator = Translator.load("models/mine")
            >>> head = AlignmentHead(layer=0, head=None, from_input=True)
            >>> [links] = translator.align([("The door is open.", "Die Tür ist offen.")], head)
            >>> [target_word for source_word, target_word in links]
            [0, 1, 2, 3]
        """
        return self._segment_aligner(head)(*self._encode(pairs))

    def alignments_by_head(self, pairs: Sequence[tuple[str, str]]) -> list[dict[AlignmentHead, list[Link]]]:
        """Return the links of each pair according to every head; `alignment.head_ranking` ranks the heads with them.

        Args:
            pairs: (source, target) pairs.

        Returns:
            The links by head of each pair, in order.

        Raises:
            SettingsError: if the translator has several models.
            ModelError: if the model has no attention between target and source.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> [links] = translator.alignments_by_head([("The door is open.", "Die Tür ist offen.")])
            >>> {len(links_of_head) for links_of_head in links.values()}
            {4}
        """
        from dragoman.alignment.links import align_by_head

        return align_by_head(inspectable_of(self.backend), self._tokenized(*self._encode(pairs)))

    def _segment_aligner(self, head: AlignmentHead) -> AlignSegments:
        """Return a function that aligns the words of sources and targets given as ids.

        Raises SettingsError if there are several models.
        """
        from dragoman.alignment.links import align

        backend = inspectable_of(self.backend)
        return lambda sources, targets: align(backend, self._tokenized(sources, targets), head)

    def _attention_of(
        self, text: str, target: str, *, details: bool, candidates: int, without_heads: bool
    ) -> AttentionMap:
        """Return the attention while the model reads `text` and writes `target`; see `Translator.attention`."""
        from dragoman.inspection.sentence import attention_map

        return attention_map(
            inspectable_of(self.backend),
            self.tokenizer,
            self._checked_line("text", text, self.tokenizer.encode_source),
            self._checked_line("translation", target, self.tokenizer.encode_target),
            details=details,
            candidates=candidates,
            without_heads=without_heads,
        )

    def _checked_line(self, side: str, line: str, encode: Callable[[Sequence[str]], Ids]) -> str:
        """Return the line as clean text; raise CorpusError if it is empty, or too long for one segment."""
        text = read_line(line)[0]
        [ids] = encode([text])
        if not ids:
            raise CorpusError(f"the {side} is empty: give one with words in it to see the attention for")
        if len(ids) > self.max_source_tokens:
            raise CorpusError(
                f"the {side} has {len(ids):,} subwords, and attention is shown for at most {self.max_source_tokens:,}, "
                "the length of the longest sentence in training: give a shorter one, a sentence at a time"
            )
        return text

    def translate_without(self, attention: AttentionMap, heads: Collection[Head]) -> tuple[str, float]:
        """Translate the text of an attention map with some heads switched off.

        Args:
            attention: a map that `Translator.attention` returned for this model.
            heads: the heads to switch off.

        Returns:
            The translation by greedy search, and the log-probability (in nats) of the map's translation, both without
            the heads.

        Raises:
            SettingsError: if the translator has several models.

        Example:
            >>> from dragoman import Translator
            >>> from dragoman.attention_page.kinds import Head
            >>> translator = Translator.load("models/mine")
            >>> attention = translator.attention("Turn off the light.", "Schalte das Licht aus.")
            >>> head = Head("encoder_decoder", layer=0, head=1)
            >>> translation, log_probability = translator.translate_without(attention, [head])
            >>> change = log_probability - attention.log_probability
        """
        from dragoman.inspection import ablation

        [source], [target] = self._encode([(attention.text, attention.translation)])
        ablated = ablation.without_all(self.model, source, target, heads)
        [translation] = self.tokenizer.decode_target([ablated.output])
        return clean_line(translation), ablated.log_probability

    def measure_heads(
        self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int, int], None] | None = None
    ) -> HeadMeasurements:
        """Measure every attention head over pairs: what it attends to, and how the loss changes without it.

        Makes one pass over the pairs for each head, and two more.

        Args:
            pairs: (source, target) pairs.
            on_progress: called after each pass with the number of passes done and the number of all passes.

        Returns:
            The measurements; see `HeadMeasurements`.

        Raises:
            CorpusError: if there are no pairs.
            SettingsError: if the translator has several models.
            ModelError: if the model has no attention.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> measurements = translator.measure_heads([("The door is open.", "Die Tür ist offen.")])
            >>> measurements.sentences
            1
            >>> least_important = measurements.least_important(2)
        """
        from dragoman.inspection.head_measurements import IdPair, measure_heads

        if not pairs:
            raise CorpusError("no pairs to measure the heads on")
        sources, targets = self._encode(pairs)
        source_texts, target_texts = self.tokenizer.source_texts, self.tokenizer.target_texts
        id_pairs = [
            IdPair(source, target, tuple(source_texts(source)), tuple(target_texts(target)))
            for source, target in zip(sources, targets, strict=True)
        ]
        batches = [
            [id_pairs[i] for i in batch] for batch in inspectable_of(self.backend).batches(sources, targets, width=1)
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

        return [TokenizedPair.from_ids(*pair, self.tokenizer) for pair in zip(sources, targets, strict=True)]
