"""Search by the compiled engine: one thread a core, each with a batch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import UserError
from dragoman.models.config import TransformerConfig
from dragoman.models.weights import open_weights
from dragoman.native import Build, Precision, cores
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, Piece
from dragoman.text.subwords import EOS

# Sentences in progress in a thread. More fill the matrix products better, and push each other out of the cache.
BATCH_SENTENCES = 32
# With cores to spare, threads share a sentence's products, so many at most; but not those of a model that a core's own
# cache nearly holds, where they would wait for each other longer than they help.
MOST_SHARING, SHARED_BYTES = 8, 16_000_000
# Hypotheses are numbered in 16 bits.
WIDEST_BEAM = 65_535


class Shortlist(Protocol):
    """Target tokens by source token; see `translation.shortlist.Shortlist`."""

    @property
    def always(self) -> NDArray[np.int64]: ...

    @property
    def likely(self) -> NDArray[np.int64]: ...

    @property
    def starts(self) -> NDArray[np.int64]: ...


class NativeBackend:
    """One model, its weights packed once for the processor's instructions.

    A thread works on up to `batch_sentences` sentences at a time, each at its own position; those that are done leave
    and others come in. What is found for a sentence does not depend on the others: every number is computed from the
    same numbers in the same order.

    Args:
        directory, config: the model.
        build, precision: as `choose_engine` says.
        threads: None: one for each core.
        batch_sentences, batch_tokens: bounds of a thread's batch; the second counts source tokens times the beam. A
            longer sentence is searched for alone.
        shortlist: each sentence uses its own part of the vocabulary; probabilities are then among that part.

    Raises:
        UserError: when the weights are missing, damaged, or do not fit the settings.
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
        batch_tokens: int = 4096,
        shortlist: Shortlist | None = None,
    ) -> None:
        for name, value in (("threads", threads), ("batch_sentences", batch_sentences), ("batch_tokens", batch_tokens)):
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, got {value}")
        self.threads = threads or cores()
        self.batch_sentences, self.batch_tokens = batch_sentences, batch_tokens
        self._model = _load(directory, config, build, precision)
        self._build, self._precision = build, precision
        self._shortlist = shortlist and build.module.Shortlist(
            shortlist.always, shortlist.likely, shortlist.starts, config.target_vocabulary
        )

    @property
    def description(self) -> str:
        """See `Backend`."""
        shortlist = ", shortlist" if self._shortlist else ""
        return f"compiled for {self._build.instructions}, {self._precision}, {self.threads} threads{shortlist}"

    @property
    def weight_bytes(self) -> int:
        """Memory that the packed weights take."""
        return int(self._model.bytes)

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`.

        Raises:
            UserError: when a sentence is longer than the positions that were learned, or the beam too wide.
            FloatingPointError: when a probability is not a number.
        """
        if not pieces:
            return []
        if config.beam > WIDEST_BEAM:
            raise UserError(f"the compiled engine takes a beam of at most {WIDEST_BEAM:,}, got {config.beam:,}")
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
                team=min(self.threads // workers, MOST_SHARING) if self.weight_bytes >= SHARED_BYTES else 1,
                shortlist=self._shortlist,
            )
        except IndexError as error:
            raise UserError(
                f"{error}: split the text, or train with sinusoidal positions or a larger max_positions"
            ) from error
        return [
            [
                Hypothesis(tokens=tuple(tokens), log_probability=log_probability, score=score, finished=own_end)
                for tokens, log_probability, score, own_end in hypotheses
            ]
            for hypotheses in found
        ]

    def logits(self, source: Sequence[int], target: Sequence[int]) -> NDArray[np.float32]:
        """Logits [T + 1, V] of what follows BOS and each of T target tokens; EOS is added to the source."""
        logits: NDArray[np.float32] = self._model.logits([*source, EOS], list(target))
        return logits


def _load(directory: Path, config: TransformerConfig, build: Build, precision: Precision) -> Any:
    with open_weights(directory) as weights:
        left = set(weights.names)

        def read(name: str) -> NDArray[Any] | None:
            if name not in weights.names:
                return None
            left.discard(name)
            values = weights.read(name)
            if not np.isfinite(values).all():
                raise FloatingPointError(
                    f"the weights in {directory} are no numbers ({name}): its training diverged or they are damaged"
                )
            return values

        model = build.module.Model(asdict(config), read, precision)
        if left:
            raise ValueError(f"it has {len(left)} unknown weights, {min(left)} first")
        return model
