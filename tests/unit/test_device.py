"""Selection of device and precision, and the settings of a process that trains on a CPU."""

import os

import pytest
import torch

from dragoman import device
from dragoman.device import (
    CALLS_KEPT,
    PRODUCTS_KEPT,
    deterministic_algorithms,
    select_device,
    select_precision,
    tune_cpu,
)
from dragoman.errors import UserError

CPU = torch.device("cpu")
VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", "cpu:x"])
def test_a_device_that_is_not_available_is_named(name: str) -> None:
    with pytest.raises(UserError, match=name):
        select_device(name)


def test_the_cpu_can_be_selected() -> None:
    assert select_device("cpu") == CPU
    assert select_device("auto").type in ("cpu", "cuda")


@pytest.mark.parametrize(("has", "expected"), [(True, "bf16"), (False, "fp32")])
def test_bf16_is_selected_if_the_hardware_has_it(monkeypatch: pytest.MonkeyPatch, has: bool, expected: str) -> None:
    monkeypatch.setattr(device, "cpu_has_bf16", lambda: has)
    assert select_precision("auto", CPU) == expected
    assert select_precision("fp32", CPU) == "fp32"
    assert select_precision("bf16", CPU) == "bf16"


def test_small_caches_are_set_unless_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")  # makes monkeypatch restore the variable after the test
        monkeypatch.delenv(name)
    tune_cpu()
    assert [os.environ[name] for name in VARIABLES] == [str(PRODUCTS_KEPT), str(CALLS_KEPT)]
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    tune_cpu()
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"


def test_deterministic_algorithms_are_enabled_only_inside_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "1")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    with deterministic_algorithms(True):
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.are_deterministic_algorithms_enabled()
    with deterministic_algorithms(False):
        assert not torch.are_deterministic_algorithms_enabled()
