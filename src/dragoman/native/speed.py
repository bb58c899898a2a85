"""The speed of the native engine's matrix products, measured while it encodes sentences."""

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.models.config.transformer import TransformerConfig
from dragoman.native import Build, Precision, engine_settings
from dragoman.text.subwords import BOS, EOS, NEVER_GENERATED

# Two layers of `base`. The search of one output token takes 2 % of the time that encoding takes.
MODEL = TransformerConfig(source_vocabulary=16, target_vocabulary=16, encoder_layers=2, decoder_layers=1)
SENTENCES, LENGTH = 16, 64


def product_rate(build: Build, precision: Precision, threads: int, seconds: float) -> float:
    """Return the operations per second of products of tokens [N, 512] and weights, by all threads together.

    A multiplication and an addition count as two operations. The time of norms and attention weights is included.

    Args:
        build: the build to measure.
        precision: number format of the weights.
        threads: each encodes sentences of its own, as in a translation of many lines.
        seconds: least duration of the measurement.
    """
    model = _random_model(build, precision)
    weights = sum(
        math.prod(tensor.shape)
        for tensor in MODEL.tensors()
        if len(tensor.shape) == 2
        # Keys and values of the source are computed once for each of its tokens.
        and (
            tensor.name.startswith("encoder")
            or tensor.name.endswith(("memory_attention.key.weight", "memory_attention.value.weight"))
        )
    )
    source = [BOS + 3] * (LENGTH - 1) + [EOS]
    tokens = SENTENCES * threads * LENGTH
    _encode(model, source, threads)  # allocates memory
    begin, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begin < seconds:
        _encode(model, source, threads)
        calls += 1
    return 2 * weights * tokens * calls / (time.perf_counter() - begin)


def _random_model(build: Build, precision: Precision) -> Any:
    shapes = {tensor.name: tensor.shape for tensor in MODEL.tensors()}
    random = np.random.default_rng(0)

    def weights(name: str) -> NDArray[np.float32] | None:
        return random.standard_normal(shapes[name], dtype=np.float32) * 0.05 if name in shapes else None

    return build.module.Model(
        settings=engine_settings(MODEL),
        special_tokens={"bos": BOS, "eos": EOS, "never_generated": NEVER_GENERATED},
        weights=weights,
        precision=precision,
    )


def _encode(model: Any, source: list[int], threads: int) -> None:
    count = SENTENCES * threads
    model.search(
        sources=[source] * count,
        prefixes=[[]] * count,
        minimum=[1] * count,
        maximum=[1] * count,
        beam=1,
        n_best=1,
        length_penalty=1.0,
        batch_sentences=SENTENCES,
        batch_tokens=SENTENCES * LENGTH,
        threads=threads,
        team=1,
        shortlist=None,
    )
