"""Differentiable augmentation of pictures."""

import pytest
import torch

from dragoman.training.augmentation import AUGMENTATIONS, augment


def pictures(count: int = 6, size: int = 16) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.rand(count, 3, size, size) * 2 - 1


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_pictures_change_in_different_ways_and_the_same_seed_gives_the_same(name: str) -> None:
    images = pictures()
    torch.manual_seed(1)
    changed = augment(images, [name])
    torch.manual_seed(1)
    assert torch.equal(augment(images, [name]), changed)
    assert changed.shape == images.shape
    assert not torch.equal(changed, images)
    same = augment(images[:1].expand(6, -1, -1, -1), [name])
    assert any(not torch.equal(same[0], other) for other in same[1:])


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_the_gradient_flows_through(name: str) -> None:
    images = pictures(2, 8).double().requires_grad_()

    def change(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        return augment(x, [name])

    assert torch.autograd.gradcheck(change, (images,))


def test_without_names_nothing_changes() -> None:
    images = pictures()
    assert torch.equal(augment(images, ()), images)


def test_translation_moves_whole_pictures_and_repeats_their_edges() -> None:
    torch.manual_seed(1)
    images = torch.rand(50, 2, 16, 16)
    moved = AUGMENTATIONS["translation"](images)
    shifts = set()
    for before, after in zip(images, moved, strict=True):
        matches = [
            (row, column)
            for row in range(-2, 3)
            for column in range(-2, 3)
            if torch.equal(
                after,
                before[:, (torch.arange(16) + row).clamp(0, 15)][:, :, (torch.arange(16) + column).clamp(0, 15)],
            )
        ]
        assert len(matches) == 1
        shifts.add(matches[0])
    assert len(shifts) > 10


def test_cutout_removes_at_most_a_quarter() -> None:
    cut = AUGMENTATIONS["cutout"](torch.ones(200, 1, 16, 16))
    shares = (cut == 0).float().mean(dim=(1, 2, 3))
    assert shares.max() == 0.25
    assert shares.min() >= 1 / 16 - 1e-6
