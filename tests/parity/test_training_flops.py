"""The operations counted from the settings, and those that torch counts in a training step."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dragoman.data.batching import collate
from dragoman.data.token_stream import WindowBatch
from dragoman.models.config.language import LanguageConfig
from dragoman.models.config.transformer import PRESETS, TransformerConfig
from dragoman.models.registry import build_language_model, build_model, preset
from dragoman.run.flops import language_training_flops, training_flops
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.language_objective import LanguageLosses
from dragoman.training.translation_objective import TranslationLosses

# With the end symbol, and with the row of zeros that a packed batch has, as many rows as a layout pads to: 128.
PAIRS, LENGTH = 1, 127
# The layout counts 128 positions in place of 127, and 128² attention weights in place of 127².
PADDING = (128 / LENGTH) ** 2


@pytest.mark.parametrize(("d_k", "d_v"), [(None, None), (24, 8)])
@pytest.mark.parametrize("name", PRESETS)
def test_the_count_of_a_training_step(name: str, d_k: int | None, d_v: int | None) -> None:
    config = preset(name, 90, 110, joint=False)
    assert isinstance(config, TransformerConfig)
    small = replace(
        config, d_model=32, heads=2, d_ff=48, d_k=d_k, d_v=d_v, encoder_layers=min(config.encoder_layers, 3)
    )
    model = build_model(small)
    batch = collate([[5] * (LENGTH - 1)] * PAIRS, [[6] * (LENGTH - 1)] * PAIRS)
    with FlopCounterMode(display=False) as counter:
        accumulate_gradients(model, [batch], TranslationLosses(0.1), "fp32", torch.device("cpu"))
    counted = training_flops(small, [LENGTH] * PAIRS, [LENGTH] * PAIRS)
    assert counted <= counter.get_total_flops() <= counted * PADDING


def test_sources_and_targets_of_different_lengths() -> None:
    """By hand, for a model so small that every product can be written down."""
    config = TransformerConfig(
        source_vocabulary=7,
        target_vocabulary=11,
        encoder_layers=1,
        decoder_layers=1,
        d_model=4,
        heads=2,
        d_ff=8,
        tied_embeddings="none",
    )
    source, target = 3, 5
    projection, feed_forward = 4 * 4, 2 * 4 * 8
    encoder = source * (4 * projection + feed_forward) + 2 * 4 * source * source
    decoder = (
        target * (4 * projection + 2 * projection + feed_forward)
        + source * 2 * projection
        + 2 * 4 * (target * target + target * source)
    )
    output = target * 4 * 11
    assert training_flops(config, [source], [target]) == 3 * 2 * (encoder + decoder + output)
    assert training_flops(config, [source, 1], [target, 2]) > training_flops(config, [source], [target])


@pytest.mark.parametrize(("d_k", "d_v", "activation"), [(None, None, "gelu"), (24, 8, "swiglu")])
def test_the_count_of_a_training_step_of_a_language_model(
    d_k: int | None, d_v: int | None, activation: Literal["gelu", "swiglu"]
) -> None:
    config = LanguageConfig(
        vocabulary=90, layers=3, d_model=32, heads=2, d_ff=48, d_k=d_k, d_v=d_v, activation=activation, context=64
    )
    tokens = torch.full((3, 64), 5)
    batch = WindowBatch(tokens_in=tokens, tokens_out=tokens, documents=None, target_mask=None, tokens=tokens.numel())
    with FlopCounterMode(display=False) as counter:
        accumulate_gradients(build_language_model(config), [batch], LanguageLosses(0.0), "fp32", torch.device("cpu"))
    assert counter.get_total_flops() == language_training_flops(config, 3, 64)
