"""Loading of model directories of any kind for the representation of text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from dragoman.device import select_device
from dragoman.models.config import ModelConfig
from dragoman.models.description import load_description
from dragoman.models.registry import Kind, kind_of
from dragoman.models.storage import load_encoder, load_labelled_model, load_language_model, load_model
from dragoman.models.vocabularies import load_tokenizer, load_vocabulary
from dragoman.text.subwords import BOS, EOS


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A model that reads texts, and its vocabulary.

    Attributes:
        kind: kind of the model.
        model: the model.
        encode: returns the token ids of texts, without special symbols.
        texts: returns the text of each token of a row; see `TokenModel.texts`.
        decode: returns the text of rows of ids.
        before: symbols before the tokens of a text.
        after: symbols after them.
        context: largest number of tokens that are read together, including these symbols.
    """

    kind: Kind
    model: nn.Module
    encode: Callable[[Sequence[str]], list[list[int]]]
    texts: Callable[[Sequence[int]], list[str]]
    decode: Callable[[Sequence[Sequence[int]]], list[str]]
    before: tuple[int, ...]
    after: tuple[int, ...]
    context: int

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device


def load_reader(directory: Path, device: str) -> Reader:
    """Load a model directory; errors are those of `Embedder.load`."""
    torch_device = select_device(device)
    description = load_description(directory)
    config: ModelConfig = description.model
    kind = kind_of(config)
    if kind == "seq2seq":
        tokenizer = load_tokenizer(directory, description, right_to_left=description.right_to_left)
        # As in training, EOS ends a source, and is one more token than `trained_length`.
        return Reader(
            kind=kind,
            model=load_model(directory).to(torch_device),
            encode=tokenizer.encode_source,
            texts=tokenizer.source_texts,
            decode=tokenizer.decode_source,
            before=(),
            after=(EOS,),
            context=description.trained_length + 1,
        )
    vocabulary = load_vocabulary(directory, description)
    model: nn.Module
    if kind == "language":
        model = load_language_model(directory)
    else:
        model = load_encoder(directory) if kind == "encoder" else load_labelled_model(directory).encoder
    return Reader(
        kind=kind,
        model=model.to(torch_device),
        encode=vocabulary.encode,
        texts=vocabulary.texts,
        decode=vocabulary.decode,
        before=(BOS,),
        # A language model reads no token after the last one of a text.
        after=() if kind == "language" else (EOS,),
        context=max(description.trained_length, 3),
    )
