"""Collation, and the properties of the stream of batches in simple examples."""

import numpy as np
import pytest
import torch

from dragoman.data.batching import (
    BatchingConfig,
    Cursor,
    batches,
    collate,
    sorted_batches,
)
from dragoman.errors import UserError
from dragoman.text.tokenizer import BOS, EOS, PAD

LENGTHS = np.arange(1, 101)


def test_collate_writes_the_special_symbols_and_pads_at_the_end() -> None:
    batch = collate([[5, 6, 7], [8]], [np.array([9], dtype=np.uint16), []])
    assert batch.source.tolist() == [[5, 6, 7, EOS], [8, EOS, PAD, PAD]]
    assert batch.source_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.target_in.tolist() == [[BOS, 9], [BOS, PAD]]
    assert batch.target_out.tolist() == [[9, EOS], [EOS, PAD]]
    assert batch.target_mask.tolist() == [[True, True], [True, False]]
    assert batch.target_tokens == 3
    assert batch.source.dtype == batch.target_in.dtype == batch.target_out.dtype == torch.int64


def test_ids_that_equal_special_symbols_are_kept() -> None:
    batch = collate([[EOS, PAD]], [[EOS, PAD, BOS]])
    assert batch.target_in.tolist() == [[BOS, EOS, PAD, BOS]]
    assert batch.target_out.tolist() == [[EOS, PAD, BOS, EOS]]


def test_to_moves_every_tensor() -> None:
    batch = collate([[5]], [[6]]).to("meta")
    tensors = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 5
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert batch.target_tokens == 2


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    lengths = np.array([3, 500, 3, 3])
    split = sorted_batches(lengths, np.array([3, 3, 3, 3]), batch_tokens=12)
    assert [indices.tolist() for indices in split] == [[0, 2, 3], [1]]


def test_sorted_batches_go_from_short_to_long() -> None:
    split = sorted_batches(LENGTHS[::-1], LENGTHS[::-1], batch_tokens=200)
    assert np.concatenate(split).tolist() == list(range(99, -1, -1))
    assert sorted_batches(LENGTHS[:0], LENGTHS[:0], 100) == []


def first_epoch(seed: int, epoch: int = 0) -> list[list[int]]:
    config = BatchingConfig(batch_tokens=300, window=40)
    result = []
    for cursor, indices in batches(LENGTHS, LENGTHS, config, seed, Cursor(epoch=epoch)):
        result.append(indices.tolist())
        if cursor.epoch > epoch:
            break
    return result


def test_the_order_depends_only_on_seed_and_epoch() -> None:
    assert first_epoch(1) == first_epoch(1)
    assert first_epoch(1) != first_epoch(2)
    assert first_epoch(1) != first_epoch(1, epoch=1)


def test_batches_are_shuffled_within_a_window() -> None:
    longest = [max(indices) for indices in first_epoch(1)]
    assert longest != sorted(longest)


def test_batches_are_shuffled_again_in_each_epoch() -> None:
    # With one window of distinct lengths, every epoch consists of the same four batches.
    config = BatchingConfig(batch_tokens=3000, window=100)
    firsts = set()
    for epoch in range(10):
        _, indices = next(batches(LENGTHS, LENGTHS, config, 0, Cursor(epoch=epoch)))
        firsts.add(tuple(indices.tolist()))
    assert 1 < len(firsts) <= 4


def test_padding_is_small_on_realistic_lengths() -> None:
    generator = np.random.default_rng(0)
    source = np.clip(generator.lognormal(2.8, 0.7, 40_000), 1, 200).astype(np.int32)
    target = np.clip(source * generator.lognormal(0.05, 0.25, 40_000), 1, 200).astype(np.int32)
    real = padded = 0
    for cursor, rows in batches(source, target, BatchingConfig(), seed=0):
        real += int((source[rows] + target[rows] + 2).sum())
        padded += len(rows) * int(source[rows].max() + target[rows].max() + 2)
        if cursor.epoch == 1:
            break
    # Without sorting, 60 % would be padding.
    assert 1 - real / padded < 0.12


def test_wrong_cursors_and_empty_corpora_are_refused() -> None:
    config = BatchingConfig()
    for wrong in (Cursor(window=1), Cursor(batch=10**6), Cursor(window=-1), Cursor(batch=-1)):
        with pytest.raises(UserError, match="another corpus"):
            next(batches(LENGTHS, LENGTHS, config, 0, wrong))
    with pytest.raises(UserError, match="no pairs"):
        next(batches(LENGTHS[:0], LENGTHS[:0], config, 0))


@pytest.mark.parametrize("wrong", [{"batch_tokens": 0}, {"window": 0}])
def test_config_is_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match="at least 1"):
        BatchingConfig(**wrong)
