"""Loading of the model directory of a language model: its vocabulary and the backend that runs it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import ModelError, SettingsError
from dragoman.generation.backend import LanguageBackend
from dragoman.models.config import TextModelConfig
from dragoman.models.config.language import LanguageConfig
from dragoman.models.description import ModelDescription, load_description, text_model_config
from dragoman.models.registry import kind_of
from dragoman.models.vocabularies import load_vocabulary
from dragoman.native.engine_selection import EngineName, PrecisionName, select_engine
from dragoman.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from dragoman.search.language_backend import TorchLanguageBackend

# Largest memory of a Transformer-XL in tokens; the encodings of all distances are computed in advance.
LARGEST_MEMORY = 1 << 16

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The parts of a `Generator`.

    Attributes:
        backend: the model and the engine that runs it.
        vocabulary: the vocabulary of the model.
        context: number of tokens of the window; None for a model that carries its state.
    """

    backend: LanguageBackend[Any]
    vocabulary: Vocabulary
    context: int | None


def load_parts(
    directory: Path,
    *,
    device: str,
    engine: EngineName,
    precision: PrecisionName,
    threads: int | None,
    context: int | None,
) -> Loaded:
    """Load a language model; arguments and errors are those of `Generator.load`."""
    description = load_description(directory)
    config = language_model_config(description, directory)
    vocabulary = load_vocabulary(directory, description)
    selection = select_engine(engine, precision, device, [config])
    backend: LanguageBackend[Any]
    if selection.build is None:
        backend = _load_in_torch(directory, device, context)
    else:
        from dragoman.generation.native_backend import NativeLanguageBackend
        from dragoman.native.language_backend import NativeLanguageModel

        assert isinstance(config, LanguageConfig), "the native engine supports the Transformer only"
        backend = NativeLanguageBackend(
            NativeLanguageModel(directory, config, selection.build, selection.precision, threads=threads)
        )
    return Loaded(
        backend=backend,
        vocabulary=vocabulary,
        context=None if backend.carries_state else _window(context, config),
    )


def language_model_config(description: ModelDescription, directory: Path) -> TextModelConfig:
    """Return the settings of a language model.

    Raises:
        ModelError: the model is of another kind.
    """
    config = text_model_config(description, directory)
    if kind_of(config) != "language":
        raise ModelError(f"{directory} is an encoder of text, not a language model: use dragoman embed or attention")
    return config


def _load_in_torch(directory: Path, device: str, context: int | None) -> TorchLanguageBackend:
    from dragoman.device import select_device
    from dragoman.models.storage import load_language_model
    from dragoman.models.transformer_xl import TransformerXL
    from dragoman.search.language_backend import TorchLanguageBackend

    model = load_language_model(directory).to(select_device(device))
    if context is None or not model.carries_state:
        return TorchLanguageBackend(model)
    if not isinstance(model, TransformerXL):
        raise SettingsError("this model carries its state through a text of any length: leave out the context")
    if not 1 <= context <= LARGEST_MEMORY:
        raise SettingsError(f"context must lie between 1 and {LARGEST_MEMORY:,} tokens, got {context:,}")
    _report_longer(context, model.memory + model.segment - 1)
    return TorchLanguageBackend(model, partial(model.start, memory=context))


def _window(context: int | None, config: TextModelConfig) -> int:
    """Return the number of tokens of the window."""
    if context is None:
        return max(2, config.context)
    largest = config.max_context
    if largest is not None and context > largest:
        raise SettingsError(
            f"a context of {context:,} tokens is not possible: the model has learned positions for {largest:,} tokens"
        )
    if context < 2:
        raise SettingsError(f"context must be at least 2 tokens, got {context}")
    _report_longer(context, config.context)
    return context


def _report_longer(context: int, trained: int) -> None:
    if context > trained:
        _logger.warning(
            "the context of %s tokens is longer than that of training (%s); predictions beyond it may be worse",
            f"{context:,}",
            f"{trained:,}",
        )
