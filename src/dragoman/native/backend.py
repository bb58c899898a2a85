"""Search on the compiled engine: one thread for each core, each with a batch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import CorpusError, SettingsError
from dragoman.models.config.transformer import NORM_EPSILON, TransformerConfig
from dragoman.models.weights import open_weights
from dragoman.native import Build, Precision, cores, obstacle
from dragoman.search.config import DEFAULT_BATCH_TOKENS, LARGEST_BATCH_TOKENS, SearchConfig, check_batch_tokens
from dragoman.search.results import Hypothesis, Piece, require_outputs
from dragoman.text.subwords import BOS, EOS, NEVER_GENERATED

# Sentences in progress in a thread. More of them make larger matrix products, but need more of the processor's cache.
BATCH_SENTENCES = 32
# When there are more cores than sentences, up to MOST_SHARING threads share the products of one sentence, if the model
# has at least SHARED_BYTES of weights: with fewer, waiting for each other takes longer than it saves.
MOST_SHARING, SHARED_BYTES = 8, 16_000_000
MOST_THREADS = 4096


class Shortlist(Protocol):
    """Target tokens by source token; see `translation.shortlist.Shortlist`."""

    @property
    def always(self) -> NDArray[np.int64]: ...

    @property
    def likely(self) -> NDArray[np.int64]: ...

    @property
    def starts(self) -> NDArray[np.int64]: ...


class NativeBackend:
    """One model, its weights packed once for the processor's instructions: a `Backend`.

    A thread works on up to `batch_sentences` sentences at a time, each at its own position; finished ones leave and
    others enter. The result for a sentence does not depend on the others: its numbers are computed in the same order.

    Args:
        directory, config: the model.
        build, precision: what `select_engine` returns.
        threads: None: one for each core.
        batch_sentences, batch_tokens: limits of a thread's batch; the second counts source tokens times the beam. A
            longer sentence is searched for alone.
        shared_bytes: the least size of weights with which several threads share the products of one sentence.
        shortlist: each sentence uses its own part of the vocabulary; probabilities are then among that part.

    Raises:
        SettingsError: when a number is out of range, or the engine does not take the model.
        ModelError: when the weights are missing, damaged, or do not fit the settings.
        FloatingPointError: when they are not numbers.
    """

    def __init__(
        self,
        directory: Path,
        config: TransformerConfig,
        build: Build,
        precision: Precision,
        *,
        threads: int | None = None,
        batch_sentences: int = BATCH_SENTENCES,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        shared_bytes: int = SHARED_BYTES,
        shortlist: Shortlist | None = None,
    ) -> None:
        check_batch_tokens(batch_tokens)
        for name, value, most in (
            ("threads", threads, MOST_THREADS),
            ("batch_sentences", batch_sentences, LARGEST_BATCH_TOKENS),
        ):
            if value is not None and not 1 <= value <= most:
                raise SettingsError(f"{name} must lie between 1 and {most:,}, got {value}")
        if trouble := obstacle(config):
            raise SettingsError(f"the compiled engine does not take this model: {trouble}")
        self.threads = threads or cores()
        self.batch_sentences, self.batch_tokens = batch_sentences, batch_tokens
        self.shared_bytes = shared_bytes
        self._model = _load(directory, config, build, precision)
        self._build, self._precision = build, precision
        self._shortlist = shortlist and self._model.shortlist(shortlist.always, shortlist.likely, shortlist.starts)

    @property
    def description(self) -> str:
        """See `Backend`."""
        shortlist = ", shortlist" if self._shortlist else ""
        return f"compiled for {self._build.instructions}, {self._precision}, {self.threads} threads{shortlist}"

    @property
    def weight_bytes(self) -> int:
        """The memory that the packed weights take."""
        return int(self._model.bytes)

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`.

        Raises:
            CorpusError: when a sentence is longer than the positions that were learned.
            FloatingPointError: when the model computes a number that is not finite.
            ModelError: when there is nothing that the model may say.
        """
        if not pieces:
            return []
        lengths = [len(piece.source) for piece in pieces]
        workers = min(self.threads, len(pieces))
        try:
            found = self._model.search(
                sources=[[*piece.source, EOS] for piece in pieces],
                prefixes=[piece.prefix for piece in pieces],
                minimum=[config.minimum_length(length) for length in lengths],
                maximum=[
                    max(config.maximum_length(length), len(piece.prefix))
                    for length, piece in zip(lengths, pieces, strict=True)
                ],
                beam=config.beam,
                n_best=config.n_best,
                length_penalty=config.length_penalty,
                batch_sentences=self.batch_sentences,
                batch_tokens=self.batch_tokens,
                threads=workers,
                team=min(self.threads // workers, MOST_SHARING) if self.weight_bytes >= self.shared_bytes else 1,
                shortlist=self._shortlist,
            )
        except IndexError as error:
            raise CorpusError(
                f"{error}: split the text, or train with sinusoidal positions or a larger max_positions"
            ) from error
        return require_outputs(
            [
                [
                    Hypothesis(tokens=tuple(tokens), log_probability=log_probability, score=score, finished=finished)
                    for tokens, log_probability, score, finished in hypotheses
                ]
                for hypotheses in found
            ]
        )

    def logits(self, source: Sequence[int], target: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits [T + 1, V] after BOS and after each of T target tokens; EOS is added to the source."""
        logits: NDArray[np.float32] = self._model.logits([*source, EOS], list(target))
        return logits


def _load(directory: Path, config: TransformerConfig, build: Build, precision: Precision) -> Any:
    with open_weights(directory, config) as weights:
        left = set(weights.names)

        def read(name: str) -> NDArray[Any] | None:
            if name not in weights.names:
                return None
            left.discard(name)
            return weights.read(name)

        model = build.module.Model(
            settings=asdict(config) | {"norm_epsilon": NORM_EPSILON},
            special_tokens={"bos": BOS, "eos": EOS, "never_generated": NEVER_GENERATED},
            weights=read,
            precision=precision,
        )
        assert not left, f"the engine did not ask for {min(left)}"
        return model
