"""`Translator`: translate text with trained models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dragoman.native.engine_selection import EngineName, PrecisionName
from dragoman.search.config import DEFAULT_BATCH_TOKENS, DEFAULT_SEARCH, SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.text.lines import MAX_LINE_CHARACTERS, portions, with_prefixes
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.analysis import PairAnalyzer
from dragoman.translation.assembly import LineSteps, line_steps, translate_split
from dragoman.translation.backend import Backend, inspectable_of, sampler_of
from dragoman.translation.confidence import Confidence
from dragoman.translation.loading import load_parts
from dragoman.translation.results import LineProgress, Translation
from dragoman.translation.splitting import SplitLine, split_lines

if TYPE_CHECKING:
    from dragoman.alignment.heads import AlignmentHead
    from dragoman.attention_page.map import AttentionMap
    from dragoman.models.seq2seq import Seq2Seq


class Translator(PairAnalyzer):
    """Translator of lines of text, with one model or with an ensemble of models of one vocabulary.

    `Translator.load` reads model directories; the constructor is for backends that exist already. Each input line
    gives one `Translation`, in order:

    - A line without text gives an empty translation; no model is run for it.
    - Line breaks inside a line (U+2028, U+0085, a lone CR, ...) and NUL characters count as spaces, in the output too.
    - A line of more than `max_source_tokens` tokens is split into segments (see `dragoman.text.segmenting`), which are
      translated one by one; nothing is left out. Text of a kind that no model has learned, such as a run of one
      character, is copied from such a line (see `dragoman.text.copying`).
    - A line of more than `max_line_characters` characters is copied as a whole.

    `Translation` reports splitting and copying. The translation of a line does not depend on the other lines of the
    same call (with the torch engine, except for ties within rounding).

    Args:
        backend: the models and the engine that runs them.
        tokenizer: the tokenizer of the models.
        max_source_tokens: lines of more tokens are split.
        max_line_characters: lines of more characters are copied.
        confidence: how probable it is that a translation is good; None if it was not fitted. It is fitted to outputs of
            beam search: samples and outputs with a given beginning have none.

    Example:
        >>> from dragoman import Translator
        >>> translator = Translator.load("models/mine")
        >>> [translation] = translator.translate(["Turn off the light."])
        >>> text = translation.text
    """

    def __init__(
        self,
        backend: Backend,
        tokenizer: Tokenizer,
        *,
        max_source_tokens: int,
        max_line_characters: int = MAX_LINE_CHARACTERS,
        confidence: Confidence | None = None,
    ) -> None:
        super().__init__(
            backend, tokenizer, max_source_tokens=max_source_tokens, max_line_characters=max_line_characters
        )
        self.confidence = confidence

    @classmethod
    def from_parts(
        cls,
        models: Sequence[Seq2Seq],
        tokenizer: Tokenizer,
        *,
        max_source_tokens: int = 256,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Self:
        """Return a translator that runs models which are already in memory, with the torch engine.

        The models stay on their device. They are in evaluation mode only while they run: a model can also be used
        between the steps of its training.

        Args:
            models: one model, or several of the same vocabulary as an ensemble.
            tokenizer: the tokenizer of the models.
            max_source_tokens: lines of more tokens are split.
            batch_tokens: limit of a batch: rows times hypotheses times tokens of the longest row.

        Returns:
            The translator.

        Raises:
            SettingsError: if a limit is out of range.

        Example:
            >>> from pathlib import Path
            >>> from dragoman import Translator
            >>> from dragoman.models.storage import load_model
            >>> from dragoman.text.tokenizer import Tokenizer
            >>> directory = Path("models/mine")
            >>> translator = Translator.from_parts([load_model(directory)], Tokenizer.load(directory))
            >>> translator.max_source_tokens
            256
        """
        from dragoman.search.torch_backend import TorchBackend

        backend = TorchBackend.from_models(models, batch_tokens=batch_tokens)
        return cls(backend, tokenizer, max_source_tokens=max_source_tokens)

    @classmethod
    def load(
        cls,
        directory: Path | str,
        *more: Path | str,
        device: str = "auto",
        engine: EngineName = "auto",
        precision: PrecisionName = "auto",
        threads: int | None = None,
        shortlist: bool = False,
        max_source_tokens: int | None = None,
        max_line_characters: int = MAX_LINE_CHARACTERS,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Self:
        """Load a model directory, or an ensemble from several.

        In an ensemble, the probabilities of models that write in the same direction are averaged. If models of both
        directions are given, each direction searches by itself and the outputs are ranked by both (see
        `TwoDirections`).

        Args:
            directory: a model directory, as `dragoman train` writes it.
            *more: further model directories, trained with the same tokenizer.
            device: a torch device ("cpu", "cuda:1"), or "auto": the first GPU if there is one, else the CPU.
            engine: "native" (compiled C++: one model, on a CPU), "torch" (any number of models, any device), or
                "auto": native where possible, else torch.
            precision: of the native engine: "fp32", "bf16", "int8", or "auto": the fastest on this processor.
            threads: number of threads of the native engine. Defaults to one per core.
            shortlist: restrict each sentence to a part of the vocabulary, with the shortlist that `dragoman
                shortlist` learned (native engine only). Faster, at a small cost in quality.
            max_source_tokens: lines of more tokens are split. Defaults to the length of the longest sentence that
                every model has seen in training.
            max_line_characters: lines of more characters are copied.
            batch_tokens: limit of a batch, see `NativeBackend` and `TorchBackend`.

        Returns:
            The translator.

        Raises:
            ModelError: if a directory is not a model directory, is damaged, or the vocabularies differ.
            SettingsError: if the device, engine or precision is not available, or a limit is out of range.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine", engine="torch", device="cpu")
            >>> translator.max_source_tokens
            100
        """
        loaded = load_parts(
            [Path(directory), *map(Path, more)],
            device=device,
            engine=engine,
            precision=precision,
            threads=threads,
            shortlist=shortlist,
            batch_tokens=batch_tokens,
        )
        limit = loaded.trained_length if max_source_tokens is None else max_source_tokens
        return cls(
            loaded.backend,
            loaded.tokenizer,
            max_source_tokens=limit,
            max_line_characters=max_line_characters,
            confidence=loaded.confidence,
        )

    def translate(
        self,
        lines: Sequence[str | bytes],
        *,
        search: SearchConfig = DEFAULT_SEARCH,
        sampling: SamplingConfig | None = None,
        prefixes: Sequence[str | bytes] | None = None,
        alignment: AlignmentHead | None = None,
        on_progress: Callable[[LineProgress], None] | None = None,
    ) -> list[Translation]:
        """Translate lines, all at once.

        Args:
            lines: text, or UTF-8 bytes.
            search: settings of beam search; a beam of 1 is greedy search.
            sampling: draw outputs at random instead, in torch. The limits of length and the length penalty of
                `search` still apply. The samples depend only on the tokens of the line and the seed: the same line
                twice gives the same samples.
            prefixes: one per line: text with which its translation begins ("" for none). In a line that is split,
                the prefix belongs to the first segment. White space at its ends is ignored. Not available for models
                that write from right to left.
            alignment: also return word alignments, computed in torch from this attention head.
            on_progress: called before each batch of segments of a long line.

        Returns:
            One translation per line, in order.

        Raises:
            SettingsError: if the models cannot do what is requested: sampling with models of both directions, prefixes
                from right to left, an alignment from several models; or if there is not one prefix per line.
            ModelError: if the model lacks the head named by `alignment`, or finds no output.
            FloatingPointError: if a model computes probabilities that are not finite.

        Example:
            >>> from dragoman import Translator
            >>> from dragoman.search.config import SearchConfig
            >>> translator = Translator.load("models/mine")
            >>> search = SearchConfig(beam=8, n_best=3)
            >>> [translation] = translator.translate(["Turn off the light."], search=search)
            >>> len(translation.alternatives)
            3
        """
        return list(self._translations(lines, search, sampling, prefixes, alignment, on_progress))

    def _translations(
        self,
        lines: Sequence[str | bytes],
        search: SearchConfig,
        sampling: SamplingConfig | None,
        prefixes: Sequence[str | bytes] | None,
        alignment: AlignmentHead | None,
        on_progress: Callable[[LineProgress], None] | None,
    ) -> Iterator[Translation]:
        split = split_lines(lines, prefixes, self.tokenizer, self.max_source_tokens, self.max_line_characters)
        # Raise errors about alignment and sampling before the search begins.
        align = None if alignment is None else self._segment_aligner(alignment)
        sampler = None if sampling is None else sampler_of(self.backend)

        def search_or_sample(inputs: Sequence[SearchInput]) -> list[list[Hypothesis]]:
            if sampler is None or sampling is None:
                return self.backend.search(inputs, search)
            return sampler.sample(inputs, search, sampling)

        translations = translate_split(split, search_or_sample, self.tokenizer, align, on_progress)
        for translation, line in zip(translations, split, strict=True):
            yield translation if sampling else self._with_confidence(translation, line)

    def line_steps(
        self, line: str | bytes, *, prefix: str = "", alignment: AlignmentHead | None = None, words: bool = False
    ) -> LineSteps:
        """Return a generator that translates a line, for a program that searches by itself.

        The generator yields the inputs of a search, receives the hypotheses of each input, and so on until it returns
        the `Translation`.

        Args:
            line: text, or UTF-8 bytes.
            prefix: text with which the translation begins; see `translate`.
            alignment: see `translate`.
            words: True to return the probability of each word, if the search records it.

        Returns:
            The generator.

        Raises:
            SettingsError: as `translate` does.

        Example:
            >>> from dragoman import Translator
            >>> from dragoman.search.config import DEFAULT_SEARCH
            >>> translator = Translator.load("models/mine")
            >>> steps = translator.line_steps("Turn off the light.")
            >>> hypotheses = translator.backend.search(next(steps), DEFAULT_SEARCH)
            >>> try:
            ...     inputs = steps.send(hypotheses)
            ... except StopIteration as end:
            ...     translation = end.value
            >>> translation.segments
            1
        """
        [split] = split_lines([line], [prefix], self.tokenizer, self.max_source_tokens, self.max_line_characters)
        align = None if alignment is None else self._segment_aligner(alignment)
        return self._steps_with_confidence(line_steps(split, self.tokenizer, align, with_words=words), split)

    def _steps_with_confidence(self, steps: LineSteps, line: SplitLine) -> LineSteps:
        translation = yield from steps
        return self._with_confidence(translation, line)

    def _with_confidence(self, translation: Translation, line: SplitLine) -> Translation:
        if self.confidence is None or line.prefix:
            return translation
        return replace(translation, confidence=self.confidence.of(translation))

    def translate_stream(
        self,
        lines: Iterable[str | bytes],
        *,
        search: SearchConfig = DEFAULT_SEARCH,
        sampling: SamplingConfig | None = None,
        prefixes: Iterable[str | bytes] | None = None,
        alignment: AlignmentHead | None = None,
        on_progress: Callable[[LineProgress], None] | None = None,
    ) -> Iterator[Translation]:
        """Translate any number of lines lazily; for files and pipes.

        Reads up to 2,000 lines (or a million characters) ahead, so that lines of similar length can share a batch.
        Lines may end with their line feed.

        Args:
            lines: text, or UTF-8 bytes; for example an open file.
            search: see `translate`.
            sampling: see `translate`.
            prefixes: one per line; see `translate`.
            alignment: see `translate`.
            on_progress: see `translate`.

        Returns:
            An iterator over one translation per line, in order.

        Raises:
            CorpusError: while iterating, if there are more or fewer prefixes than lines.
            SettingsError: while iterating, as `translate` does.
            ModelError: while iterating, as `translate` does.
            FloatingPointError: while iterating, as `translate` does.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> with open("letter.txt", encoding="utf-8") as letter:
            ...     translations = [translation.text for translation in translator.translate_stream(letter)]
            >>> len(translations)
            3
        """
        pairs = ((line, "") for line in lines) if prefixes is None else with_prefixes(lines, prefixes)
        for portion in portions(pairs):
            texts, portion_prefixes = [line for line, _ in portion], [prefix for _, prefix in portion]
            yield from self._translations(texts, search, sampling, portion_prefixes, alignment, on_progress)

    def attention(
        self,
        text: str,
        target: str | None = None,
        *,
        details: bool = True,
        candidates: int = 5,
        without_heads: bool = False,
    ) -> AttentionMap:
        """Return the attention weights of every head while the model reads `text` and writes `target`.

        Computed in torch, with either engine. `AttentionMap.save` writes the result as a page, a picture or numbers.

        Args:
            text: the source.
            target: its translation. Defaults to the model's own (beam search).
            details: also record queries, keys, values and outputs of the heads, which the page shows.
            candidates: number of most probable tokens to record at each target position.
            without_heads: also translate without each single head; takes as long as several translations.

        Returns:
            The attention map.

        Raises:
            CorpusError: if a side is empty, or has more than `max_source_tokens` tokens.
            SettingsError: if the translator has several models.
            ModelError: if the model has no attention.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> attention = translator.attention("Turn off the light.", "Schalte das Licht aus.")
            >>> attention.save("attention.html")
            >>> layers, heads, T, S = attention.encoder_decoder.weights.shape
            >>> (T, S) == (len(attention.predicted), len(attention.source))
            True
        """
        if target is None:
            line = self._checked_line("text", text, self.tokenizer.encode_source)
            inspectable_of(self.backend)
            target = self.translate([line])[0].text
        return self._attention_of(text, target, details=details, candidates=candidates, without_heads=without_heads)
