"""Continuation of a text by a language model of known probabilities."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ModelError, UserError
from dragoman.search.config import ContinuationConfig, SamplingConfig, length_penalty
from dragoman.search.continuation import Continuation, Window
from dragoman.search.continuation_beam import continue_by_beam_search
from dragoman.search.language_backend import TorchLanguageBackend
from dragoman.search.results import Hypothesis
from dragoman.search.sampling import draw, penalise_repetition
from dragoman.text.subwords import BOS, EOS
from tests.support.table_language import TableLanguage, TableTextState, backend_of
from tests.support.table_model import TableModel, assert_same, constant_model

GREEDY = ContinuationConfig(beam=1, max_tokens=12)


def texts_of(continuation: Continuation[Any], most: int, group: int = 1) -> tuple[list[list[int]], list[float]]:
    """Return the tokens of each text, at most `most`, and the log-probability of each text."""
    rows = max(continuation.running) + 1
    tokens: list[list[int]] = [[] for _ in range(rows)]
    total = [0.0] * rows
    while continuation.running and (left := most - max(map(len, tokens))):
        for row, further, log_probabilities in continuation.advance(min(group, left)):
            tokens[row] += further
            total[row] += sum(log_probabilities)
    return tokens, total


def test_greedy_search_takes_the_most_probable_token_after_the_prompt() -> None:
    ended = 0
    for seed in range(6):
        table = TableModel.random(seed, rows=1, words=6)
        prompt = [BOS, 5, 4]
        [tokens], [total] = texts_of(Continuation(backend_of(table), prompt, GREEDY), 12)
        text, expected = list(prompt), 0.0
        while len(text) < 3 + 12 and text[-1] != EOS:
            probabilities = table.log_probabilities[0, text[-2], text[-1]]
            allowed = probabilities.clone()
            allowed[:3] = -math.inf
            text.append(int(allowed.argmax()))
            expected += float(probabilities[text[-1]])
        assert tokens == text[3:]
        assert math.isclose(total, expected, abs_tol=1e-4)
        ended += text[-1] == EOS
    assert 0 < ended < 6


def test_samples_follow_the_distribution_of_the_model() -> None:
    # All outputs of at most two tokens, with the probabilities that the model gives them.
    table = TableModel.random(3, rows=1, words=3)
    config = ContinuationConfig(sampling=SamplingConfig(samples=1024, seed=5))
    tokens, _ = texts_of(Continuation(backend_of(table), [BOS, 6], config), 2)
    counts = Counter(map(tuple, tokens))
    allowed = table.log_probabilities[0].exp().clone()
    allowed[..., :3] = 0
    allowed /= allowed.sum(-1, keepdim=True)
    expected: dict[tuple[int, ...], float] = {(EOS,): float(allowed[BOS, 6, EOS])}
    for first, second in itertools.product(range(4, 7), range(3, 7)):
        expected[first, second] = float(allowed[BOS, 6, first] * allowed[6, first, second])
    assert math.isclose(sum(expected.values()), 1, abs_tol=1e-5)
    for output, probability in expected.items():
        # Four standard deviations.
        assert abs(counts[output] / 1024 - probability) < 4 * math.sqrt(probability * (1 - probability) / 1024)


def test_a_sample_depends_only_on_the_prompt_the_seed_and_its_number() -> None:
    model = backend_of(TableModel.random(2, rows=1, words=60))

    def samples(prompt: list[int], count: int, seed: int) -> list[list[int]]:
        config = ContinuationConfig(sampling=SamplingConfig(samples=count, seed=seed))
        # More than one block of random numbers.
        return texts_of(Continuation(model, prompt, config), 80)[0]

    three = samples([BOS], 3, 1)
    assert max(map(len, samples([BOS], 30, 1))) > 64
    assert samples([BOS], 2, 1) == three[:2]
    assert samples([BOS], 3, 2) != three
    assert samples([BOS, 5], 3, 1) != three
    assert len(set(map(tuple, three))) == 3


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_the_size_of_the_groups_does_not_change_the_tokens(penalty: float) -> None:
    table = TableModel.random(2, rows=1, words=60)
    config = ContinuationConfig(sampling=SamplingConfig(samples=5, seed=3), repetition_penalty=penalty)
    expected = texts_of(Continuation(backend_of(table), [BOS, 7], config), 100)
    for group in (3, 64, 100):
        tokens, total = texts_of(Continuation(backend_of(table), [BOS, 7], config), 100, group)
        assert tokens == expected[0]
        assert total == pytest.approx(expected[1], rel=1e-5)


def test_texts_that_the_caller_ends_leave_the_batch() -> None:
    table = TableModel.random(2, rows=1, words=20)
    config = ContinuationConfig(sampling=SamplingConfig(samples=4))
    expected, _ = texts_of(Continuation(backend_of(table), [BOS], config), 6)
    assert all(len(tokens) > 1 for tokens in expected)
    model = TableLanguage(table)
    continuation = Continuation(TorchLanguageBackend(model), [BOS], config)
    first = continuation.advance()
    continuation.end([0, 2])
    assert continuation.running == [1, 3]
    rest, _ = texts_of(continuation, 5)
    for row in (1, 3):
        assert first[row].tokens + rest[row] == expected[row]
    assert [len(texts) for texts in model.texts[:2]] == [4, 2]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_very_wide_beam_is_exhaustive_search(alpha: float, seed: int) -> None:
    table = TableModel.random(seed, rows=1)
    prompt, most = [BOS, 4, 6], 4
    config = ContinuationConfig(beam=130, n_best=130, max_tokens=most, length_penalty=alpha)
    outputs = []
    for length in range(most + 1):
        for tokens in itertools.product((4, 5, 6), repeat=length):
            # A text of the maximum length is cut there; a shorter one ends with EOS.
            text = [*prompt, *tokens, *([EOS] if length < most else [])]
            total = sum(
                float(table.log_probabilities[0, a, b, c])
                for a, b, c in zip(text[1:], text[2:], text[3:], strict=False)
            )
            outputs.append(
                Hypothesis(
                    tokens=tokens,
                    log_probability=total,
                    score=total / length_penalty(length + 1, alpha),
                    finished=length < most,
                )
            )
    results = continue_by_beam_search(backend_of(table), prompt, config)
    # Different outputs may have equal probabilities: scores are compared in the order of the ranks.
    assert_same(sorted(results, key=lambda one: one.tokens), sorted(outputs, key=lambda one: one.tokens))
    ranked = sorted((output.score for output in outputs), reverse=True)
    assert [result.score for result in results] == pytest.approx(ranked, abs=1e-4)


def test_a_repetition_penalty_counts_the_prompt_and_the_text() -> None:
    # Of five words with similar logits, each is taken once.
    probabilities = [0.0, 0.0, 0.0, 0.01, 0.24, 0.23, 0.22, 0.2, 0.1]
    config = ContinuationConfig(beam=1, repetition_penalty=5.0)
    [tokens], _ = texts_of(Continuation(backend_of(constant_model(probabilities)), [BOS, 5], config), 4)
    assert tokens == [4, 6, 7, 8]
    without = Continuation(backend_of(constant_model(probabilities)), [BOS, 5], GREEDY)
    assert texts_of(without, 4)[0] == [[4, 4, 4, 4]]


def test_a_repetition_penalty_never_makes_a_token_more_probable() -> None:
    logits = torch.tensor([[2.0, 0.0, -2.0, 1.0]])
    occurred = torch.tensor([[True, True, True, False]])
    assert penalise_repetition(logits, occurred, 2.0).tolist() == [[1.0, 0.0, -4.0, 1.0]]


@given(
    st.lists(st.floats(-6, 6, width=32), min_size=2, max_size=9),
    st.floats(0.2, 3),
    st.none() | st.integers(1, 9),
    st.floats(0.05, 1),
    st.floats(0, 1),
)
def test_a_draw_has_the_distribution_of_its_definition(
    logits: list[float], temperature: float, top_k: int | None, top_p: float, min_p: float
) -> None:
    # Brute force over the definition: sort, keep, normalise.
    scaled = [math.exp(x / temperature - max(logits) / temperature) for x in logits]
    order = sorted(range(len(logits)), key=lambda i: (-scaled[i], i))
    if top_k is not None and top_k < len(order):
        order = [i for i in order if scaled[i] >= scaled[order[top_k - 1]]]
    total, before, kept = sum(scaled[i] for i in order), 0.0, []
    borderline = False
    for i in order:
        borderline |= abs(before / total - top_p) < 1e-9 or abs(scaled[i] - min_p) < 1e-9
        if before / total < top_p and scaled[i] >= min_p:
            kept.append(i)
        before += scaled[i]
    if borderline and top_p < 1:
        return
    expected = {i: scaled[i] / sum(scaled[j] for j in kept) for i in kept}
    N = 2000
    uniform = (torch.arange(N, dtype=torch.float64) + 0.5) / N
    sampling = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    counts = Counter(draw(torch.tensor(logits).double().expand(N, -1), uniform, sampling).tolist())
    for i in range(len(logits)):
        assert abs(counts[i] / N - expected.get(i, 0.0)) < 2 / N


def counting() -> TableLanguage:
    """Return a model in which token n + 1 follows token n, and which never ends a text."""
    table = torch.full((1, 60, 60, 60), -20.0)
    for token in range(59):
        table[0, :, token, token + 1] = 0.0
    return TableLanguage(TableModel(table))


@pytest.mark.parametrize("group", [1, 5])
@pytest.mark.parametrize("size", [2, 3, 6, 7])
def test_a_full_window_is_continued_from_its_last_half(size: int, group: int) -> None:
    model, full = counting(), []
    window = Window(TorchLanguageBackend(model), size, lambda: full.append(len(model.texts)))
    continuation: Continuation[Any] = Continuation(window, [10, 11, 12], GREEDY)
    [tokens], _ = texts_of(continuation, 12, group)
    assert tokens == list(range(13, 25))
    # Before each prediction the window is extended by one token; a full one begins again with its last half.
    expected, text = [], [10, 11]
    for token in range(12, 24):
        if len(text) == size:
            text = text[len(text) - size // 2 :]
        text = [*text, token]
        expected.append([text])
    assert model.texts == expected
    assert full


def test_a_prompt_longer_than_the_window_is_cut_to_its_last_half() -> None:
    model, full = counting(), []
    window = Window(TorchLanguageBackend(model), 6, lambda: full.append(1))
    continuation: Continuation[Any] = Continuation(window, list(range(10, 30)), GREEDY)
    assert full == [1]
    assert continuation.advance()[0].tokens == [30]
    assert model.texts == [[[26, 27, 28, 29]]]


def test_a_window_follows_each_text_when_rows_are_reordered() -> None:
    window = Window(TorchLanguageBackend(counting()), 4)
    state = window.read(np.array([[10, 11, 12], [20, 21, 22]]), window.start(2)).reorder([1, 0, 1])
    for _ in range(2):
        _, state = window.step(np.array([30, 31, 32]), state)
    inner = state.inner.inner
    assert isinstance(inner, TableTextState)
    assert inner.tokens.tolist() == [[22, 30, 30], [12, 31, 31], [22, 32, 32]]
    assert state.length == 3


def test_scores_are_the_log_probabilities_of_the_next_tokens() -> None:
    table = TableModel.random(4, rows=1, words=5)
    backend = backend_of(table)
    tokens = np.array([[BOS, 4, 5, 6], [BOS, 7, 7, 8]])
    state = backend.read(tokens[:, :1], backend.start(2))
    scores, state = backend.score(tokens[:, 1:-1], tokens[:, 2:], state)
    further, _ = backend.score(tokens[:, -1:], np.array([[EOS], [4]]), state)
    texts = [[*tokens[0].tolist(), EOS], [*tokens[1].tolist(), 4]]
    expected = [
        [float(table.log_probabilities[0, a, b, c]) for a, b, c in zip(text, text[1:], text[2:], strict=False)]
        for text in texts
    ]
    np.testing.assert_allclose(np.concatenate([scores, further], 1), expected, rtol=1e-5)


def test_a_model_in_training_is_in_evaluation_mode_only_while_it_runs() -> None:
    model = TableLanguage(TableModel.random(1, rows=1)).train()
    backend = TorchLanguageBackend(model)
    modes = []
    read = model.read
    model.read = lambda *arguments: modes.append(model.training) or read(*arguments)  # type: ignore[method-assign, func-returns-value]
    Continuation(backend, [BOS, 4], GREEDY).advance()
    assert modes == [False, False]
    assert model.training


def test_probabilities_that_are_not_finite_are_an_error() -> None:
    model = backend_of(TableModel(torch.full((1, 7, 7, 7), math.nan)))
    with pytest.raises(FloatingPointError, match="not finite"):
        Continuation(model, [BOS], GREEDY).advance()
    with pytest.raises(FloatingPointError, match="not finite"):
        continue_by_beam_search(model, [BOS], ContinuationConfig(beam=2))


def test_a_vocabulary_of_special_tokens_only_is_an_error() -> None:
    model = backend_of(constant_model([0.25] * 4))
    with pytest.raises(ModelError, match="no tokens except special ones"):
        Continuation(model, [BOS], GREEDY).advance()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 0}, "max_tokens must lie between 1 and"),
        ({"repetition_penalty": 0.9}, "repetition_penalty must lie between 1"),
        ({"repetition_penalty": math.nan}, "repetition_penalty must lie between 1"),
        ({"n_best": 2}, "set a beam, or sampling.samples"),
        ({"beam": 0}, "beam must lie between 1 and 200"),
        ({"beam": 2, "n_best": 3}, "n_best must lie between 1 and the beam"),
        ({"beam": 2, "repetition_penalty": 1.1}, "not available with beam search"),
        ({"beam": 2, "max_tokens": 5000}, "at most 4,096 tokens, but max_tokens is 5,000"),
    ],
)
def test_settings_out_of_range_are_rejected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ContinuationConfig(**settings)  # type: ignore[arg-type]
