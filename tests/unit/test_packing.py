"""Rows instead of padded batches: the same numbers, the same gradients."""

from unittest import mock

import pytest
import torch
from torch import Tensor

from dragoman.models import transformer
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.transformer import build_transformer
from dragoman.packing import ROWS, Packing
from dragoman.settings import from_mapping, to_mapping
from dragoman.training.loss import label_smoothed_loss
from tests.support.tiny import tiny


def masks(*lengths: int, width: int) -> Tensor:
    # [1, W] < [B, 1] -> [B, W]
    return torch.arange(width).unsqueeze(0) < torch.tensor(lengths).unsqueeze(1)


def test_rows_are_the_real_tokens_in_order() -> None:
    real = masks(2, 0, 3, width=3)
    packing = Packing(real)
    x = torch.arange(9.0).view(3, 3, 1)
    rows = packing.pack(x)
    assert rows[: packing.tokens, 0].tolist() == [0, 1, 6, 7, 8]
    assert len(rows) == ROWS
    assert packing.real.sum() == packing.tokens == 5
    assert torch.equal(packing.unpack(rows)[real], x[real])
    assert torch.equal(packing.from_grid(packing.to_grid(rows))[:5], rows[:5])


def test_there_is_always_a_row_that_is_no_token() -> None:
    packing = Packing(torch.ones(ROWS, 1, dtype=torch.bool))
    assert packing.tokens == ROWS
    assert len(packing.real) == 2 * ROWS


def test_few_shapes() -> None:
    grids = {Packing(torch.ones(1024 // width, width, dtype=torch.bool)).attended.shape for width in range(64, 129)}
    assert len(grids) <= 18


def test_every_query_of_the_grid_has_a_key() -> None:
    packing = Packing(masks(4, 1, 17, width=17))
    assert packing.attended.any(dim=1).all()
    assert packing.attended[0].sum() == 4


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm_placement": "pre"}, {"norm": "batch"}, {"norm": "rms", "positions": "rotary", "activation": "swiglu"}],
    ids=str,
)
def test_a_packed_model_equals_a_padded_one(changes: dict[str, object]) -> None:
    torch.manual_seed(0)
    config = from_mapping(
        TransformerConfig, {**to_mapping(tiny(50, 50, joint=True)), **changes, "dropout": 0.0}, "test"
    )
    model = build_transformer(config).double().train()
    source_mask, target_mask = masks(5, 1, 9, 17, width=17), masks(2, 8, 1, 7, width=8)
    source, target = torch.randint(4, 50, (4, 17)), torch.randint(4, 50, (4, 8))
    outcomes = []
    for packed in (True, False):
        model.zero_grad()
        with mock.patch.object(transformer, "packing_of", Packing if packed else lambda real: None):
            states = model.decode_states(target, model.encode(source, source_mask), target_mask)
        loss, tokens = label_smoothed_loss(states, model.output.weight, target, target_mask, 0.1)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        outcomes.append((states[target_mask].detach(), loss.detach(), tokens, gradients))
    (states, loss, tokens, gradients), (padded_states, padded_loss, padded_tokens, padded_gradients) = outcomes
    assert tokens == padded_tokens == 18
    torch.testing.assert_close(states, padded_states)
    torch.testing.assert_close(loss, padded_loss)
    torch.testing.assert_close(gradients, padded_gradients)


def test_rows_that_are_no_token_take_no_part_in_gradients() -> None:
    real = masks(1, 3, width=4)
    packing = Packing(real)
    rows = torch.randn(len(packing.real), 2, requires_grad=True)
    (packing.to_grid(rows).sum() + packing.unpack(rows).sum()).backward()
    assert rows.grad is not None
    assert torch.equal(rows.grad[:, 0], 2.0 * packing.real)
