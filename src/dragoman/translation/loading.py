"""From model directories to a backend and a tokenizer: one model or several, of one direction or both, compiled or not.

The only place that decides which backend serves which models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import ModelError, SettingsError
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import ModelDescription, load_description
from dragoman.native.backend import NativeBackend
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.backend import Backend
from dragoman.translation.compiled import CompiledBackend
from dragoman.translation.engine_selection import EngineName, PrecisionName, select_engine
from dragoman.translation.shortlist import Shortlist

if TYPE_CHECKING:
    from dragoman.search.torch_backend import TorchBackend


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a `Translator` is made of; `trained_length`: the longest sentence that every model has seen in training."""

    backend: Backend
    tokenizer: Tokenizer
    trained_length: int


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
    """Load one model or several; the settings are those of `Translator.load`.

    Raises UserError as `Translator.load` does.
    """
    descriptions = [load_description(each) for each in directories]
    tokenizer = _shared_tokenizer(directories, descriptions)
    configs = [description.model for description in descriptions]
    choice = select_engine(engine, precision, device, configs)
    if choice.build is None:
        if shortlist:
            raise SettingsError(f"a shortlist needs the compiled engine, which cannot be used: {choice.reason}")
        right_to_left = [description.right_to_left for description in descriptions]
        backend = _load_in_torch(directories, right_to_left, device, batch_tokens)
    else:
        [directory], [description], [config] = directories, descriptions, configs
        assert isinstance(config, TransformerConfig), "select_engine gives the compiled engine no other architecture"
        native = NativeBackend(
            directory,
            config,
            choice.build,
            choice.precision,
            threads=threads,
            batch_tokens=batch_tokens,
            shortlist=Shortlist.load(directory, description) if shortlist else None,
        )
        backend = CompiledBackend(native, lambda: _load_torch_backend(directories, device, batch_tokens))
    return Loaded(
        backend=backend,
        tokenizer=tokenizer,
        trained_length=min(description.trained_length for description in descriptions),
    )


def load_tokenizer(directory: Path, description: ModelDescription, *, right_to_left: bool) -> Tokenizer:
    """Load the tokenizer of a model; raise ModelError when it cannot be the one that the model was trained with."""
    tokenizer = Tokenizer.load(directory, right_to_left=right_to_left, digests=description.listed)
    if description.vocabulary_hash not in (None, tokenizer.vocabulary_hash):
        raise ModelError(
            f"the tokenizer in {directory} is damaged, or not the one that the model was trained with: copy the "
            "directory anew"
        )
    model = description.model
    for side, ours, theirs in (
        ("source", tokenizer.source_size, model.source_vocabulary),
        ("target", tokenizer.target_size, model.target_vocabulary),
    ):
        if ours != theirs:
            raise ModelError(
                f"the tokenizer in {directory} is not the model's: of the {side} it has {ours:,} subwords, the model "
                f"{theirs:,}; copy the directory anew"
            )
    return tokenizer


def _shared_tokenizer(directories: Sequence[Path], descriptions: Sequence[ModelDescription]) -> Tokenizer:
    """Load the tokenizer that all models share; raise ModelError when they do not."""
    # Models of both directions meet in the order of the text.
    right_to_left = all(description.right_to_left for description in descriptions)
    first, *others = [
        load_tokenizer(each, description, right_to_left=right_to_left)
        for each, description in zip(directories, descriptions, strict=True)
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
    """Load one model or an ensemble of one direction, or models of both."""
    if len(set(right_to_left)) == 1:
        return _load_torch_backend(directories, device, batch_tokens)
    from dragoman.translation.two_directions import TwoDirections

    forward, backward = (
        [each for each, other in zip(directories, right_to_left, strict=True) if other is wanted]
        for wanted in (False, True)
    )
    return TwoDirections(
        _load_torch_backend(forward, device, batch_tokens), _load_torch_backend(backward, device, batch_tokens)
    )


def _load_torch_backend(directories: Sequence[Path], device: str, batch_tokens: int) -> TorchBackend:
    from dragoman.device import select_device
    from dragoman.models.storage import load_model
    from dragoman.search.torch_backend import TorchBackend

    place = select_device(device)
    return TorchBackend.from_models([load_model(each).to(place) for each in directories], batch_tokens=batch_tokens)
