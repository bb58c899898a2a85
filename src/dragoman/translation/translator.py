"""The facade: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dragoman.search.config import DEFAULT_BATCH_TOKENS, DEFAULT_SEARCH, SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, Piece
from dragoman.text.lines import MAX_LINE_CHARACTERS, portions, with_prefixes
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.analysis import PairAnalyzer
from dragoman.translation.assembly import translate_split
from dragoman.translation.backend import inspectable_of, sampler_of
from dragoman.translation.engine_selection import EngineName, PrecisionName
from dragoman.translation.loading import load_parts
from dragoman.translation.pieces import split_lines
from dragoman.translation.results import LineProgress, Translation

if TYPE_CHECKING:
    from dragoman.alignment.heads import AlignmentHead
    from dragoman.attention_page.map import AttentionMap
    from dragoman.models.seq2seq import Seq2Seq


class Translator(PairAnalyzer):
    """Translates lines with one model, or with several of one vocabulary as an ensemble (see `Translator.load`).

    One line in gives one `Translation` out, in order. A line without text gives an empty one without asking the model.
    Line breaks inside a line (U+2028, U+0085, a lone CR, ...) and NUL count as spaces, in the output too. Lines of more
    than `max_source_tokens` tokens are split (see `segmenting`) and their pieces translated one by one: nothing is left
    out. What no model has learned, such as a run of one character, is copied in such a line (see `copying`); a line of
    more than `max_line_characters` is copied as a whole. The `Translation` says so. What a line gives does not depend
    on what else is translated at the same time (in torch, but for ties within rounding).

    Args:
        backend: the models; `loading` builds one from model directories.
        tokenizer: that of the models.
        max_source_tokens: longer lines are split.
        max_line_characters: longer lines are copied.
    """

    @classmethod
    def from_parts(
        cls,
        models: Sequence[Seq2Seq],
        tokenizer: Tokenizer,
        *,
        max_source_tokens: int = 256,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Self:
        """Translate with models in memory, in torch; they stay on their device and in their mode, such as training."""
        from dragoman.search.torch_backend import TorchBackend

        backend = TorchBackend.from_models(models, batch_tokens=batch_tokens)
        return cls(backend, tokenizer, max_source_tokens=max_source_tokens)

    @classmethod
    def load(
        cls,
        directory: Path,
        *more: Path,
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

        Probabilities of models that write in the same direction are averaged; what models of both directions find is
        ranked by both (see `TwoDirections`).

        device               as torch names it ("cpu", "cuda:1"); "auto": the first GPU, or the CPU
        engine               "native", compiled for this processor: one model, on a CPU; "torch": any number, anywhere;
                             "auto": native where possible, else torch
        precision            of the native engine: "fp32", "bf16", "int8", or "auto", its fastest
        threads              of the native engine; None: one for each core
        shortlist            of the native engine: a sentence uses its own part of the vocabulary, by the shortlist that
                             `dragoman shortlist` learnt; faster, and a little worse
        max_source_tokens    None: the longest sentence that every model has seen in training
        max_line_characters  longer lines are copied
        batch_tokens         bounds a batch: see `NativeBackend`, `TorchBackend`

        Raises UserError when a directory is no model directory, the vocabularies differ, or the device, engine or
        precision is not available.
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
        return cls(loaded.backend, loaded.tokenizer, max_source_tokens=limit, max_line_characters=max_line_characters)

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
        """Return one translation for each line, in order.

        search     beam search, or greedy search with a beam of 1
        sampling   draws instead, in torch; lengths and alpha are still those of `search`. The draws depend on the
                   tokens of the line and the seed alone: the same line twice, the same samples
        prefixes   one for each line: what its output begins with ("" for nothing). The first piece of a line that is
                   split gets it. White space at its ends does not count. Not for models that write from right to left
        alignment  the head that says which word comes from which, if that is wanted; computed in torch
        on_progress       is called again and again while a line of many pieces is translated

        Raises FloatingPointError when a model's probabilities are not numbers.
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
        # What is not possible is refused before the search.
        align = None if alignment is None else self._piece_aligner(alignment)
        sampler = None if sampling is None else sampler_of(self.backend)

        def find(pieces: Sequence[Piece]) -> list[list[Hypothesis]]:
            if sampler is None or sampling is None:
                return self.backend.search(pieces, search)
            return sampler.sample(pieces, search, sampling)

        yield from translate_split(split, find, self.tokenizer, align, on_progress)

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
        """Yield one translation for each line, in order, from any number of lines; see `translate`.

        Reads up to 2,000 lines (or a million characters) ahead, so that lines of similar length can share a batch; a
        line may carry its line feed.

        Raises UserError when there are more lines than prefixes, or fewer, where that shows.
        """
        pairs = ((line, "") for line in lines) if prefixes is None else with_prefixes(lines, prefixes)
        for some in portions(pairs):
            texts, begins = [line for line, _ in some], [prefix for _, prefix in some]
            yield from self._translations(texts, search, sampling, begins, alignment, on_progress)

    def attention(
        self,
        text: str,
        target: str | None = None,
        *,
        details: bool = True,
        candidates: int = 5,
        without_heads: bool = False,
    ) -> AttentionMap:
        """Return every weight of every head while the model reads `text` and writes `target`.

        target         the model's own translation (beam search) when there is none
        details        also queries, keys, values and outputs of the heads, which the page shows
        candidates     the number of most probable tokens to show at each position
        without_heads  also what happens without each single head; takes as long as some translations

        Computed in torch whatever the engine. `AttentionMap.save` writes it as a page, a picture or numbers.

        Raises UserError when there is no text or target, it is longer than the model takes as one piece, or there are
        several models.
        """
        if target is None:
            line = self._shown("text", text, self.tokenizer.encode_source)
            inspectable_of(self.backend)
            target = self.translate([line])[0].text
        return self._attention_of(text, target, details=details, candidates=candidates, without_heads=without_heads)
