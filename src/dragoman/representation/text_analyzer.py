"""`TextAnalyzer`: the attention of language models and encoders on a text, and measurements of their heads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dragoman.errors import CorpusError, ModelError
from dragoman.representation.loading import Reader, load_reader

if TYPE_CHECKING:
    from dragoman.attention_page.kinds import Head
    from dragoman.attention_page.map import AttentionMap
    from dragoman.attention_page.statistics import HeadMeasurements
    from dragoman.data.texts import Part
    from dragoman.inspection.recording import TextModel

# Number of positions in a batch of texts whose attention is captured; the weights of all heads are in memory.
POSITIONS_AT_ONCE = 4096


class TextAnalyzer:
    """Analyses how a language model or an encoder reads texts. Everything is computed in torch.

    Args:
        reader: the model and its vocabulary.

    Example:
        >>> from dragoman.representation.text_analyzer import TextAnalyzer
        >>> analyzer = TextAnalyzer.load("models/shakespeare")
        >>> attention = analyzer.attention("ROMEO:")
        >>> attention.target
        ('<s>', 'R', 'O', 'M', 'E', 'O', ':')
    """

    def __init__(self, reader: Reader) -> None:
        assert reader.kind != "seq2seq", "pairs are analysed by Translator"
        self._reader = reader

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto") -> Self:
        """Load the language model or the encoder of a model directory.

        Args:
            directory: the model directory.
            device: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".

        Raises:
            ModelError: it is not the directory of such a model, or is damaged.
            SettingsError: the device is not available.

        Example:
            >>> from dragoman.representation.text_analyzer import TextAnalyzer
            >>> TextAnalyzer.load("models/shakespeare", device="cpu").max_tokens
            15
        """
        reader = load_reader(Path(directory), device)
        if reader.kind == "seq2seq":
            raise ModelError(f"{directory} is a translation model: use Translator.attention")
        return cls(reader)

    @property
    def model(self) -> TextModel:
        """The model, in torch."""
        model: TextModel = self._reader.model  # type: ignore[assignment]
        return model

    @property
    def max_tokens(self) -> int:
        """Largest number of tokens of a text, without special symbols: as in the windows of training."""
        return self._reader.context - len(self._reader.before) - len(self._reader.after)

    def attention(
        self, text: str, *, details: bool = True, candidates: int = 5, without_heads: bool = False
    ) -> AttentionMap:
        """Return the attention weights of every head while the model reads a text, and what the model predicts.

        A language model predicts the next token after each token. An encoder predicts each token from the others, in a
        copy of the text in which it is masked; its attention is that on the text without masks.

        Args:
            text: the text.
            details: also record queries, keys, values and outputs of the heads, which the page shows.
            candidates: number of most probable tokens to record for each prediction.
            without_heads: also predict without each single head; an encoder reads as many copies as there are tokens.

        Returns:
            The attention map.

        Raises:
            CorpusError: if the text is empty, or has more than `max_tokens` tokens.
            ModelError: if the model has no attention.

        Example:
            >>> from dragoman.representation.text_analyzer import TextAnalyzer
            >>> analyzer = TextAnalyzer.load("models/shakespeare")
            >>> attention = analyzer.attention("ROMEO:", candidates=2)
            >>> attention.save("attention.html")
            >>> layers, heads, T, S = attention.decoder_self.weights.shape
            >>> T == S == len(attention.target) == len(attention.candidates)
            True
        """
        from dragoman.inspection.text_map import text_attention_map

        return text_attention_map(
            self.model,
            self._row(text),
            text,
            self._reader.texts,
            self._reader.decode,
            details=details,
            candidates=candidates,
            without_heads=without_heads,
        )

    def predict_without(self, attention: AttentionMap, heads: Collection[Head]) -> tuple[str, float]:
        """Predict the tokens of the text of an attention map with some heads switched off.

        Args:
            attention: a map that `attention` returned for this model, with a log-probability.
            heads: the heads to switch off.

        Returns:
            The most probable token at each position, as text, and the log-probability (in nats) of the map's text, both
            without the heads.

        Example:
            >>> from dragoman.attention_page.kinds import Head
            >>> from dragoman.representation.text_analyzer import TextAnalyzer
            >>> analyzer = TextAnalyzer.load("models/shakespeare")
            >>> attention = analyzer.attention("ROMEO:")
            >>> predicted, log_probability = analyzer.predict_without(attention, [Head("decoder_self", 0, 1)])
            >>> change = log_probability - attention.log_probability
        """
        from dragoman.inspection.text_map import predict_without

        return predict_without(self.model, self._row(attention.text), heads, self._reader.decode)

    def windows(self, parts: Iterable[Part], limit: int) -> list[list[int]]:
        """Return the first windows of documents, as long as those of training, with special symbols.

        As in training, a window of a language model begins with BOS if a document begins there.

        Args:
            parts: the documents, from `data.texts.read_texts`.
            limit: largest number of windows.

        Raises:
            CorpusError: if there is no text of at least two tokens.
        """
        is_causal = self._reader.kind == "language"
        size = self._reader.context if is_causal else self.max_tokens
        before, after = list(self._reader.before), list(self._reader.after)
        windows: list[list[int]] = []
        begins = True
        for text, ends in parts:
            [ids] = self._reader.encode([text])
            row = [*before, *ids] if is_causal and begins else ids
            for start in range(0, len(row), size):
                piece = row[start : start + size]
                windows.append(piece if is_causal else [*before, *piece, *after])
                # A language model predicts nothing in a window of one token.
                if len(windows[-1]) < 2:
                    windows.pop()
                if len(windows) == limit:
                    return windows
            begins = ends
        if not windows:
            raise CorpusError("there is no text of at least two tokens to measure the heads on")
        return windows

    def measure_heads(
        self, windows: Sequence[list[int]], *, on_progress: Callable[[int, int], None] | None = None
    ) -> HeadMeasurements:
        """Measure every attention head over windows of text: what it attends to, and how the loss changes without it.

        Makes one pass over the windows for each head, and two more.

        Args:
            windows: the windows, from `windows`.
            on_progress: called after each pass with the number of passes done and the number of all passes.

        Returns:
            The measurements; see `HeadMeasurements`.

        Raises:
            ModelError: if the model has no attention, or is an encoder that predicts no tokens.

        Example:
            >>> from dragoman.data.texts import find_texts, read_texts
            >>> from dragoman.representation.text_analyzer import TextAnalyzer
            >>> analyzer = TextAnalyzer.load("models/shakespeare")
            >>> windows = analyzer.windows(read_texts(find_texts(["letter.txt"])), limit=2)
            >>> analyzer.measure_heads(windows).sentences
            2
        """
        from dragoman.inspection.head_measurements import IdText, measure_heads_on_texts

        batches = [[IdText(row, tuple(self._reader.texts(row))) for row in batch] for batch in _batches(windows)]
        return measure_heads_on_texts(self.model, batches, on_progress=on_progress or (lambda *_: None))

    def loss_without(self, windows: Sequence[list[int]], heads: Collection[Head]) -> float:
        """Return the loss in nats per predicted token with some heads switched off; see `measure_heads`."""
        from dragoman.inspection.heads import heads_off
        from dragoman.inspection.text_predictions import predictions_of_corpus, target_log_probability

        corpus = [predictions_of_corpus(self.model, batch) for batch in _batches(windows)]
        with heads_off(self.model, [heads]):
            total = sum(target_log_probability(self.model, predictions) for predictions in corpus)
        return -total / sum(len(predictions.targets) for predictions in corpus)

    def _row(self, text: str) -> list[int]:
        """Return the ids of a text, with special symbols; raise CorpusError if it is empty or too long."""
        [ids] = self._reader.encode([text])
        if not ids:
            raise CorpusError("the text is empty: give one with words in it to see the attention for")
        if len(ids) > self.max_tokens:
            raise CorpusError(
                f"the text has {len(ids):,} tokens, and attention is shown for at most {self.max_tokens:,}, the length "
                "of the windows of text in training: give a shorter one"
            )
        return [*self._reader.before, *ids, *self._reader.after]


def _batches(rows: Sequence[list[int]]) -> list[list[list[int]]]:
    """Divide rows into batches of similar lengths."""
    batches: list[list[list[int]]] = [[]]
    for row in sorted(rows, key=len):
        if batches[-1] and (len(batches[-1]) + 1) * len(row) > POSITIONS_AT_ONCE:
            batches.append([])
        batches[-1].append(row)
    return batches
