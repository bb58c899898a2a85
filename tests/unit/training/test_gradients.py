"""Gradients of an update, the comparison of validations, and the settings of training."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from dragoman.data.batching import Batch, collate
from dragoman.device import return_freed_memory
from dragoman.errors import SettingsError
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import build_transformer
from dragoman.training.averaging import MovingAverage
from dragoman.training.config import TrainingConfig
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.translation_objective import TranslationLosses, mean_loss
from dragoman.training.validation import Validation
from tests.support.tiny import tiny

CPU = torch.device("cpu")
LOSSES = TranslationLosses(smoothing=0.1)


def build_model() -> Seq2Seq:
    torch.manual_seed(0)
    model = build_transformer(replace(tiny(60, 60, joint=True), dropout=0.0))
    return model.train()


def batch_of(lengths: list[int]) -> tuple[list[list[int]], list[list[int]]]:
    generator = torch.Generator().manual_seed(7)
    rows = [torch.randint(4, 60, (length,), generator=generator).tolist() for length in lengths]
    return rows, [row[::-1] for row in rows]


def split_into(sources: list[list[int]], targets: list[list[int]], parts: int) -> list[Batch]:
    bounds = [len(sources) * part // parts for part in range(parts + 1)]
    return [collate(sources[a:b], targets[a:b]) for a, b in pairwise(bounds)]


@pytest.mark.parametrize("parts", [2, 4])
def test_accumulating_gives_the_gradient_of_the_whole_batch(parts: int) -> None:
    # Lengths differ widely, so that a mean of means would be far from the mean over tokens.
    sources, targets = batch_of([1, 2, 3, 17, 4, 30, 1, 12])

    def gradients(batches: list[Batch]) -> tuple[Tensor, int, list[Tensor]]:
        model = build_model()
        total, tokens = accumulate_gradients(model, batches, LOSSES, "fp32", CPU)
        return total, tokens, [p.grad for p in model.parameters() if p.grad is not None]

    total, tokens, whole = gradients([collate(sources, targets)])
    split_total, split_tokens, split = gradients(split_into(sources, targets, parts))
    assert tokens == split_tokens == sum(len(row) + 1 for row in targets)
    torch.testing.assert_close(total, split_total)
    assert len(whole) == len(split) > 10
    for expected, actual in zip(whole, split, strict=True):
        torch.testing.assert_close(expected, actual, rtol=1e-4, atol=1e-6)


def test_mean_loss_does_not_depend_on_the_batches_and_keeps_the_mode() -> None:
    sources, targets = batch_of([3, 9, 2, 14, 5])
    model = build_model()
    whole = mean_loss(model, [collate(sources, targets)], "fp32", CPU)
    assert mean_loss(model, split_into(sources, targets, 3), "fp32", CPU) == pytest.approx(whole, rel=1e-5)
    assert model.training
    assert whole == pytest.approx(4.1, abs=1.0)  # about ln 60: nothing is learned yet


def test_the_moving_average_follows_the_equation_of_its_docstring() -> None:
    model = build_model()
    name = "encoder.layers.0.feed_forward.inner.weight"
    parameter = dict(model.named_parameters())[name]
    expected = parameter.detach().clone()
    average = MovingAverage(model, decay=0.25)
    for step in range(1, 6):
        with torch.no_grad():
            parameter.add_(step)
        average.update(model, step)
        decay = min(0.25, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * parameter.detach()
    torch.testing.assert_close(average.weights[name], expected)
    own = parameter.detach().clone()
    with average.swapped_in(model):
        torch.testing.assert_close(parameter.detach(), expected)
    assert torch.equal(parameter, own)


def test_better_is_a_higher_metric_or_a_lower_loss() -> None:
    first = Validation(loss=2.0, metrics={"bleu": 10.0, "exact_match": 5.0})
    second = Validation(loss=1.0, metrics={"bleu": 9.0, "exact_match": 6.0})
    assert first.better_than(None, "bleu")
    assert first.better_than(second, "bleu")
    assert not second.better_than(first, "bleu")
    assert second.better_than(first, "loss")
    assert not first.better_than(first, "bleu")
    assert second.better_than(first, "exact_match")
    assert not first.better_than(second, "exact_match")
    assert replace(first, loss=1.9).better_than(first, "exact_match"), "equal values: the loss is compared"
    assert not first.better_than(first, "exact_match")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "exactly one of steps and minutes"),
        ({"steps": 1, "minutes": 1.0}, "exactly one of steps and minutes"),
        ({"steps": 0}, "steps"),
        ({"minutes": 0.0}, "minutes"),
        ({"steps": 1, "accumulate": 0}, "accumulate"),
        ({"steps": 1, "label_smoothing": 1.0}, "label_smoothing"),
        ({"steps": 1, "clip_norm": -1.0}, "clip_norm"),
        ({"steps": 1, "adam_betas": (0.9, 1.0)}, "adam_betas"),
        ({"steps": 1, "best_by": "perplexity"}, "best_by must be one of 'loss', .*'bleu', .*, not 'perplexity'"),
        ({"steps": 1, "optimizer": "adamw"}, "optimizer must be one of 'adam', 'muon'.*, not 'adamw'"),
    ],
)
def test_invalid_settings_are_named_in_the_error(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TrainingConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [1, 20, 35, 10_000])
def test_split_batches_give_the_gradient_of_the_whole_batch(limit: int) -> None:
    torch.manual_seed(0)
    config = replace(tiny(40, 40, joint=True), dropout=0.0)
    model = build_transformer(config).double()
    batch = collate([[5, 6, 7, 8], [9, 10], [11] * 6], [[12] * 3, [13, 14], [15] * 8])
    results = []
    for parts in ([batch], list(LOSSES.split(batch, limit))):
        assert sum(part.target_tokens for part in parts) == batch.target_tokens
        assert all(LOSSES.size(part) <= limit or len(part.source) == 1 for part in parts) or len(parts) == 1
        model.zero_grad()
        loss, tokens = accumulate_gradients(model, parts, LOSSES, "fp32", CPU)
        results.append((loss, tokens, [parameter.grad for parameter in model.parameters()]))
    torch.testing.assert_close(results[0], results[1])


def test_returning_freed_memory_does_not_change_tensors() -> None:
    tensor = torch.arange(1_000_000)
    return_freed_memory()
    assert int(tensor[-1]) == 999_999
