"""The printed NumPy example of the CS224u lecture on Transformers, d_k = 4."""

import pytest
import torch

from dragoman.attention import (
    NO_MASK,
    AttentionMask,
    naive_attention,
    scaled_dot_product_attention,
)

INPUTS = [
    [0.31436922, 0.66969307, 0.270804, 0.72023504],
    [0.87180132, 0.27637445, 0.43091867, 0.34138704],
    [0.20292054, 0.6345131, 0.01058343, 0.22846636],
]
# The third row attends to the first two.
THIRD = [0.57768027, 0.48390338, 0.34643646, 0.54128076]
# Every row attends to every row.
ALL = [
    [0.4614388, 0.53204444, 0.2451212, 0.45136127],
    [0.50173123, 0.50618272, 0.26184404, 0.43678288],
    [0.45493467, 0.5332328, 0.23643403, 0.4388242],
]


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "naive"])
def test_values_of_the_lecture(fast: bool) -> None:
    # [3, 4] -> [1, 1, 3, 4]: one sentence, one head
    x = torch.tensor(INPUTS, dtype=torch.float64).view(1, 1, 3, 4)

    def attend(query: torch.Tensor, key: torch.Tensor, mask: AttentionMask = NO_MASK) -> torch.Tensor:
        if fast:
            return scaled_dot_product_attention(query, key, key, mask)[0, 0]
        return naive_attention(query, key, key, mask)[0][0, 0]

    def assert_same(actual: torch.Tensor, expected: list[list[float]]) -> None:
        # The lecture prints eight decimal places.
        torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8)

    assert_same(attend(x[:, :, 2:], x[:, :, :2]), [THIRD])
    assert_same(attend(x, x), ALL)
    # The same with a mask: row 3 attends to rows 1 and 2, and the others attend to all rows.
    mask = AttentionMask(allowed=torch.tensor([[[True, True, True], [True, True, True], [True, True, False]]]))
    assert_same(attend(x, x, mask), [ALL[0], ALL[1], THIRD])
