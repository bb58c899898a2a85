"""What this machine can do: the rate of its matrix products, and the predicted speed of training.

A few updates of each preset are measured. Presets as wide as `base` take too long for that: they are measured with one
encoder and one decoder layer. From these updates the time of an update with the preset's own depth, vocabulary and
batches is predicted: forward and backward pass in proportion to the operations of their matrix products
(`run.flops`), the optimizer in proportion to the number of parameters.

Real training is somewhat slower: on two cores in bf16, predictions were 10 % too high for `base` and `fast`, 5 to 25 %
for `small`, and 20 to 40 % for `tiny`.
"""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import torch

from dragoman.data.batching import Batch, Ids, collate
from dragoman.device import Precision, select_device, select_precision, tune_cpu
from dragoman.models.config.transformer import PRESETS, TransformerConfig
from dragoman.models.registry import build_model
from dragoman.native.engine_selection import select_engine
from dragoman.native.speed import product_rate
from dragoman.run.config import CorpusSize, model_config, read_settings, resolve
from dragoman.run.flops import training_flops
from dragoman.text.subwords import EOS
from dragoman.threads import available_cpus
from dragoman.training.config import TrainingConfig
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.optimizers.table import OPTIMIZERS
from dragoman.training.translation_objective import TranslationLosses

# Matrices [SIZE, SIZE] are multiplied for this time.
SIZE, PRODUCT_SECONDS = 2048, 0.4
# The updates of a preset are measured for this time, with each of the batches at least once. Each batch is first used
# once without measuring, which compiles products and fills caches.
UPDATE_SECONDS = 0.5
# Subwords of a sentence with its end symbol, in each of the batches: a sixth of the demo's subwords is in sentences
# shorter than 8, a half in those shorter than 16, and a sixth in those longer than 32.
LENGTHS = (8, 16, 32)
# Models at least as wide as this are measured with one layer on each side.
WIDE = 512
# Tokens of a measured batch on a CPU, and of one of the widest models.
MEASURED_TOKENS, FEW_TOKENS = 1024, 512
# The measured model is discarded: what it learns does not matter.
LEARNING_RATE = 1e-4
# The first token that is no special symbol.
FIRST_TOKEN = EOS + 1
# Pairs of the corpora for which vocabulary and batches are chosen: for presets narrower than WIDE, and for the others.
SMALL_CORPUS, LARGE_CORPUS = 100_000, 1_000_000
# Pairs of the corpus of `make demo`, its duration, and the share of it that validations take.
DEMO_PAIRS, DEMO_MINUTES, DEMO_VALIDATING = 22_548, 5, 0.03


@dataclass(frozen=True, kw_only=True)
class TrainingSpeed:
    """The predicted speed of training a model.

    Attributes:
        tokens_per_second: target tokens in a second.
        seconds_per_update: duration of an update.
        vocabulary: subwords of the vocabulary.
        batch_tokens: size of a batch, in tokens of its longer side.
        optimizer: the optimizer's name.
    """

    tokens_per_second: float
    seconds_per_update: float
    vocabulary: int
    batch_tokens: int
    optimizer: str


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Measurements of a machine.

    Attributes:
        device: the device that trains.
        threads: torch's threads.
        precision: number format of training.
        products: GFLOP/s of matrix products by precision: "fp32" and "bf16" in torch on the device, and "int8" in the
            native engine, None where translation does not use it.
        processor_share: processor time that the threads received while they multiplied, as a share of the time in
            which they could have run; None on a GPU.
        load: processes that were running on average in the minute before; None where the system does not report it.
        training: predicted speed by preset.
        demo_updates: predicted updates of `make demo`.
    """

    device: str
    threads: int
    precision: Precision
    products: Mapping[str, float | None]
    processor_share: float | None
    load: float | None
    training: Mapping[str, TrainingSpeed]
    demo_updates: float


def measure(on_progress: Callable[[str], object] = str) -> Benchmark:
    """Measure this machine in about ten seconds; on a slow one it takes longer.

    Args:
        on_progress: called with a few words before each measurement.
    """
    device = select_device("auto")
    if device.type == "cpu":
        tune_cpu()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        return _measure(device, on_progress)


def _measure(device: torch.device, on_progress: Callable[[str], object]) -> Benchmark:
    precision = select_precision("auto", device)
    load = _load_average()
    on_progress("matrix products in fp32")
    fp32, share_before = _matrix_rate(torch.float32, device)
    training = {}
    for name in PRESETS:
        on_progress(f"training steps of {name}")
        training[name] = _preset_speed(name, device, precision)
    on_progress("training steps of the demo")
    demo = _demo_speed(device, precision)
    on_progress("matrix products in int8")
    build = select_engine().build
    int8 = None if build is None else product_rate(build, "int8", available_cpus(), PRODUCT_SECONDS) / 1e9
    # Last, so that a program which started in the meantime is detected.
    on_progress("matrix products in bf16")
    bf16, share_after = _matrix_rate(torch.bfloat16, device)
    return Benchmark(
        device=str(device),
        threads=torch.get_num_threads(),
        precision=precision,
        products={"fp32": fp32, "bf16": bf16, "int8": int8},
        processor_share=min(share_before, share_after) if device.type == "cpu" else None,
        load=load,
        training=training,
        demo_updates=60 * DEMO_MINUTES * (1 - DEMO_VALIDATING) / demo.seconds_per_update,
    )


def _matrix_rate(dtype: torch.dtype, device: torch.device) -> tuple[float, float]:
    """Return GFLOP/s of a product of large matrices, and the share of the processor's time that it received."""
    a, b = torch.randn(2, SIZE, SIZE, device=device).to(dtype)
    torch.mm(a, b)
    begin, processor, seconds, count = _now(device), time.process_time(), 0.0, 0
    while count == 0 or seconds < PRODUCT_SECONDS:
        torch.mm(a, b)
        count, seconds = count + 1, _now(device) - begin
    share = (time.process_time() - processor) / (seconds * torch.get_num_threads())
    return 2 * SIZE**3 * count / seconds / 1e9, min(share, 1.0)


def _preset_speed(name: str, device: torch.device, precision: Precision) -> TrainingSpeed:
    """Predict the speed of a preset, with the settings that `train` chooses for a corpus that suits it."""
    width = PRESETS[name].get("d_model", TransformerConfig.d_model)
    pairs = SMALL_CORPUS if width < WIDE else LARGE_CORPUS
    return _predicted({"preset": name, "training": {"steps": 1}}, pairs, device, precision)


def _demo_speed(device: torch.device, precision: Precision) -> TrainingSpeed:
    return _predicted({"training": {"minutes": DEMO_MINUTES}}, DEMO_PAIRS, device, precision)


def _predicted(settings: Mapping[str, object], pairs: int, device: torch.device, precision: Precision) -> TrainingSpeed:
    """Predict the speed of training with the settings that `train` chooses for a corpus of `pairs` pairs."""
    resolved = resolve(read_settings(settings), CorpusSize(pairs=pairs))
    run, vocabulary = resolved.run, resolved.run.tokenizer.vocabulary_size
    model = model_config(resolved, vocabulary, vocabulary)
    assert isinstance(model, TransformerConfig), "every preset is a Transformer"
    measured, tokens = model, run.batching.batch_tokens
    if model.d_model >= WIDE:
        measured = replace(model, encoder_layers=1, decoder_layers=1)
    if device.type == "cpu":
        tokens = min(tokens, MEASURED_TOKENS if model.d_model <= WIDE else FEW_TOKENS)
    cost = _measured_cost(measured, run.training, tokens, device, precision)
    flops, target_tokens = _mean_size(model, run.batching.batch_tokens)
    seconds = flops * cost.per_flop + _parameters(model) * cost.per_parameter
    return TrainingSpeed(
        tokens_per_second=target_tokens / seconds,
        seconds_per_update=seconds,
        vocabulary=vocabulary,
        batch_tokens=run.batching.batch_tokens,
        optimizer=run.training.optimizer,
    )


@dataclass(frozen=True)
class _Cost:
    """Seconds that an update takes for each operation of its products, and for each parameter of its model."""

    per_flop: float
    per_parameter: float


def _measured_cost(
    config: TransformerConfig, training: TrainingConfig, tokens: int, device: torch.device, precision: Precision
) -> _Cost:
    """Measure a few updates of a model with batches of `tokens` tokens."""
    model = build_model(config).to(device).train()
    optimizers = OPTIMIZERS[training.optimizer](model, training, precision)
    losses = TranslationLosses(training.label_smoothing)
    # The lengths matter less in wide models, whose updates take longer.
    chosen = LENGTHS if config.d_model < WIDE else LENGTHS[1:2]
    gradients, updates = [math.inf] * len(chosen), [math.inf] * len(chosen)
    started, cycles = 0.0, -1
    while cycles < 1 or _now(device) - started < UPDATE_SECONDS:
        if cycles == 0:
            started = _now(device)
        for i, length in enumerate(chosen):
            begin = _now(device)
            batch = _batch(config, _lengths(length, tokens))
            model.zero_grad()
            loss, _ = accumulate_gradients(model, [batch], losses, precision, device)
            middle = _now(device)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            optimizers.step(LEARNING_RATE, loss.isfinite() & norm.isfinite())
            if cycles >= 0:
                # The fastest, as interruptions make single updates slower.
                gradients[i], updates[i] = min(gradients[i], middle - begin), min(updates[i], _now(device) - middle)
        cycles += 1
    flops, _ = _mean_size(config, tokens, chosen)
    return _Cost(fmean(gradients) / flops, fmean(updates) / _parameters(config))


def _mean_size(config: TransformerConfig, batch_tokens: int, longest: Sequence[int] = LENGTHS) -> tuple[float, float]:
    """Return the operations of an update and its target tokens, on average over batches of these lengths."""
    batches = [_lengths(length, batch_tokens) for length in longest]
    flops = sum(training_flops(config, lengths, lengths) for lengths in batches)
    return flops / len(batches), sum(map(sum, batches)) / len(batches)


def _lengths(length: int, batch_tokens: int) -> list[int]:
    """Return the lengths of a batch's sentences, the same on either side; they are similar, as in a sorted corpus."""
    return [length - i % 2 for i in range(max(1, batch_tokens // length))]


def _batch(config: TransformerConfig, lengths: Sequence[int]) -> Batch:
    random = np.random.default_rng(0)

    def side(vocabulary: int) -> list[Ids]:
        # `collate` adds the end symbol.
        return [random.integers(FIRST_TOKEN, vocabulary, length - 1) for length in lengths]

    return collate(side(config.source_vocabulary), side(config.target_vocabulary))


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _parameters(config: TransformerConfig) -> int:
    return sum(math.prod(tensor.shape) for tensor in config.tensors())


def _now(device: torch.device) -> float:
    """Wait until the device has finished its work; return the time."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
