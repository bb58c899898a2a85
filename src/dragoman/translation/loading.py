"""Loading of model directories: a tokenizer and the backend for one or several models.

Only this module decides which backend is used for which models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import ModelError, SettingsError
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import ModelDescription, load_description
from dragoman.models.vocabularies import load_tokenizer
from dragoman.native.backend import NativeBackend
from dragoman.native.engine_selection import EngineName, PrecisionName, select_engine
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.backend import Backend
from dragoman.translation.confidence import Confidence
from dragoman.translation.hybrid_backend import HybridBackend
from dragoman.translation.shortlist import Shortlist

if TYPE_CHECKING:
    from dragoman.search.torch_backend import TorchBackend


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The parts of a `Translator`.

    Attributes:
        backend: the models and the engine that runs them.
        tokenizer: the tokenizer of the models.
        trained_length: number of tokens of the longest sentence that every model has seen in training.
        confidence: how probable it is that a translation is good; None for several models, and if it was not fitted.
    """

    backend: Backend
    tokenizer: Tokenizer
    trained_length: int
    confidence: Confidence | None


def load_parts(
    directories: Sequence[Path],
    *,
    device: str,
    engine: EngineName,
    precision: PrecisionName,
    threads: int | None,
    shortlist: bool,
    batch_tokens: int,
) -> Loaded:
    """Load one model or several; arguments and errors are those of `Translator.load`."""
    descriptions = [load_description(directory) for directory in directories]
    tokenizer = _shared_tokenizer(directories, descriptions)
    configs = [description.model for description in descriptions]
    # Probabilities of an ensemble are others than those of its models.
    confidence = Confidence.load(directories[0], descriptions[0]) if len(directories) == 1 else None
    selection = select_engine(engine, precision, device, configs)
    if selection.build is None:
        if shortlist:
            raise SettingsError(f"a shortlist needs the native engine, but {selection.reason}")
        right_to_left = [description.right_to_left for description in descriptions]
        backend = _load_in_torch(directories, right_to_left, device, batch_tokens)
    else:
        [directory], [description], [config] = directories, descriptions, configs
        assert isinstance(config, TransformerConfig), "the native engine supports the Transformer only"
        native = NativeBackend(
            directory,
            config,
            selection.build,
            selection.precision,
            threads=threads,
            batch_tokens=batch_tokens,
            shortlist=Shortlist.load(directory, description) if shortlist else None,
        )
        backend = HybridBackend(native, lambda: _load_torch_backend(directories, device, batch_tokens))
    return Loaded(
        backend=backend,
        tokenizer=tokenizer,
        trained_length=min(description.trained_length for description in descriptions),
        confidence=confidence,
    )


def _shared_tokenizer(directories: Sequence[Path], descriptions: Sequence[ModelDescription]) -> Tokenizer:
    """Load the tokenizer that all models share; raise ModelError if they do not share one."""
    # With models of both directions, targets are in the order of the text.
    right_to_left = all(description.right_to_left for description in descriptions)
    first, *others = [
        load_tokenizer(directory, description, right_to_left=right_to_left)
        for directory, description in zip(directories, descriptions, strict=True)
    ]
    for directory, other in zip(directories[1:], others, strict=True):
        if other.vocabulary_hash != first.vocabulary_hash:
            raise ModelError(
                f"{directory} and {directories[0]} have different vocabularies; an ensemble needs models "
                "that were trained with the same tokenizer"
            )
    return first


def _load_in_torch(
    directories: Sequence[Path], right_to_left: Sequence[bool], device: str, batch_tokens: int
) -> Backend:
    """Load models of one direction, or of both directions, in torch."""
    if len(set(right_to_left)) == 1:
        return _load_torch_backend(directories, device, batch_tokens)
    from dragoman.translation.two_directions import TwoDirections

    forward, backward = (
        [directory for directory, backward in zip(directories, right_to_left, strict=True) if backward is direction]
        for direction in (False, True)
    )
    return TwoDirections(
        _load_torch_backend(forward, device, batch_tokens), _load_torch_backend(backward, device, batch_tokens)
    )


def _load_torch_backend(directories: Sequence[Path], device: str, batch_tokens: int) -> TorchBackend:
    from dragoman.device import select_device
    from dragoman.models.storage import load_model
    from dragoman.search.torch_backend import TorchBackend

    torch_device = select_device(device)
    models = [load_model(directory).to(torch_device) for directory in directories]
    return TorchBackend.from_models(models, batch_tokens=batch_tokens)
