"""Beam search, compared with an exhaustive list of all outputs."""

import math

import pytest
import torch

from dragoman.errors import UserError
from dragoman.search.beam import beam_search
from dragoman.search.config import SearchConfig, length_penalty
from dragoman.search.results import Hypothesis
from dragoman.search.sampling import greedy_search
from dragoman.text.subwords import BOS, EOS
from tests.support.table_model import CPU, TableModel, assert_same, constant_model

# More than the number of outputs of up to four tokens with three words: 1 + 3 + 9 + 27 + 81.
EXHAUSTIVE = 130


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
@pytest.mark.parametrize("n_best", [1, 3, EXHAUSTIVE])
def test_a_very_wide_beam_is_exhaustive_search(alpha: float, n_best: int) -> None:
    config = SearchConfig(
        beam=EXHAUSTIVE,
        n_best=n_best,
        length_penalty=alpha,
        max_length_factor=0.5,
        max_length_offset=2,
        min_length_offset=0,
    )
    lengths = [0, 2, 4]  # outputs of at most 2, 3 and 4 tokens
    for seed in range(5):
        model = TableModel.random(seed)
        results = beam_search(model, model.start(), lengths, config, CPU)
        for row, length in enumerate(lengths):
            assert_same(results[row], model.every_output(row, length, config)[:n_best])


def test_minimum_length_and_prefixes_of_different_lengths() -> None:
    config = SearchConfig(
        beam=EXHAUSTIVE,
        n_best=EXHAUSTIVE,
        max_length_factor=0,
        max_length_offset=3,
        min_length_offset=2,
    )
    model = TableModel.random(7)
    # The last prefix is longer than the maximum length, so it is the complete output.
    prefixes = [[], [5], [6, 4, 4, 5]]
    results = beam_search(model, model.start(), [9, 9, 9], config, CPU, prefixes)
    for row, prefix in enumerate(prefixes):
        assert_same(results[row], model.every_output(row, 9, config, prefix))
    assert [hypothesis.tokens for hypothesis in results[2]] == [(6, 4, 4, 5)]


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_of_one_is_greedy_search(alpha: float) -> None:
    config = SearchConfig(beam=1, length_penalty=alpha, max_length_offset=6)
    for seed in range(20):
        model = TableModel.random(seed, rows=4, words=5)
        prefixes = [[], [4], [5, 6], []]
        beam = beam_search(model, model.start(), [1, 2, 3, 4], config, CPU, prefixes)
        greedy = greedy_search(model, model.start(), [1, 2, 3, 4], config, CPU, prefixes)
        assert_same([row for (row,) in beam], greedy)


def simple_beam_search(model: TableModel, row: int, length: int, config: SearchConfig) -> list[Hypothesis]:
    """Beam search of a single row with lists, and without the exact stopping criterion."""
    K, maximum = config.beam, config.maximum_length(length)
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    for position in range(maximum + 1):
        candidates = []
        for total, tokens in running:
            before, last = [BOS, BOS, *tokens][-2:]
            continuations = [EOS] if position >= config.minimum_length(length) else []
            if position < maximum:
                continuations += range(4, model.log_probabilities.size(-1))
            for token in continuations:
                log_probability = float(model.log_probabilities[row, before, last, token])
                candidates.append((total + log_probability, (*tokens, token)))
        candidates.sort(reverse=True)
        for total, tokens in candidates[:K]:
            if tokens[-1] == EOS:
                finished.append(
                    Hypothesis(
                        tokens=tokens[:-1],
                        log_probability=total,
                        score=total / length_penalty(len(tokens), config.length_penalty),
                        finished=position < maximum or model.ends_after(row, tokens[:-1]),
                    )
                )
        running = [candidate for candidate in candidates if candidate[1][-1] != EOS][:K]
        finished.sort(key=lambda hypothesis: -hypothesis.score)
        if len(finished) >= K and running:
            best_running = running[0][0] / length_penalty(position + 1, config.length_penalty)
            if finished[config.n_best - 1].score >= best_running:
                break
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[: config.n_best]


def test_improbable_outputs_that_end_early_do_not_end_the_search() -> None:
    # The probable output is 4 5 6 7 8; at each position EOS is the best of the improbable alternatives.
    probabilities = torch.full((1, 9, 9, 9), 1e-4)
    probabilities[..., EOS] = 0.01
    for last, following in ((BOS, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, EOS)):
        probabilities[:, :, last, following] = 0.9
    model = TableModel(probabilities.log())
    (best,) = beam_search(model, model.start(), [0], SearchConfig(beam=4), CPU)[0]
    assert best.tokens == (4, 5, 6, 7, 8)


@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_narrow_beam_equals_the_simple_implementation(beam: int, alpha: float) -> None:
    lengths = [2, 5, 8]
    for seed in range(15):
        model = TableModel.random(seed, words=5)
        for n_best in {1, beam}:
            config = SearchConfig(beam=beam, n_best=n_best, length_penalty=alpha, max_length_offset=1)
            results = beam_search(model, model.start(), lengths, config, CPU)
            for row, length in enumerate(lengths):
                assert_same(results[row], simple_beam_search(model, row, length, config))


def test_a_row_has_the_same_hypotheses_alone_and_in_a_batch() -> None:
    config = SearchConfig(beam=3, n_best=3, max_length_factor=1, max_length_offset=3)
    model = TableModel.random(1, rows=6, words=6)
    lengths = [5, 1, 9, 2, 2, 0]
    together = beam_search(model, model.start(), lengths, config, CPU)
    for row, length in enumerate(lengths):
        alone = TableModel(model.log_probabilities[row : row + 1])
        assert together[row] == beam_search(alone, alone.start(), [length], config, CPU)[0]


def test_hypotheses_are_sorted_and_have_the_right_scores() -> None:
    config = SearchConfig(beam=5, n_best=5, length_penalty=1.0, max_length_offset=8)
    model = TableModel.random(3, words=8)
    for row, hypotheses in enumerate(beam_search(model, model.start(), [0, 0, 0], config, CPU)):
        assert len(hypotheses) == 5
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == 5
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            expected = model.log_probability(row, hypothesis.tokens)
            assert math.isclose(hypothesis.log_probability, expected, abs_tol=1e-4)
            totals = [
                model.log_probability(row, hypothesis.tokens[: position + 1], ended=False)
                for position in range(len(hypothesis.tokens))
            ]
            assert hypothesis.totals == pytest.approx(totals, abs=1e-4)
            normalised = expected / length_penalty(len(hypothesis.tokens) + 1, 1.0)
            assert math.isclose(hypothesis.score, normalised, abs_tol=1e-4)


def test_the_length_penalty_of_the_paper() -> None:
    # Wu et al. (2016), equation 14, calculated by hand: ((5 + 7) / 6) ** 0.6
    assert length_penalty(7, 0.6) == pytest.approx(1.5157165665)
    assert length_penalty(7, 0.0) == 1
    assert length_penalty(1, 0.6) == 1


def test_a_hypothesis_that_the_maximum_length_ends_is_not_finished() -> None:
    model = constant_model([0, 0, 0, 0.1, 0.6, 0.3])  # EOS is never the most probable token
    config = SearchConfig(beam=2, n_best=2, max_length_factor=1, max_length_offset=2)
    best, _ = beam_search(model, model.start(), [3], config, CPU)[0]
    assert best.tokens == (4,) * 5
    assert not best.finished
    # The forced EOS counts, as in `score`.
    assert best.log_probability == pytest.approx(5 * math.log(0.6) + math.log(0.1))


def test_special_symbols_are_not_generated_and_probabilities_are_not_renormalised() -> None:
    model = constant_model([0.3, 0.3, 0.3, 0.04, 0.06])
    config = SearchConfig(beam=2, max_length_offset=1)
    (best,) = beam_search(model, model.start(), [0], config, CPU)[0]
    assert best.tokens == (4,)
    assert best.log_probability == pytest.approx(math.log(0.06) + math.log(0.04))


def test_finished_rows_leave_the_batch() -> None:
    short = [0.0, 0.0, 0.0, 0.9, 0.06, 0.04]
    long = [0.0, 0.0, 0.0, 0.01, 0.5, 0.49]
    tables = [constant_model(p).log_probabilities for p in (short, long, short)]
    model = TableModel(torch.cat(tables))
    config = SearchConfig(beam=2, min_length_offset=0, max_length_offset=9)
    beam_search(model, model.start(), [0, 0, 0], config, CPU)
    # Six hypotheses at first. In two rows, the first EOS (0.9) gives the best output, so two hypotheses remain.
    assert model.rows_of_steps == [6] + [2] * 9


def test_search_stops_when_no_better_output_is_possible() -> None:
    # With alpha = 0, a longer output is never better, so the first finished hypothesis among the best is final.
    model = constant_model([0, 0, 0, 0.4, 0.6 - 1e-6, 1e-6])
    config = SearchConfig(beam=4, length_penalty=0.0, min_length_offset=0, max_length_factor=0, max_length_offset=50)
    (best,) = beam_search(model, model.start(), [0], config, CPU)[0]
    assert best.tokens == ()
    # Two steps are sufficient, since 0.6 ** 2 < 0.4.
    assert len(model.rows_of_steps) == 2


def test_a_longer_output_may_have_a_higher_score_than_a_finished_one() -> None:
    # The first EOS is more probable (0.4 > 0.6 ** 4 * 0.4), but with a large alpha longer outputs have higher scores.
    model = constant_model([0, 0, 0, 0.4, 0.6])
    config = SearchConfig(beam=8, length_penalty=3.0, min_length_offset=0, max_length_factor=0, max_length_offset=4)
    (best,) = beam_search(model, model.start(), [0], config, CPU)[0]
    assert_same([best], model.every_output(0, 0, config)[:1])
    assert best.tokens == (4, 4, 4, 4)


def test_no_rows() -> None:
    model = TableModel.random(0)
    assert beam_search(model, model.start(), [], SearchConfig(), CPU) == []


def test_probabilities_that_are_not_finite_raise_an_error() -> None:
    model = TableModel(torch.full((1, 6, 6, 6), math.nan))
    for beam in (1, 4):
        with pytest.raises(FloatingPointError, match="diverged"):
            beam_search(model, model.start(), [2], SearchConfig(beam=beam), CPU)


def test_lengths_are_bounded_for_any_source() -> None:
    config = SearchConfig(max_length_factor=4096, min_length_factor=4096, max_length_offset=4096)
    for source_length in (1, 4096, 10**12):
        assert config.minimum_length(source_length) == config.maximum_length(source_length) == 4096


def test_outputs_longer_than_the_initial_capacity() -> None:
    V = 7
    # Each word is followed by the previous one of three words, and never by EOS.
    table = torch.full((1, V, V, V), -20.0)
    for last in range(V):
        table[0, :, last, 4 + (last - 3) % 3] = -0.1
    model = TableModel(table)
    for length in (63, 64, 65, 300):
        config = SearchConfig(beam=3, max_length_factor=0, max_length_offset=length)
        [[best]] = beam_search(model, model.start(), [2], config, CPU)
        [greedy] = greedy_search(model, model.start(), [2], config, CPU)
        assert best.tokens == greedy.tokens == tuple([6, 4, 5] * 100)[:length]
        assert not best.finished


def test_a_prefix_must_not_contain_special_symbols() -> None:
    model = TableModel.random(0, rows=1)
    with pytest.raises(AssertionError):
        beam_search(model, model.start(), [2], SearchConfig(), CPU, [[EOS]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam must lie between 1 and 200, got 0"),
        ({"beam": 201}, "beam must lie between 1 and 200, got 201"),
        ({"n_best": 5}, "n_best must lie between 1 and the beam"),
        ({"n_best": 0}, "n_best must lie between 1 and the beam"),
        ({"length_penalty": -0.1}, "length_penalty"),
        ({"length_penalty": math.nan}, "length_penalty"),
        ({"length_penalty": 1e3}, "length_penalty must be a number between 0 and 10, got 1000.0"),
        ({"max_length_factor": math.inf}, "length factors"),
        ({"max_length_factor": 1e300}, r"length factors .* 4,096 \(the longest output\)"),
        ({"max_length_offset": 2_147_483_643}, r"length offsets .* 4,096 \(the longest output\)"),
        ({"min_length_factor": 2.0}, "length factors"),
        ({"max_length_offset": 0, "min_length_offset": 0}, "length offsets"),
        ({"min_length_offset": 51}, "length offsets"),
    ],
)
def test_settings_out_of_range_are_rejected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SearchConfig(**settings)  # type: ignore[arg-type]
