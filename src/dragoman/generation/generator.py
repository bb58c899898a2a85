"""`Generator`: continue and evaluate text with language models."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from dragoman.errors import CorpusError, SettingsError
from dragoman.generation.backend import LanguageBackend
from dragoman.generation.loading import load_parts
from dragoman.generation.results import End, Evaluation, Generation, Piece
from dragoman.generation.writing import Writer, check_stops
from dragoman.native.engine_selection import EngineName, PrecisionName
from dragoman.search.config import ContinuationConfig
from dragoman.search.continuation import Continuation, ContinuationModel, Window
from dragoman.text.characters import replace_surrogates
from dragoman.text.subwords import BOS, EOS
from dragoman.text.vocabulary import LONGEST_PART, Vocabulary

if TYPE_CHECKING:
    from dragoman.data.texts import Part
    from dragoman.models.language_model import LanguageModel

# Tokens are written in groups that take about this many seconds.
GROUP_SECONDS = 0.02
DEFAULT_CONTINUATION = ContinuationConfig()

_logger = logging.getLogger(__name__)


class Generator:
    """Writer of text that follows a prompt, with one language model; also measures how well it predicts text.

    `Generator.load` reads a model directory; the constructor is for backends that exist already.

    The model reads at most `context` tokens in sequence: by default as many as in training. When a text fills this
    window, the model starts again with the last half of it, and what is before is forgotten. Therefore a text may have
    any length. The same holds for a prompt: of one that is longer than the window, the last half of a window is read.
    Models with recurrence (an LSTM, Transformer-XL) carry their state through a text of any length instead, and have no
    window.

    Args:
        backend: the model and the engine that runs it.
        vocabulary: the vocabulary of the model.
        context: number of tokens of the window; None for a model that carries its state.

    Example:
        >>> from dragoman import Generator
        >>> generator = Generator.load("models/shakespeare")
        >>> [generation] = generator.generate("ROMEO:")
        >>> text = generation.text
    """

    def __init__(self, backend: LanguageBackend[Any], vocabulary: Vocabulary, *, context: int | None) -> None:
        assert (context is None) == backend.carries_state
        self.backend = backend
        self.vocabulary = vocabulary
        self.context = context
        self._longest_token = max(map(len, vocabulary.token_bytes))
        self._reported_full = False

    @classmethod
    def load(
        cls,
        directory: Path | str,
        *,
        device: str = "auto",
        engine: EngineName = "auto",
        precision: PrecisionName = "auto",
        threads: int | None = None,
        context: int | None = None,
    ) -> Self:
        """Load the language model of a model directory.

        Args:
            directory: the model directory, as `dragoman train --task language` writes it.
            device: a torch device ("cpu", "cuda:1"), or "auto": the first GPU if there is one, else the CPU.
            engine: "native" (compiled C++, on a CPU), "torch" (any model and device), or "auto": native where possible,
                else torch.
            precision: of the native engine: "fp32", "bf16", "int8", or "auto": the fastest on this processor.
            threads: number of threads of the native engine. Defaults to one per core.
            context: number of tokens of the window; of a Transformer-XL, length of its memory. Defaults to that of
                training. A longer one is possible and reported with sinusoidal, rotary, relative or no positions; with
                learned positions, up to their number.

        Returns:
            The generator.

        Raises:
            ModelError: if the directory is not that of a language model, or is damaged.
            SettingsError: if the device, engine, precision or context is not available.

        Example:
            >>> from dragoman import Generator
            >>> generator = Generator.load("models/shakespeare", engine="torch", device="cpu")
            >>> generator.context
            16
        """
        loaded = load_parts(
            Path(directory), device=device, engine=engine, precision=precision, threads=threads, context=context
        )
        return cls(loaded.backend, loaded.vocabulary, context=loaded.context)

    @classmethod
    def from_parts(cls, model: LanguageModel, vocabulary: Vocabulary, *, context: int) -> Self:
        """Return a generator that runs a model which is already in memory, with the torch engine.

        The model stays on its device. It is in evaluation mode only while it runs: a model can also be used between the
        steps of its training.

        Args:
            model: the language model.
            vocabulary: the vocabulary of the model.
            context: number of tokens of the window; not used by a model that carries its state.

        Example:
            >>> from pathlib import Path
            >>> from dragoman import Generator
            >>> from dragoman.models.storage import load_language_model
            >>> from dragoman.text.vocabulary import Vocabulary
            >>> directory = Path("models/shakespeare")
            >>> model, vocabulary = load_language_model(directory), Vocabulary.load(directory)
            >>> Generator.from_parts(model, vocabulary, context=16).engine
            'torch, float32, cpu'
        """
        from dragoman.search.language_backend import TorchLanguageBackend

        backend = TorchLanguageBackend(model)
        return cls(backend, vocabulary, context=None if backend.carries_state else context)

    @property
    def engine(self) -> str:
        """A short description of the engine, its precision and its threads or device."""
        return self.backend.description

    def generate(
        self,
        prompt: str | bytes = "",
        config: ContinuationConfig = DEFAULT_CONTINUATION,
        *,
        stop: Sequence[str] = (),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Generation]:
        """Return continuations of a prompt.

        Args:
            prompt: the beginning of the text, as text or UTF-8 bytes; nothing is removed from its end. Bytes that are
                not UTF-8 become U+FFFD. Without a prompt the model begins a document.
            config: settings of sampling, greedy search or beam search.
            stop: strings that end a continuation; the first that occurs is not part of it. Beam search does not
                consider them: its outputs are cut.
            on_progress: called with the number of tokens of the longest continuation so far; not by beam search.

        Returns:
            The samples in the order in which they were drawn, or the outputs of the search, best first.

        Raises:
            SettingsError: if a stop string is empty or too long.
            FloatingPointError: if the model computes probabilities that are not finite.

        Example:
            >>> from dragoman import Generator
            >>> from dragoman.search.config import ContinuationConfig, SamplingConfig
            >>> generator = Generator.load("models/shakespeare")
            >>> config = ContinuationConfig(max_tokens=20, sampling=SamplingConfig(temperature=0.8, samples=2))
            >>> generations = generator.generate("ROMEO:", config, stop=["JULIET:"])
            >>> len(generations)
            2
        """
        complete: dict[int, Generation] = {}
        written = [0] * config.outputs
        for piece in self.stream(prompt, config, stop=stop):
            if piece.generation is not None:
                complete[piece.number] = piece.generation
            if on_progress is not None:
                written[piece.number] += piece.tokens
                on_progress(max(written))
        return [complete[number] for number in sorted(complete)]

    def stream(
        self,
        prompt: str | bytes = "",
        config: ContinuationConfig = DEFAULT_CONTINUATION,
        *,
        stop: Sequence[str] = (),
    ) -> Iterator[Piece]:
        """Yield the continuations of a prompt in pieces, as soon as their text is certain.

        The bytes of an incomplete character, and what may be the beginning of a stop string, are held until the
        continuation shows what they are. With several samples, pieces of different samples alternate. Beam search
        yields each of its outputs in one piece.

        Args:
            prompt: see `generate`.
            config: see `generate`.
            stop: see `generate`.

        Returns:
            An iterator over the pieces; the last piece of each continuation contains the complete one.

        Raises:
            SettingsError: while iterating, as `generate` does.
            FloatingPointError: while iterating, as `generate` does.

        Example:
            >>> from dragoman import Generator
            >>> generator = Generator.load("models/shakespeare")
            >>> text = "".join(piece.text for piece in generator.stream("ROMEO:"))
        """
        check_stops(stop)
        ids = self._prompt(prompt)
        with self.backend.watching():
            if config.beam is not None and config.beam > 1:
                yield from self._search(ids, config, stop)
            else:
                yield from self._extend(ids, config, stop)

    def evaluate(
        self,
        text: str | Iterable[Part],
        *,
        stride: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Evaluation:
        """Measure how well the model predicts a text.

        The text is read in windows of `context` tokens. Each window ends `stride` tokens after the one before it, and
        these tokens are scored. Thus each token is predicted from more than `context` - `stride` tokens, unless there
        are fewer before it. A model that carries its state reads each document once, without
        windows.

        Args:
            text: one document, or documents in parts, from `dragoman.data.texts.read_texts`.
            stride: from 1, the most exact, to `context`, the fastest. Defaults to half the context.
            on_progress: called with the number of tokens scored so far, and the number of all tokens.

        Returns:
            Losses per token, character and byte.

        Raises:
            CorpusError: if the text is empty.
            SettingsError: if the stride is out of range, or given for a model that carries its state.
            FloatingPointError: if the model computes probabilities that are not finite.

        Example:
            >>> from dragoman import Generator
            >>> generator = Generator.load("models/shakespeare")
            >>> evaluation = generator.evaluate("To be, or not to be: that is the question.", stride=4)
            >>> evaluation.stride
            4
        """
        from dragoman.data.texts import BLOCK, Part
        from dragoman.data.token_stream import prepare_stream
        from dragoman.generation.evaluation import evaluate_stream

        stride = self._checked_stride(stride)
        if isinstance(text, str):
            if not text:
                raise CorpusError("the text is empty: there is nothing to evaluate")
            whole = replace_surrogates(text)
            text = (Part(whole[at : at + BLOCK], at + BLOCK >= len(whole)) for at in range(0, len(whole), BLOCK))
        with TemporaryDirectory(prefix="dragoman-") as directory:
            stream = prepare_stream(text, self.vocabulary, Path(directory) / "text")
            return evaluate_stream(self.backend, stream, self.context, stride, on_progress)

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return the natural logarithm of the probability of each text as a whole document.

        Each token is predicted from all tokens before it, as far as the window allows; the end of the text is
        predicted, too.

        Args:
            texts: the texts, none of which is empty.

        Raises:
            CorpusError: if a text is empty.
            FloatingPointError: if the model computes probabilities that are not finite.

        Example:
            >>> from dragoman import Generator
            >>> generator = Generator.load("models/shakespeare")
            >>> first, second = generator.score(["To be, or not to be", "oT eb ,ro ton ot eb"])
        """
        stride = None if self.context is None else 1
        return [-self.evaluate(text, stride=stride).nats for text in texts]

    def _prompt(self, prompt: str | bytes) -> list[int]:
        """Return BOS and the ids of the prompt; of a prompt that is much longer than the window, those of its end."""
        text = prompt.decode(errors="replace") if isinstance(prompt, bytes) else replace_surrogates(prompt)
        if self.context is not None:
            # At least two windows, and two parts that are segmented one by one.
            longest = 2 * self.context * self._longest_token + 2 * LONGEST_PART
            text = text[-longest:]
        [ids] = self.vocabulary.encode([text])
        return [BOS, *ids]

    def _model(self) -> ContinuationModel[Any]:
        return self.backend if self.context is None else Window(self.backend, self.context, self._report_full)

    def _report_full(self) -> None:
        if not self._reported_full:
            self._reported_full = True
            assert self.context is not None
            _logger.warning(
                "the text is longer than the context of %s tokens: whenever the context is full, the model reads its "
                "last %s tokens again and forgets what is before them",
                f"{self.context:,}",
                f"{self.context // 2:,}",
            )

    def _extend(self, ids: Sequence[int], config: ContinuationConfig, stops: Sequence[str]) -> Iterator[Piece]:
        continuation = Continuation(self._model(), ids, config)
        texts = [_Text(number, Writer(self.vocabulary.decoder(), stops)) for number in range(config.outputs)]
        left, group = config.max_tokens, 1
        while continuation.running:
            began = time.perf_counter()
            extended = continuation.advance(min(group, left))
            group = _next_group(group, time.perf_counter() - began)
            left -= max(len(tokens) for _, tokens, _ in extended)
            for row, tokens, log_probabilities in extended:
                piece = texts[row].add(tokens, log_probabilities, last=left == 0)
                if piece.generation is not None:
                    continuation.end([row])
                yield piece

    def _search(self, ids: Sequence[int], config: ContinuationConfig, stops: Sequence[str]) -> Iterator[Piece]:
        from dragoman.search.continuation_beam import continue_by_beam_search

        for number, hypothesis in enumerate(continue_by_beam_search(self._model(), ids, config)):
            writer = Writer(self.vocabulary.decoder(), stops)
            for token in hypothesis.tokens:
                writer.write(token)
                if writer.stopped:
                    break
            writer.end()
            end: End = "stop" if writer.stopped else "model" if hypothesis.finished else "length"
            generation = Generation(
                text=writer.text,
                tokens=len(hypothesis.tokens),
                log_probability=hypothesis.log_probability,
                end=end,
            )
            yield Piece(number=number, text=writer.text, tokens=len(hypothesis.tokens), generation=generation)

    def _checked_stride(self, stride: int | None) -> int | None:
        if self.context is None:
            if stride is not None:
                raise SettingsError("this model carries its state through the text, without windows: leave out stride")
            return None
        if stride is None:
            return max(1, self.context // 2)
        if not 1 <= stride <= self.context:
            raise SettingsError(f"stride must lie between 1 and the context of {self.context:,} tokens, got {stride:,}")
        return stride


class _Text:
    """One continuation while it is written."""

    def __init__(self, number: int, writer: Writer) -> None:
        self._number, self._writer = number, writer
        self._tokens, self._log_probability = 0, 0.0

    def add(self, tokens: Sequence[int], log_probabilities: Sequence[float], *, last: bool) -> Piece:
        """Return the next piece; `last` is True if the largest number of tokens has been reached."""
        text, count = "", 0
        end: End | None = "length" if last else None
        for token, log_probability in zip(tokens, log_probabilities, strict=True):
            self._log_probability += log_probability
            if token == EOS:
                end = "model"
                break
            count += 1
            text += self._writer.write(token)
            if self._writer.stopped:
                end = "stop"
                break
        self._tokens += count
        if end is None:
            return Piece(number=self._number, text=text, tokens=count)
        text += self._writer.end()
        generation = Generation(
            text=self._writer.text,
            tokens=self._tokens,
            log_probability=self._log_probability,
            end="stop" if self._writer.stopped else end,
        )
        return Piece(number=self._number, text=text, tokens=count, generation=generation)


def _next_group(group: int, seconds: float) -> int:
    """Return how many tokens to write together next, after a group that took this long."""
    if seconds < GROUP_SECONDS / 2:
        return 2 * group
    return max(1, group // 2) if seconds > 2 * GROUP_SECONDS else group
