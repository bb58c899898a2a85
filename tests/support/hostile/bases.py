"""Undamaged model directories of different kinds of models, small enough for thousands of copies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.alignment.heads import AlignmentHead
from dragoman.data.readers import Pair
from dragoman.models.config import Seq2SeqConfig
from dragoman.models.config.convolutional import ConvolutionalConfig
from dragoman.models.config.recurrent import RecurrentConfig
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.config.universal import UniversalConfig
from dragoman.models.description import ModelDescription
from dragoman.models.quantization import quantize_model
from dragoman.models.registry import architecture_of, build_model
from dragoman.models.storage import save_model, weights_of
from dragoman.text.subwords import EOS
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from dragoman.translation.shortlist import Shortlist
from tests.support.small_translator import WORDS

# The directories of models that the native engine supports.
COMPILED = ("post", "gated, rotary, untied", "learned, two-way", "int8")


def write_bases(folder: Path) -> None:
    """Write all undamaged directories below `folder`.

    Computes in torch, so a process that forks later must call it in another process.
    """
    torch.set_num_threads(1)
    lines = [" ".join(WORDS[i:] + WORDS[: i // 2]) + "." for i in range(len(WORDS))]
    pairs = [Pair(line, line.upper()) for line in lines]
    joint = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=340))
    separate = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=320, joint=False))
    post = TransformerConfig(
        source_vocabulary=joint.source_size,
        target_vocabulary=joint.target_size,
        encoder_layers=1,
        decoder_layers=2,
        d_model=16,
        heads=2,
        d_ff=24,
    )
    sizes: dict[str, Any] = {"source_vocabulary": joint.source_size, "target_vocabulary": joint.target_size}
    own_sizes: dict[str, Any] = {"source_vocabulary": separate.source_size, "target_vocabulary": separate.target_size}
    gated = replace(
        post,
        **own_sizes,
        norm_placement="pre",
        norm="rms",
        activation="swiglu",
        positions="rotary",
        tied_embeddings="none",
        attention_bias=True,
    )
    _write(folder / "post", post, joint)
    _write(folder / "gated, rotary, untied", gated, separate)
    _write(
        folder / "learned, two-way",
        replace(post, positions="learned", max_positions=64, tied_embeddings="two-way", activation="gelu"),
        joint,
    )
    quantize_model(folder / "post", folder / "int8")
    _write(
        folder / "relative, batch norm",
        replace(post, positions="relative", max_distance=5, norm="batch", d_k=6, activation="geglu"),
        joint,
    )
    _write(folder / "recurrent", RecurrentConfig(**sizes, encoder_layers=1, decoder_layers=1, d_model=16), joint)
    _write(
        folder / "convolutional",
        ConvolutionalConfig(**sizes, encoder_layers=1, decoder_layers=1, d_model=16, max_positions=64),
        joint,
    )
    _write(
        folder / "universal",
        UniversalConfig(**sizes, encoder_steps=2, decoder_steps=2, halting="adaptive", d_model=16, heads=2, d_ff=24),
        joint,
    )


def _write(directory: Path, config: Seq2SeqConfig, tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    model = build_model(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)
    tokenizer.save(directory)
    save_model(
        directory,
        ModelDescription(
            architecture=architecture_of(config),
            model=config,
            trained_length=12,
            source_language="en",
            target_language="de",
            vocabulary_hash=tokenizer.vocabulary_hash,
        ),
        weights_of(model),
    )
    ids = np.arange(tokenizer.source_size + 1)
    always = np.array([EOS, *range(4, 60)])
    likely = np.arange(len(ids) * 5) % (tokenizer.target_size - 60) + 60
    Shortlist(always=always, likely=likely[: 5 * (len(ids) - 1)], starts=5 * ids).save(directory)
    AlignmentHead(layer=0, head=None, from_input=True).save(directory)
