"""Packing of padded batches into rows of real tokens, and unpacking."""

import pytest
import torch
from torch import Tensor

from dragoman.packing import ROWS, Layout, Packed, Padded, layout_of


def masks(*lengths: int, width: int) -> Tensor:
    # [1, W] < [B, 1] -> [B, W]
    return torch.arange(width).unsqueeze(0) < torch.tensor(lengths).unsqueeze(1)


def test_rows_are_the_real_tokens_in_order() -> None:
    real = masks(2, 0, 3, width=3)
    packed = Packed(real)
    x = torch.arange(9.0).view(3, 3, 1)
    rows = packed.rows(x)
    assert rows[: packed.tokens, 0].tolist() == [0, 1, 6, 7, 8]
    assert len(rows) == ROWS
    assert packed.real.sum() == packed.tokens == 5
    assert torch.equal(packed.batch(rows)[real], x[real])
    assert torch.equal(packed.from_grid(packed.to_grid(rows))[:5], rows[:5])


def test_there_is_always_a_filler_row() -> None:
    packed = Packed(torch.ones(ROWS, 1, dtype=torch.bool))
    assert packed.tokens == ROWS
    assert len(packed.real) == 2 * ROWS


def test_attention_grids_have_few_shapes() -> None:
    grids = {Packed(torch.ones(1024 // width, width, dtype=torch.bool)).attendable.shape for width in range(64, 129)}
    assert len(grids) <= 18


def test_every_query_of_the_grid_has_a_key() -> None:
    packed = Packed(masks(4, 1, 17, width=17))
    assert packed.attendable.any(dim=1).all()
    assert packed.attendable[0].sum() == 4


def test_filler_rows_have_no_gradient() -> None:
    real = masks(1, 3, width=4)
    packed = Packed(real)
    rows = torch.randn(len(packed.real), 2, requires_grad=True)
    (packed.to_grid(rows).sum() + packed.batch(rows).sum()).backward()
    assert rows.grad is not None
    assert torch.equal(rows.grad[:, 0], 2.0 * packed.real)


def test_a_padded_layout_changes_nothing() -> None:
    real, x = masks(1, 3, width=4), torch.randn(2, 4, 5)
    layout = Padded(real)
    for same in (layout.rows(x), layout.batch(x), layout.to_grid(x), layout.from_grid(x)):
        assert same is x
    assert layout.mask is layout.real is layout.attendable is real


@pytest.mark.parametrize("kind", [Padded, Packed])
def test_values_are_in_the_order_of_the_rows(kind: type[Layout]) -> None:
    """There is one value for each row; in a packed layout, only those of tokens are returned."""
    real = masks(2, 0, 3, width=3)
    values, layout = torch.arange(9).view(3, 3), kind(real)
    actual = layout.values(values)
    if kind is Padded:
        assert actual.equal(values.flatten())
    else:
        assert actual.tolist() == [0, 1, 6, 7, 8]
    rows = layout.rows(values.unsqueeze(-1).float())[layout.real].flatten()
    assert rows.tolist() == values[real].tolist()


def test_batches_are_packed_on_a_cpu_only() -> None:
    assert layout_of(masks(1, 3, width=4)).packed
    assert not layout_of(torch.empty(2, 4, dtype=torch.bool, device="meta")).packed
