"""The facade: text in, text out. The only place of this room that knows of text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dragoman.errors import UserError
from dragoman.models.config import TransformerConfig
from dragoman.models.description import load_description
from dragoman.native.backend import NativeBackend
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, Piece
from dragoman.text.lines import clean_line, portions, read_line, with_prefixes
from dragoman.text.segmenting import first_words, join, segment
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.backend import Backend
from dragoman.translation.backends import EngineName, PrecisionName, choose_engine
from dragoman.translation.shortlist import Shortlist

if TYPE_CHECKING:
    from dragoman.alignment.links import AlignmentHead, Link, TokenizedPair
    from dragoman.attention_page.kinds import Head
    from dragoman.attention_page.map import AttentionMap
    from dragoman.attention_page.statistics import HeadStudy
    from dragoman.models.figures import Figure
    from dragoman.models.seq2seq import Seq2Seq
    from dragoman.search.config import SamplingConfig
    from dragoman.search.results import Score
    from dragoman.search.torch_backend import TorchBackend
    from dragoman.translation.two_directions import TwoDirections

DEFAULT_SEARCH = SearchConfig()


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One output for a line; for a line in several pieces both numbers are sums over them."""

    text: str
    log_probability: float
    score: float


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The translation of one line.

    text, log_probability, score   the best output; "", 0 and 0 for a line without text
    alternatives   the `n_best` outputs, best first, or the samples in the order drawn; the first is
                   the one above. Empty for a line without text
    pieces         into how many pieces the line was split because of its length; 0 without text
    cut            some sentence was too long for one piece and was cut in its midst
    truncated      the maximum length ended the output (of some piece), not the model; from right to left, what is
                   missing is the beginning
    alignment      if asked for: (source word, target word), from 0, words being what stands between spaces
    invalid_utf8   the line was not UTF-8; what could not be read was taken as U+FFFD
    """

    text: str
    log_probability: float
    score: float
    alternatives: tuple[Alternative, ...]
    pieces: int
    cut: bool
    truncated: bool
    invalid_utf8: bool
    alignment: tuple[Link, ...] | None = None


class Translator:
    """Translates lines with one model, or with several of one vocabulary as an ensemble (see `Translator.load`).

    One line in gives one `Translation` out, in order. A line without text gives an empty one without
    asking the model. Line breaks inside a line (U+2028, U+0085, a lone CR, ...) and NUL count as
    spaces, in the output too. Lines of more than `max_source_tokens` tokens are split (see
    `segmenting`) and their pieces translated one by one: nothing is left out. What a line gives does
    not depend on what else is translated at the same time (in torch, but for ties within rounding).

    Args:
        searcher: finds outputs; in torch, or compiled.
        in_torch: gives the same models in torch, which samples and scores; called when that is first asked for.
        tokenizer: that of the models.
        max_source_tokens: longer lines are split.
    """

    def __init__(
        self,
        searcher: Backend,
        in_torch: Callable[[], TorchBackend | TwoDirections],
        tokenizer: Tokenizer,
        *,
        max_source_tokens: int,
    ) -> None:
        if max_source_tokens < 1:
            raise UserError(f"max_source_tokens must be at least 1, got {max_source_tokens}")
        self.tokenizer = tokenizer
        self.max_source_tokens = max_source_tokens
        self._searcher = searcher
        self._load_in_torch = in_torch

    @classmethod
    def from_parts(
        cls,
        models: Sequence[Seq2Seq],
        tokenizer: Tokenizer,
        *,
        max_source_tokens: int = 256,
        batch_tokens: int = 4096,
    ) -> Self:
        """A translator over models in memory, in torch; they stay on their device and in their mode.

        A model in the midst of training may be given: it is in evaluation mode while it translates.
        `batch_tokens`: see `TorchBackend`.
        """
        from dragoman.search.torch_backend import TorchBackend

        searcher = TorchBackend.from_models(models, batch_tokens=batch_tokens)
        return cls(searcher, lambda: searcher, tokenizer, max_source_tokens=max_source_tokens)

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
        batch_tokens: int = 4096,
    ) -> Self:
        """A translator from a model directory, or an ensemble from several.

        Probabilities of models that write in the same direction are averaged; what models of both directions find is
        ranked by both (see `TwoDirections`).

        device             as torch names it ("cpu", "cuda:1"); "auto": the first GPU, or the CPU
        engine             "native", compiled for this processor: one model, on a CPU; "torch": any number,
                           anywhere; "auto": native where it can be, else torch
        precision          of the native engine: "fp32", "bf16", "int8", or "auto", its fastest
        threads            of the native engine; None: one for each core
        shortlist          of the native engine: a sentence uses its own part of the vocabulary, by the shortlist
                           that `dragoman shortlist` learnt; faster, and a little worse
        max_source_tokens  None: the longest sentence that every model has seen in training
        batch_tokens       bounds a batch: see `NativeBackend`, `TorchBackend`

        Sampling and scores are computed in torch whatever the engine. Raises UserError when a directory is
        no model directory, the vocabularies differ, or the device, engine or precision is not to be had.
        """
        directories = [Path(directory), *map(Path, more)]
        descriptions = [load_description(each) for each in directories]
        right_to_left = [description.right_to_left for description in descriptions]
        # Models of both directions meet in the order of the text.
        tokenizers = [Tokenizer.load(each, right_to_left=all(right_to_left)) for each in directories]
        for each, tokenizer in zip(directories, tokenizers, strict=True):
            if tokenizer.vocabulary_hash != tokenizers[0].vocabulary_hash:
                raise UserError(
                    f"{each} and {directory} have different vocabularies; an ensemble needs models "
                    "that were trained with the same tokenizer"
                )
        for each, description in zip(directories, descriptions, strict=True):
            if description.vocabulary_hash not in (None, tokenizers[0].vocabulary_hash):
                raise UserError(
                    f"the tokenizer in {each} is damaged, or not the one that the model was trained with: copy the "
                    "directory anew"
                )
        if max_source_tokens is None:
            max_source_tokens = min(description.trained_length for description in descriptions)
        configs = [description.model for description in descriptions]
        choice = choose_engine(engine, precision, device, configs)

        def in_torch() -> TorchBackend | TwoDirections:
            if len(set(right_to_left)) == 1:
                return _load_in_torch(directories, device, batch_tokens)
            from dragoman.translation.two_directions import TwoDirections

            forward, backward = (
                [each for each, other in zip(directories, right_to_left, strict=True) if other is wanted]
                for wanted in (False, True)
            )
            return TwoDirections(
                _load_in_torch(forward, device, batch_tokens), _load_in_torch(backward, device, batch_tokens)
            )

        if choice.build is None:
            if shortlist:
                raise UserError(f"a shortlist needs the compiled engine, which cannot be used: {choice.reason}")
            loaded = in_torch()
            return cls(loaded, lambda: loaded, tokenizers[0], max_source_tokens=max_source_tokens)
        [config] = configs
        assert isinstance(config, TransformerConfig), "choose_engine gives the compiled engine no other architecture"
        searcher = NativeBackend(
            directories[0],
            config,
            choice.build,
            choice.precision,
            threads=threads,
            batch_tokens=batch_tokens,
            shortlist=Shortlist.load(directories[0], config.source_vocabulary, config.target_vocabulary)
            if shortlist
            else None,
        )
        return cls(searcher, in_torch, tokenizers[0], max_source_tokens=max_source_tokens)

    @property
    def engine(self) -> str:
        """What searches, in a few words."""
        return self._searcher.description

    def translate(
        self,
        lines: Sequence[str | bytes],
        *,
        search: SearchConfig = DEFAULT_SEARCH,
        sampling: SamplingConfig | None = None,
        prefixes: Sequence[str | bytes] | None = None,
        alignment: AlignmentHead | None = None,
    ) -> list[Translation]:
        """One translation for each line, in order.

        search    beam search, or greedy search with a beam of 1
        sampling  draws instead; lengths and alpha are still those of `search`. The draws depend on
                  the tokens of the line and the seed alone: the same line twice, the same samples
        prefixes  one for each line: what its output begins with ("" for nothing). The first piece
                  of a line that is split gets it. White space at its ends does not count. Not for
                  models that write from right to left
        alignment the head that says which word comes from which, if that is wanted; computed in torch

        Raises FloatingPointError when a model's probabilities are not numbers.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise UserError(f"{len(lines)} lines but {len(prefixes)} prefixes; give one for each")
        read = [read_line(line) for line in lines]
        texts = [text for text, _ in read]
        limit, encode = self.max_source_tokens, self.tokenizer.encode_source
        split = [segment(text, ids, limit, encode) for text, ids in zip(texts, encode(texts), strict=True)]
        begins = self.tokenizer.encode_target([read_line(prefix)[0] for prefix in prefixes or [""] * len(lines)])
        pieces = [
            Piece(source, [] if number else begin)
            for segments, begin in zip(split, begins, strict=True)
            for number, source in enumerate(segments.pieces)
        ]
        if self.tokenizer.right_to_left and any(piece.prefix for piece in pieces):
            raise UserError("a given beginning needs a model that writes from left to right: leave out the prefixes")
        # What cannot align should say so before it has searched.
        aligner = None if alignment is None else self._of_one_model
        if sampling is None:
            found = iter(self._searcher.search(pieces, search))
        else:
            found = iter(self._in_torch.sample(pieces, search, sampling))
        translations, found_tokens = [], []
        for segments, (_, invalid) in zip(split, read, strict=True):
            outputs = [next(found) for _ in segments.pieces]
            found_tokens.append([list(output[0].tokens) for output in outputs])
            alternatives = self._alternatives(outputs)
            translations.append(
                Translation(
                    text=alternatives[0].text if alternatives else "",
                    log_probability=alternatives[0].log_probability if alternatives else 0.0,
                    score=alternatives[0].score if alternatives else 0.0,
                    alternatives=alternatives,
                    pieces=len(segments.pieces),
                    cut=segments.cut,
                    truncated=any(not output[0].finished for output in outputs),
                    invalid_utf8=invalid,
                )
            )
        if alignment is None or aligner is None:
            return translations
        sources = [segments.pieces for segments in split]
        return self._with_alignment(translations, texts, sources, found_tokens, aligner, alignment)

    def translate_stream(
        self,
        lines: Iterable[str | bytes],
        *,
        search: SearchConfig = DEFAULT_SEARCH,
        sampling: SamplingConfig | None = None,
        prefixes: Iterable[str | bytes] | None = None,
        alignment: AlignmentHead | None = None,
    ) -> Iterator[Translation]:
        """One translation for each line, in order, from any number of lines; see `translate`.

        Reads up to 2,000 lines (or a million characters) ahead, so that lines of similar length can
        share a batch; a line may carry its line feed.

        Raises UserError when there are more lines than prefixes, or fewer, where that shows.
        """
        pairs = ((line, "") for line in lines) if prefixes is None else with_prefixes(lines, prefixes)
        for some in portions(pairs):
            yield from self.translate(
                [line for line, _ in some],
                search=search,
                sampling=sampling,
                prefixes=[prefix for _, prefix in some],
                alignment=alignment,
            )

    def score(self, pairs: Sequence[tuple[str, str]], *, length_penalty: float = 1.0) -> list[Score]:
        """The log-probability of each (source, target), in order, each taken as one piece.

        Computed in torch, in float32. For a line in one piece and its translation this is what `translate`
        reports, within the precision of its engine and provided that the tokenizer gives back the tokens which
        the search chose.
        """
        return self._in_torch.score(*self._encode_pairs(pairs), length_penalty)

    def align(self, pairs: Sequence[tuple[str, str]], by: AlignmentHead) -> list[list[Link]]:
        """Which word of each source each word of its target comes from, each pair taken as one piece.

        Computed in torch whatever the engine; so is `alignments_by_head`.
        """
        from dragoman.alignment.links import align, links

        return align(self._of_one_model, self._tokenized(pairs), lambda arrays, pair: links(arrays, pair, by))

    def alignments_by_head(self, pairs: Sequence[tuple[str, str]]) -> list[dict[AlignmentHead, list[Link]]]:
        """For each pair, what every head would say: to choose one."""
        from dragoman.alignment.links import align, alignment_heads, links

        return align(
            self._of_one_model,
            self._tokenized(pairs),
            lambda arrays, pair: {by: links(arrays, pair, by) for by in alignment_heads(arrays)},
        )

    def attention(
        self,
        text: str,
        target: str | None = None,
        *,
        details: bool = True,
        candidates: int = 5,
        without_heads: bool = False,
    ) -> AttentionMap:
        """Every weight of every head while the model reads `text` and writes `target`.

        target         the model's own translation (beam search) when there is none
        details        also queries, keys, values and outputs of the heads, which the page shows
        candidates     so many of the most probable tokens at each position
        without_heads  also what happens without each single head; takes as long as some translations

        Computed in torch whatever the engine. `AttentionMap.save` writes it as a page, a picture or numbers.

        Raises:
            UserError: when there is no text or target, it is longer than the model takes as one piece, or there are
                several models.
        """
        from dragoman.inspection.sentence import attention_map

        text = read_line(text)[0]
        self._check_length("text", text, self.tokenizer.encode_source)
        searcher = self._of_one_model
        translation = self.translate([text])[0].text if target is None else read_line(target)[0]
        self._check_length("translation", translation, self.tokenizer.encode_target)
        return attention_map(
            searcher,
            self.tokenizer,
            text,
            translation,
            details=details,
            candidates=candidates,
            without_heads=without_heads,
        )

    def without(self, attention: AttentionMap, heads: Collection[Head]) -> tuple[str, float]:
        """What the model says to the text of a map with these heads off, and what it gives to the map's translation.

        By greedy search; the log-probability is in nats. `attention` is of this translator.
        """
        from dragoman.inspection import ablation

        [source], [output] = self._encode_pairs([(attention.text, attention.translation)])
        found = ablation.without_all(self.model, source, output, heads)
        [said] = self.tokenizer.decode_target([found.output])
        return clean_line(said), found.log_probability

    def study_heads(
        self, pairs: Sequence[tuple[str, str]], *, tell: Callable[[int, int], None] | None = None
    ) -> HeadStudy:
        """Figures of every head over pairs of (source, target), each taken as one piece; see `HeadStudy`.

        Computed in torch, a pass over the pairs for each head; `tell` hears of passes done, and how many there are.
        Raises UserError when there are no pairs.
        """
        from dragoman.inspection.studies import IdPair, study_heads

        if not pairs:
            raise UserError("no pairs to measure the heads on")
        sources, targets = self._encode_pairs(pairs)
        rows = [
            IdPair(
                source, target, tuple(self.tokenizer.source_texts(source)), tuple(self.tokenizer.target_texts(target))
            )
            for source, target in zip(sources, targets, strict=True)
        ]
        batches = [[rows[i] for i in batch] for batch in self._of_one_model.batches(sources, targets, width=1)]
        right_to_left = self.tokenizer.right_to_left
        return study_heads(self.model, batches, tell=tell or (lambda *_: None), right_to_left=right_to_left)

    @property
    def model(self) -> Seq2Seq:
        """The model in torch.

        Raises UserError when there are several.
        """
        return self._of_one_model.only_model

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether a pair is short enough to be looked at as one piece: at most `max_source_tokens` on either side."""
        return [
            max(len(source), len(target)) <= self.max_source_tokens
            for source, target in zip(*self._encode_pairs(pairs), strict=True)
        ]

    def figures(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Figure]:
        """What the model reports of its own on pairs of (source, target), each taken as one piece.

        Such as the Universal Transformer's steps; empty for most models. See `Seq2Seq.figures`.
        """
        return self._in_torch.figures(*self._encode_pairs(pairs))

    @cached_property
    def _in_torch(self) -> TorchBackend | TwoDirections:
        return self._load_in_torch()

    @property
    def _of_one_model(self) -> TorchBackend:
        """In torch; UserError when there are models of both directions. Of several of one, `only_model` raises it."""
        from dragoman.search.torch_backend import NOT_OF_SEVERAL
        from dragoman.translation.two_directions import TwoDirections

        if isinstance(self._in_torch, TwoDirections):
            raise UserError(NOT_OF_SEVERAL)
        return self._in_torch

    def _check_length(self, what: str, line: str, encode: Callable[[Sequence[str]], list[list[int]]]) -> None:
        [ids] = encode([line])
        if not ids:
            raise UserError(f"the {what} is empty: give one with words in it to see the attention for")
        if len(ids) > self.max_source_tokens:
            raise UserError(
                f"the {what} has {len(ids):,} subwords, and attention is shown for at most {self.max_source_tokens:,}, "
                "the longest of training: give a shorter one, a sentence at a time"
            )

    def _tokenized(self, pairs: Sequence[tuple[str, str]]) -> list[TokenizedPair]:
        from dragoman.alignment.links import TokenizedPair

        encoded = zip(*self._encode_pairs(pairs), strict=True)
        return [TokenizedPair.of(source, target, self.tokenizer) for source, target in encoded]

    def _with_alignment(
        self,
        translations: Sequence[Translation],
        texts: Sequence[str],
        sources: Sequence[Sequence[list[int]]],
        targets: Sequence[Sequence[list[int]]],
        aligner: TorchBackend,
        by: AlignmentHead,
    ) -> list[Translation]:
        """The translations with the alignments of their pieces put together; `texts` are the lines that were read."""
        from dragoman.alignment.links import TokenizedPair, align, links

        pairs = [
            TokenizedPair.of(source, target, self.tokenizer)
            for line in zip(sources, targets, strict=True)
            for source, target in zip(*line, strict=True)
        ]
        found = iter(align(aligner, pairs, lambda arrays, pair: links(arrays, pair, by)))
        aligned = []
        for translation, text, source, target in zip(translations, texts, sources, targets, strict=True):
            said = [clean_line(piece) for piece in self.tokenizer.decode_target(target)]
            starts = zip(
                first_words(text, self.tokenizer.decode_source(source)),
                first_words(translation.text, said),
                strict=True,
            )
            aligned.append(
                replace(
                    translation,
                    alignment=tuple((s + first, t + begin) for first, begin in starts for s, t in next(found)),
                )
            )
        return aligned

    def _encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[list[int]], list[list[int]]]:
        sources = self.tokenizer.encode_source([read_line(source)[0] for source, _ in pairs])
        targets = self.tokenizer.encode_target([read_line(target)[0] for _, target in pairs])
        return sources, targets

    def _alternatives(self, outputs: Sequence[Sequence[Hypothesis]]) -> tuple[Alternative, ...]:
        """The outputs of the pieces of one line, the r-th of each put together, as text."""
        alternatives = []
        # Every rank that all the pieces have; no rank when there is no piece.
        for rank in zip(*outputs, strict=False):
            texts = self.tokenizer.decode_target([hypothesis.tokens for hypothesis in rank])
            alternatives.append(
                Alternative(
                    text=join([clean_line(text) for text in texts]),
                    log_probability=sum(hypothesis.log_probability for hypothesis in rank),
                    score=sum(hypothesis.score for hypothesis in rank),
                )
            )
        return tuple(alternatives)


def _load_in_torch(directories: Sequence[Path], device: str, batch_tokens: int) -> TorchBackend:
    from dragoman.device import choose_device
    from dragoman.models.storage import load_model
    from dragoman.search.torch_backend import TorchBackend

    place = choose_device(device)
    return TorchBackend.from_models([load_model(each).to(place) for each in directories], batch_tokens=batch_tokens)
