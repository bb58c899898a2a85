"""Translators without training: one that copies its input, and one with random weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.data.readers import Pair
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import ModelDescription
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.storage import save_model, weights_of
from dragoman.models.transformer import build_transformer
from dragoman.search.torch_backend import TorchBackend
from dragoman.text.subwords import EOS
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from dragoman.translation.translator import Translator
from tests.support.tiny import tiny

WORDS = ["the", "lamp", "is", "on", "off", "in", "kitchen", "garden", "door", "window"]
WORDS += ["open", "closed", "turn", "light", "please", "wait", "now"]


@cache
def tokenizer() -> Tokenizer:
    """Return a tokenizer of a few English words, with the same vocabulary on both sides."""
    lines = [" ".join(WORDS[i:] + WORDS[: i // 2]) + "." for i in range(len(WORDS))]
    pairs = [Pair(line, line) for line in lines]
    return train_tokenizer(pairs, TokenizerConfig(vocabulary_size=340))


def model_config() -> TransformerConfig:
    """Return the preset `tiny` with one encoder layer and one decoder layer."""
    size = tokenizer().source_size
    return replace(tiny(size, size, joint=True), encoder_layers=1, decoder_layers=1)


@cache
def random_models(count: int) -> tuple[Seq2Seq, ...]:
    """Return Transformers with random weights, scaled so that the output distributions are not uniform."""
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        model = build_transformer(model_config())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.3)
        models.append(model.eval())
    return tuple(models)


def random_translator(models: int = 1, max_source_tokens: int = 20, batch_tokens: int = 200) -> Translator:
    return Translator.from_parts(
        random_models(models),
        tokenizer(),
        max_source_tokens=max_source_tokens,
        batch_tokens=batch_tokens,
    )


@dataclass(frozen=True)
class CopyState:
    source: Tensor  # [N, S]
    position: int

    def reorder(self, rows: Tensor) -> "CopyState":
        return CopyState(self.source[rows], self.position)


class CopyModel:
    """A model that predicts the source tokens and then EOS, each with probability 0.9.

    `read` records the sources.
    """

    def __init__(self) -> None:
        self.models: Sequence[Seq2Seq] = random_models(1)
        self.read: list[list[int]] = []

    def start(self, source: Tensor, mask: Tensor) -> CopyState:
        self.read += [row[real].tolist() for row, real in zip(source, mask, strict=True)]
        return CopyState(source, 0)

    def step(self, token: Tensor, state: CopyState) -> tuple[Tensor, CopyState]:
        N, S = state.source.shape
        # [N]: the source token at this position, EOS after the end
        token_to_copy = state.source[:, state.position] if state.position < S else torch.full((N,), EOS)
        V = tokenizer().target_size
        probability = 0.9 * nn.functional.one_hot(token_to_copy, V) + 0.1 / V
        return probability.log(), CopyState(state.source, state.position + 1)


def copy_translator(max_source_tokens: int = 20) -> tuple[Translator, CopyModel]:
    model = CopyModel()
    translator = Translator(TorchBackend(model, batch_tokens=200), tokenizer(), max_source_tokens=max_source_tokens)
    return translator, model


def write_model(directory: Path, number: int, *, right_to_left: bool) -> Path:
    """Write the model directory of one of three random models; return it."""
    tokenizer().save(directory)
    description = ModelDescription(
        architecture="transformer", model=model_config(), trained_length=20, right_to_left=right_to_left
    )
    save_model(directory, description, weights_of(random_models(3)[number]))
    return directory
