"""Greedy search and sampling with models of known probabilities."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from dragoman.errors import UserError
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.random_streams import uniforms
from dragoman.search.results import Hypothesis
from dragoman.search.sampling import draw, greedy_search, sample
from dragoman.text.subwords import BOS, EOS
from tests.support.table_model import CPU, TableModel, constant_model

LIMITS = SearchConfig(max_length_factor=0, max_length_offset=12, min_length_offset=0)


def test_greedy_search_takes_the_most_probable_token_each_time() -> None:
    model = TableModel.random(5, rows=8, words=6)
    hypotheses = greedy_search(model, model.start(), [0] * 8, LIMITS, CPU)
    assert len({len(hypothesis.tokens) for hypothesis in hypotheses}) > 2
    for row, hypothesis in enumerate(hypotheses):
        output = [BOS, BOS]
        while output[-1] != EOS and len(output) < 2 + 12:
            allowed = model.log_probabilities[row, output[-2], output[-1]].clone()
            allowed[:3] = -math.inf
            output.append(int(allowed.argmax()))
        tokens = [token for token in output[2:] if token != EOS]
        assert list(hypothesis.tokens) == tokens
        assert hypothesis.finished == (output[-1] == EOS or model.ends_after(row, tokens))
        expected = model.log_probability(row, tokens)
        assert math.isclose(hypothesis.log_probability, expected, abs_tol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_keeping_finished_rows_does_not_change_the_outputs(seed: int) -> None:
    model = TableModel.random(seed, rows=8, words=6)
    lengths, prefixes = [0, 1, 2, 3, 4, 5, 6, 7], [[], [4], [], [], [5, 6], [], [], []]
    config = SearchConfig(max_length_offset=5, min_length_offset=0, length_penalty=0.6)
    expected = greedy_search(model, model.start(), lengths, config, CPU, prefixes)
    rows_of_steps = model.rows_of_steps.copy()
    assert len(set(rows_of_steps)) > 1
    model.rows_of_steps.clear()
    assert greedy_search(model, model.start(), lengths, config, CPU, prefixes, keep_rows=True) == expected
    # The number of steps is the same, and each contains all rows.
    assert model.rows_of_steps == [8] * len(rows_of_steps)


def test_no_rows() -> None:
    model = TableModel.random(0)
    assert greedy_search(model, model.start(), [], LIMITS, CPU) == []
    assert sample(model, model.start(), [], LIMITS, SamplingConfig(), [], CPU) == []


def samples_of(model: TableModel, rows: list[int], keys: list[int], sampling: SamplingConfig) -> list[list[Hypothesis]]:
    state = model.start().reorder(torch.tensor(rows))
    return sample(model, state, [0] * len(rows), LIMITS, sampling, keys, CPU)


def test_samples_depend_only_on_the_row_and_the_seed() -> None:
    model = TableModel.random(2, rows=3, words=20)
    three = SamplingConfig(samples=3, seed=1)
    together = samples_of(model, [0, 1, 2], [10, 11, 12], three)
    assert samples_of(model, [2, 0, 1], [12, 10, 11], three) == [together[2], together[0], together[1]]
    assert samples_of(model, [1], [11], three) == [together[1]]
    # Sample i does not depend on the number of samples.
    assert samples_of(model, [1], [11], SamplingConfig(samples=1, seed=1)) == [together[1][:1]]
    # Other sample numbers, seeds and keys give other samples.
    assert len({hypothesis.tokens for hypothesis in together[1]}) == 3
    assert samples_of(model, [1], [11], SamplingConfig(samples=3, seed=2)) != [together[1]]
    assert samples_of(model, [1], [12], three) != [together[1]]


def test_random_streams_do_not_overlap_and_can_be_continued() -> None:
    streams = [uniforms(s, k, n, 50) for s in (0, 1) for k in (0, 2**64 - 1) for n in (0, 1)]
    assert len({float(x) for stream in streams for x in stream}) == 8 * 50
    # A longer part of a stream begins with the shorter one.
    np.testing.assert_array_equal(uniforms(3, 4, 5, 99)[:9], uniforms(3, 4, 5, 9))
    np.testing.assert_array_equal(uniforms(3, 4, 5, 99)[64:], uniforms(3, 4, 5, 35, start=64))


def test_log_probabilities_of_samples_are_those_of_the_model() -> None:
    model = TableModel.random(4, rows=1, words=10)
    sampling = SamplingConfig(temperature=3.0, top_k=5, samples=20)
    for hypothesis in samples_of(model, [0], [1], sampling)[0]:
        expected = model.log_probability(0, hypothesis.tokens)
        assert math.isclose(hypothesis.log_probability, expected, abs_tol=1e-4)


def test_sampling_with_low_temperature_or_top_k_of_one_is_greedy_search() -> None:
    model = TableModel.random(6, rows=3, words=10)
    greedy = greedy_search(model, model.start(), [0, 0, 0], LIMITS, CPU)
    for sampling in (SamplingConfig(temperature=1e-4), SamplingConfig(top_k=1)):
        assert [row[0].tokens for row in samples_of(model, [0, 1, 2], [1, 2, 3], sampling)] == [
            hypothesis.tokens for hypothesis in greedy
        ]


def test_samples_begin_with_prefixes_whose_log_probabilities_count() -> None:
    model = TableModel.random(8, rows=2, words=10)
    sampling, prefixes = SamplingConfig(samples=4), [[7, 8], []]
    samples = sample(model, model.start(), [0, 0], LIMITS, sampling, [1, 2], CPU, prefixes)
    for hypothesis in samples[0]:
        assert hypothesis.tokens[:2] == (7, 8)
        expected = model.log_probability(0, hypothesis.tokens)
        assert math.isclose(hypothesis.log_probability, expected, abs_tol=1e-4)


def test_the_maximum_length_ends_a_sample() -> None:
    model = constant_model([0, 0, 0, 0.01, 0.5, 0.49])
    (samples,) = samples_of(model, [0], [1], SamplingConfig(samples=50))
    unfinished = [hypothesis for hypothesis in samples if not hypothesis.finished]
    assert unfinished
    assert all(len(hypothesis.tokens) == 12 for hypothesis in unfinished)


# Probabilities of tokens 0 to 7. The expected distributions below are calculated by hand.
DISTRIBUTION = [0.3, 0.0, 0.05, 0.2, 0.15, 0.1, 0.05, 0.15]
HEATED = np.sqrt(DISTRIBUTION) / np.sqrt(DISTRIBUTION).sum()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (SamplingConfig(), DISTRIBUTION),
        (SamplingConfig(temperature=2.0), HEATED.tolist()),
        (SamplingConfig(top_k=2), [0.6, 0, 0, 0.4, 0, 0, 0, 0]),
        # Two tokens are equally probable in third place, and both are kept.
        (SamplingConfig(top_k=3), [0.375, 0, 0, 0.25, 0.1875, 0, 0, 0.1875]),
        (SamplingConfig(top_k=99), DISTRIBUTION),
        # For 0.45, a probability of 0.3 is not sufficient, but 0.3 + 0.2 is.
        (SamplingConfig(top_p=0.45), [0.6, 0, 0, 0.4, 0, 0, 0, 0]),
        (SamplingConfig(top_p=0.01), [1, 0, 0, 0, 0, 0, 0, 0]),
        # At least 0.12.
        (SamplingConfig(min_p=0.4), [0.375, 0, 0, 0.25, 0.1875, 0, 0, 0.1875]),
        (SamplingConfig(min_p=1.0), [1, 0, 0, 0, 0, 0, 0, 0]),
        # After top_k, the probabilities are 0.6 and 0.4, and 0.6 is sufficient for 0.55.
        (SamplingConfig(top_k=2, top_p=0.55), [1, 0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_frequencies_of_samples(sampling: SamplingConfig, expected: list[float]) -> None:
    # With evenly spaced numbers in place of random ones, frequencies are exact to one in N.
    N = 10_000
    uniform = (torch.arange(N, dtype=torch.float64) + 0.5) / N
    log_probabilities = torch.tensor(DISTRIBUTION).log().expand(N, 8)
    counts = Counter(draw(log_probabilities, uniform, sampling).tolist())
    for token, probability in enumerate(expected):
        assert abs(counts[token] / N - probability) < 2 / N


def test_sampling_with_the_smallest_and_the_largest_uniform_number() -> None:
    log_probabilities = torch.tensor([[-math.inf, 0.4, 0.6, -math.inf]] * 2)
    ends = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert draw(log_probabilities, ends, SamplingConfig()).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"min_p": 1.1}, "min_p"),
        ({"samples": 0}, "samples"),
        ({"samples": 10**9}, "samples must lie between 1 and 1,024, got 1000000000"),
        ({"temperature": 1e-300}, "temperature"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
    ],
)
def test_settings_out_of_range_are_rejected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SamplingConfig(**settings)  # type: ignore[arg-type]
