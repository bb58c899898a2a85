"""Muon, and the assignment of parameters to optimizers."""

import pytest
import torch
from torch import Tensor, nn

from dragoman.device import Precision
from dragoman.errors import SettingsError
from dragoman.models.transformer import build_transformer
from dragoman.training.config import TrainingConfig
from dragoman.training.optimizers import adam, muon
from dragoman.training.optimizers.muon import Muon, orthogonalise
from dragoman.training.optimizers.parts import Optimizers, OptimizerSettings, Part, hidden_matrices
from dragoman.training.optimizers.table import OPTIMIZERS
from tests.support.tiny import tiny

FINITE, NOT_FINITE = torch.tensor(True), torch.tensor(False)


def with_gradients(shapes: list[tuple[int, int]], seed: int) -> list[nn.Parameter]:
    draw = torch.Generator().manual_seed(seed)
    parameters = [nn.Parameter(torch.randn(shape, generator=draw)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=draw)
    return parameters


@pytest.mark.parametrize("shape", [(32, 32), (16, 64), (64, 16)])
def test_singular_values_become_about_one_and_directions_are_preserved(shape: tuple[int, int]) -> None:
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    # [3, M, N] -> [3, R, R]: in the basis of the singular vectors of x, it is nearly the identity
    rotated = u.mT @ orthogonalise(x) @ v.mT
    values = rotated.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.5
    assert values.max() < 1.3
    assert (rotated - torch.diag_embed(values)).abs().max() < 1e-4


def test_the_scale_of_a_gradient_does_not_matter_and_zeros_remain_zeros() -> None:
    x = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(orthogonalise(1e-3 * x), orthogonalise(1e3 * x))
    assert torch.equal(orthogonalise(torch.zeros(1, 4, 6)), torch.zeros(1, 4, 6))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_several_steps_equal_those_of_torch(weight_decay: float) -> None:
    shapes = [(32, 32), (16, 64), (32, 32), (64, 16)]
    ours, theirs = with_gradients(shapes, seed=1), with_gradients(shapes, seed=1)
    our_muon = Muon(ours, lr=0.01, weight_decay=weight_decay)
    torch_muon = torch.optim.Muon(theirs, lr=0.01, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
    before = [parameter.detach().clone() for parameter in ours]
    for step in range(3):
        for parameters in (ours, theirs):
            for parameter, other in zip(parameters, with_gradients(shapes, seed=step + 2), strict=True):
                parameter.grad = other.grad
        our_muon.step()
        torch_muon.step()
    for a, b, start in zip(ours, theirs, before, strict=True):
        moved = (b - start).abs().mean()
        # Both compute in bf16; batched and single products are rounded differently.
        assert (a - b).abs().mean() < 0.02 * moved
        assert moved > 1e-3


def test_without_bf16_it_computes_in_float32() -> None:
    [matrix] = with_gradients([(8, 8)], seed=1)
    before, gradient = matrix.detach().clone(), matrix.grad
    assert gradient is not None
    Muon([matrix], lr=0.01, momentum=0.0, dtype=torch.float32).step()
    update = 0.01 * 0.2 * 8**0.5 * orthogonalise(gradient.unsqueeze(0)).squeeze(0)
    torch.testing.assert_close(matrix.detach(), before - update)


def test_muon_updates_the_matrices_and_adam_all_other_parameters() -> None:
    model = build_transformer(tiny(100, 100, joint=True))
    matrices = {id(matrix) for matrix in hidden_matrices(model)}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in matrices}
    assert len(names) == 2 * (4 + 2) + 2 * (8 + 2)
    assert not any("embedding" in name or "bias" in name or "norm" in name for name in names)

    optimizers = muon.build(model, TrainingConfig(steps=1), "fp32").named()
    assert optimizers.keys() == {"optimizer", "muon"}

    def held(optimizer: torch.optim.Optimizer) -> list[Tensor]:
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    assert set(map(id, held(optimizers["muon"]))) == matrices
    both = [*held(optimizers["muon"]), *held(optimizers["optimizer"])]
    assert sorted(map(id, both)) == sorted(map(id, model.parameters()))


def test_adam_updates_all_parameters_with_the_scheduled_rate() -> None:
    model = build_transformer(tiny(100, 100, joint=False))
    optimizers = adam.build(model, TrainingConfig(steps=1), "fp32")
    assert list(optimizers.named()) == ["optimizer"]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizers.step(0.25, FINITE)
    for parameter, start in zip(model.parameters(), before, strict=True):
        # The size of Adam's first update is the learning rate.
        torch.testing.assert_close(parameter.detach(), start - 0.25)


def test_muon_uses_its_multiple_of_the_scheduled_rate() -> None:
    model = build_transformer(tiny(100, 100, joint=True))
    optimizers = muon.build(model, TrainingConfig(steps=1, matrix_rate=3.0), "fp32")
    matrix = hidden_matrices(model)[0]
    before = matrix.detach().clone()
    matrix.grad = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(1))
    optimizers.step(0.01, FINITE)
    # The root mean square of an orthogonal matrix of width 64 is 1 / 8.
    moved = (matrix.detach() - before).pow(2).mean().sqrt()
    assert moved == pytest.approx(0.2 * 8 * 0.03 / 8, rel=0.2)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_update_that_is_not_finite_changes_nothing(optimizer: str) -> None:
    def after(steps: list[Tensor]) -> list[Tensor]:
        torch.manual_seed(1)
        model: nn.Module = build_transformer(tiny(100, 100, joint=True))
        if optimizer == "two-time-scale":
            model = nn.ModuleDict({"generator": model, "discriminator": nn.Linear(3, 4)})
        optimizers = OPTIMIZERS[optimizer](model, TrainingConfig(steps=1), "fp32")
        draw = torch.Generator().manual_seed(2)
        for finite in steps:
            for parameter in model.parameters():
                if finite:
                    parameter.grad = torch.randn(parameter.shape, generator=draw)
                else:
                    parameter.grad = torch.full_like(parameter, torch.nan)
            optimizers.step(0.01, finite)
        states = [optimizer.state_dict()["state"] for optimizer in optimizers.named().values()]
        tensors = [tensor for state in states for values in state.values() for tensor in values.values()]
        return [parameter.detach() for parameter in model.parameters()] + tensors

    for a, b in zip(after([FINITE, NOT_FINITE, FINITE]), after([FINITE, FINITE]), strict=True):
        assert torch.equal(a, b)


def test_an_optimizer_is_added_with_one_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"optimizer must be one of 'adam', 'muon'.*, not 'made-up'"):
        TrainingConfig(steps=1, optimizer="made-up")

    def build(model: nn.Module, settings: OptimizerSettings, precision: Precision) -> Optimizers:
        assert precision == "fp32"
        sgd = torch.optim.SGD(model.parameters(), weight_decay=settings.weight_decay)
        return Optimizers((Part("made-up", sgd, rate=2.0),))

    monkeypatch.setitem(OPTIMIZERS, "made-up", build)
    config = TrainingConfig(steps=1, optimizer="made-up")
    model = nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.ones_like(model.weight)
    before = model.weight.detach().clone()
    optimizers = OPTIMIZERS[config.optimizer](model, config, "fp32")
    optimizers.step(0.25, NOT_FINITE)
    torch.testing.assert_close(model.weight.detach(), before, rtol=0, atol=0)
    optimizers.step(0.25, FINITE)
    torch.testing.assert_close(model.weight.detach(), before - 0.5)


def test_a_model_without_hidden_matrices_uses_adam_only() -> None:
    model = nn.Embedding(5, 3)
    assert muon.build(model, TrainingConfig(steps=1), "fp32").named().keys() == {"optimizer"}
