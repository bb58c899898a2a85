"""The loss in blocks against the equation: values, gradients, counts."""

import math
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.packing import Padded
from dragoman.training import loss
from dragoman.training.loss import CPU_FLOAT32_ROWS, naive_loss
from tests.support.loss import loss_of_states

B, D, V = 3, 12, 23


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def case(length: int, share: float = 0.7) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return states, weight, target, and the mask of real tokens."""
    generator = torch.Generator().manual_seed(length)
    target = torch.randint(V, (B, length), generator=generator)
    real = torch.rand(B, length, generator=generator) < share
    return random(B, length, D), random(V, D, seed=1), target, real


def gradients(
    fast: bool, states: Tensor, weight: Tensor, target: Tensor, real: Tensor, smoothing: float, factor: float
) -> tuple[Tensor, int, Tensor, Tensor]:
    states, weight = states.clone().requires_grad_(), weight.clone().requires_grad_()
    if fast:
        total, counted = loss_of_states(states, weight, target, real, smoothing)
        count = int(counted)
    else:
        total, count = naive_loss(states @ weight.t(), target, real, smoothing)
    (total * factor).backward()
    assert states.grad is not None
    assert weight.grad is not None
    return total.detach(), count, states.grad, weight.grad


@pytest.mark.parametrize("length", [1, 9])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("block", [4, 4096])
def test_the_loss_on_a_gpu_equals_the_equation(
    monkeypatch: pytest.MonkeyPatch, length: int, smoothing: float, block: int
) -> None:
    monkeypatch.setattr(loss, "GPU_BLOCK", block)
    states, weight, target, real = case(length)
    expected = gradients(False, states, weight, target, real, smoothing, factor=0.5)
    states, weight = states.clone().requires_grad_(), weight.clone().requires_grad_()
    total, count = loss_of_states(states, weight, target, real, smoothing, Padded)
    (0.5 * total).backward()
    torch.testing.assert_close((total.detach(), int(count), states.grad, weight.grad), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_naive_loss_equals_cross_entropy_of_torch(smoothing: float) -> None:
    states, weight, target, real = case(9)
    logits = states @ weight.t()
    total, count = naive_loss(logits, target, real, smoothing)
    expected = F.cross_entropy(logits[real], target[real], reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(total, expected)
    assert count == real.sum()


def test_known_values() -> None:
    """The loss of equal logits is log V with any smoothing; that of certain and right logits is 0 without smoothing."""
    target, real = torch.zeros(1, 4, dtype=torch.int64), torch.ones(1, 4, dtype=torch.bool)
    for smoothing in (0.0, 0.1, 0.5):
        total, count = loss_of_states(torch.zeros(1, 4, D), random(V, D), target, real, smoothing)
        assert float(total) == pytest.approx(4 * math.log(V), rel=1e-6)
        assert count == 4
    certain = torch.zeros(V, D)
    certain[0] = 100
    total, _ = loss_of_states(torch.ones(1, 4, D), certain, target, real, 0.0)
    assert float(total) == pytest.approx(0, abs=1e-3)
    # Large logits do not overflow: the loss of every wrong token is 1,200 nats.
    total, _ = loss_of_states(torch.ones(1, 4, D), certain, target + 1, real, 0.0)
    assert float(total) == pytest.approx(4 * 1200, rel=1e-6)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have as few rows in a block as with a large vocabulary."""
    monkeypatch.setattr(loss, "CPU_FLOAT32_LOGITS", 1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("length", [1, 9, CPU_FLOAT32_ROWS // B + 1, CPU_FLOAT32_ROWS])
def test_the_loss_in_blocks_equals_naive_loss(smoothing: float, length: int) -> None:
    """Less than one block, just over one, and three; the gradient includes the factor that `backward` receives."""
    inputs = case(length, share=1.0 if length != 9 else 0.7)
    for factor in (1.0, 0.125):
        result = gradients(True, *inputs, smoothing, factor)
        expected = gradients(False, *inputs, smoothing, factor)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    states_gradient = result[2]
    assert states_gradient[~inputs[3]].eq(0).all()


@pytest.mark.parametrize("rows", [1, 2, 5, 1000])
def test_the_size_of_a_block_does_not_matter(rows: int) -> None:
    inputs = case(9)
    expected = gradients(True, *inputs, 0.1, 1.0)
    with patch.object(loss, "CPU_FLOAT32_ROWS", rows):
        torch.testing.assert_close(gradients(True, *inputs, 0.1, 1.0), expected, rtol=1e-5, atol=1e-6)


def test_padding_does_not_matter() -> None:
    states, weight, target, real = case(9)
    expected = gradients(True, states, weight, target, real, 0.1, 1.0)
    other = torch.where(real.unsqueeze(-1), states, 1e4)
    result = gradients(True, other, weight, torch.where(real, target, 0), real, 0.1, 1.0)
    torch.testing.assert_close(result, expected)


def test_the_loss_of_padding_alone_is_zero() -> None:
    states, weight, target, real = case(9)
    total, count, states_gradient, weight_gradient = gradients(
        True, states, weight, target, torch.zeros_like(real), 0.1, 1.0
    )
    assert (float(total), count) == (0.0, 0)
    assert states_gradient.eq(0).all()
    assert weight_gradient.eq(0).all()


def test_losses_and_counts_of_two_parts_add_up_to_those_of_the_batch() -> None:
    """This is required for accumulation over several batches."""
    states, weight, target, real = case(40)
    whole = gradients(True, states, weight, target, real, 0.1, 1.0)
    first = gradients(True, states[:1], weight, target[:1], real[:1], 0.1, 1.0)
    rest = gradients(True, states[1:], weight, target[1:], real[1:], 0.1, 1.0)
    torch.testing.assert_close(first[0] + rest[0], whole[0])
    assert first[1] + rest[1] == whole[1]
    torch.testing.assert_close(torch.cat((first[2], rest[2])), whole[2])
    torch.testing.assert_close(first[3] + rest[3], whole[3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_bf16_states_is_close(smoothing: float) -> None:
    """Sums are in float32: a sum of this many rows in bf16 would lose precision."""
    states, weight, target, real = case(CPU_FLOAT32_ROWS, share=1.0)
    expected = gradients(False, states, weight, target, real, smoothing, 1.0)
    result = gradients(True, states.bfloat16(), weight, target, real, smoothing, 1.0)
    assert result[0].dtype == torch.float32
    assert result[2].dtype == torch.bfloat16
    assert result[3].dtype == torch.float32
    torch.testing.assert_close(result[0], expected[0], rtol=2e-3, atol=0)
    for one, other in zip(result[2:], expected[2:], strict=True):
        assert ((one - other).norm() / other.norm()).item() < 0.01


def test_under_autocast_the_projection_is_in_bf16() -> None:
    """As in a linear layer: inputs and gradients are float32, products are in bf16."""
    inputs = case(CPU_FLOAT32_ROWS)
    with torch.autocast("cpu", torch.bfloat16):
        result = gradients(True, *inputs, 0.1, 1.0)
    # Equal to the result of bf16 states, bit for bit.
    half = gradients(True, inputs[0].bfloat16(), *inputs[1:], 0.1, 1.0)
    assert result[0].equal(half[0])
    assert result[2].equal(half[2].float())
    assert result[3].equal(half[3])
    rounded = (inputs[0].bfloat16().float(), inputs[1].bfloat16().float(), *inputs[2:])
    expected = gradients(False, *rounded, 0.1, 1.0)
    torch.testing.assert_close(result[0], expected[0], rtol=1e-3, atol=0)
    for one, other in zip(result[2:], expected[2:], strict=True):
        assert one.dtype == torch.float32
        assert ((one - other).norm() / other.norm()).item() < 0.01


def test_without_gradients() -> None:
    inputs = case(9)
    expected, count = loss_of_states(*inputs, 0.1)
    assert not expected.requires_grad
    states, weight = inputs[0].requires_grad_(), inputs[1].requires_grad_()
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            result, result_count = loss_of_states(states, weight, *inputs[2:], 0.1)
        assert float(result) == float(expected)
        assert not result.requires_grad
        assert result_count == count


def test_a_frozen_projection() -> None:
    states, weight, target, real = case(9)
    states.requires_grad_()
    loss_of_states(states, weight, target, real, 0.1)[0].backward()
    expected = gradients(False, states.detach(), weight, target, real, 0.1, 1.0)
    torch.testing.assert_close(states.grad, expected[2])
    assert weight.grad is None


def test_a_tied_matrix_receives_both_gradients() -> None:
    """Embedding and projection share one matrix, as in the model."""
    _, weight, target, real = case(9)
    shared, expected = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    loss_of_states(F.embedding(target, shared).sin(), shared, target, real, 0.1)[0].backward()
    naive_loss(F.embedding(target, expected).sin() @ expected.t(), target, real, 0.1)[0].backward()
    torch.testing.assert_close(shared.grad, expected.grad, rtol=1e-4, atol=1e-5)
