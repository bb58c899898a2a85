"""Batching: every pair occurs once per epoch, batches are within the budget, and every cursor resumes the stream."""

import dataclasses
import json
from collections import Counter
from itertools import islice, takewhile

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching import BatchingConfig, Cursor, batches, collate, sorted_batches
from dragoman.text.tokenizer import PAD

Array = npt.NDArray[np.int32]
PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60)
CONFIGS = st.builds(BatchingConfig, batch_tokens=st.integers(1, 200), window=st.integers(1, 70))
SEEDS = st.integers(0, 2**64)


def lengths(pairs: list[tuple[int, int]]) -> tuple[Array, Array]:
    table = np.array(pairs, dtype=np.int32)
    return table[:, 0], table[:, 1]


def check_budget(indices: npt.NDArray[np.int64], source: Array, target: Array, budget: int) -> None:
    width = max(source[indices].max(), target[indices].max()) + 1
    assert len(indices) == 1 or len(indices) * width <= budget


@given(PAIRS, CONFIGS, SEEDS, st.integers(0, 5))
def test_every_pair_occurs_once_per_epoch_within_the_budget(
    pairs: list[tuple[int, int]], config: BatchingConfig, seed: int, epoch: int
) -> None:
    source, target = lengths(pairs)
    seen: Counter[int] = Counter()
    for cursor, indices in batches(source, target, config, seed, Cursor(epoch=epoch)):
        check_budget(indices, source, target, config.batch_tokens)
        seen.update(indices.tolist())
        if cursor.epoch > epoch:
            assert cursor == Cursor(epoch=epoch + 1)
            break
    assert seen == Counter(range(len(pairs)))


@given(PAIRS, CONFIGS, SEEDS)
def test_any_cursor_resumes_the_stream(pairs: list[tuple[int, int]], config: BatchingConfig, seed: int) -> None:
    source, target = lengths(pairs)
    in_two_epochs = takewhile(lambda item: item[0].epoch < 2, batches(source, target, config, seed))
    stream = [(cursor, indices.tolist()) for cursor, indices in in_two_epochs]
    for index in range(0, len(stream), max(1, len(stream) // 7)):
        saved = json.dumps(dataclasses.asdict(stream[index][0]))
        resumed = batches(source, target, config, seed, Cursor(**json.loads(saved)))
        rest = stream[index + 1 :]
        assert [(c, i.tolist()) for c, i in islice(resumed, len(rest))] == rest


@given(PAIRS, st.integers(1, 200))
def test_sorted_batches_cover_all_pairs_once(pairs: list[tuple[int, int]], budget: int) -> None:
    source, target = lengths(pairs)
    all_indices = sorted_batches(source, target, budget)
    assert sorted(np.concatenate(all_indices).tolist()) == list(range(len(pairs)))
    for indices in all_indices:
        check_budget(indices, source, target, budget)


@given(st.lists(st.lists(st.integers(4, 99), max_size=9), min_size=1, max_size=6))
def test_masks_are_true_exactly_at_real_tokens(rows: list[list[int]]) -> None:
    batch = collate(rows, rows)
    for i, row in enumerate(rows):
        assert batch.source[i][batch.source_mask[i]].tolist()[:-1] == row
        assert batch.target_in[i][batch.target_mask[i]].tolist()[1:] == row
        assert batch.target_out[i][batch.target_mask[i]].tolist()[:-1] == row
    for ids, mask in [
        (batch.source, batch.source_mask),
        (batch.target_in, batch.target_mask),
        (batch.target_out, batch.target_mask),
    ]:
        assert bool((ids[~mask] == PAD).all())
        assert bool((ids[mask] != PAD).all())
    assert batch.target_tokens == int(batch.target_mask.sum())
