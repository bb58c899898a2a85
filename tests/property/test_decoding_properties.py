"""Properties of search for arbitrary models, lines and batches."""

import math
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.search.beam import beam_search
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.sampling import greedy_search
from dragoman.text.segmenting import sentences
from tests.support.small_translator import WORDS, copy_translator, random_translator
from tests.support.table_model import CPU, TableModel, assert_same

seeds = st.integers(0, 2**32 - 1)
configs = st.builds(
    SearchConfig,
    beam=st.just(60),
    n_best=st.integers(1, 60),
    length_penalty=st.floats(0, 2),
    max_length_factor=st.sampled_from([0.0, 0.5]),
    max_length_offset=st.integers(1, 2),
    min_length_factor=st.just(0.0),
    min_length_offset=st.integers(0, 1),
)
prefixes = st.lists(st.lists(st.integers(4, 6), max_size=3), min_size=3, max_size=3)


@settings(deadline=None, max_examples=25)
@given(seeds, configs, prefixes)
def test_a_wide_beam_finds_the_best_outputs(seed: int, config: SearchConfig, prefixes: list[list[int]]) -> None:
    model = TableModel.random(seed)
    lengths = [0, 1, 2]
    results = beam_search(model, model.start(), lengths, config, CPU, prefixes)
    for row, length in enumerate(lengths):
        expected = model.every_output(row, length, config, prefixes[row])[: config.n_best]
        assert len(results[row]) == len(expected)
        # Outputs whose scores are equal up to rounding may be in another order.
        for one, other in zip(results[row], expected, strict=True):
            assert math.isclose(one.score, other.score, abs_tol=1e-4)
            log_probability = model.log_probability(row, one.tokens)
            assert math.isclose(one.log_probability, log_probability, abs_tol=1e-4)


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(0, 5), st.floats(0, 2))
def test_a_beam_of_one_is_greedy_search(seed: int, offset: int, alpha: float) -> None:
    config = SearchConfig(beam=1, length_penalty=alpha, max_length_offset=offset + 1)
    model = TableModel.random(seed, words=6)
    beam = beam_search(model, model.start(), [0, 3, 6], config, CPU)
    assert_same([row for (row,) in beam], greedy_search(model, model.start(), [0, 3, 6], config, CPU))


words = st.lists(st.sampled_from([*WORDS, "lamp.", "on!", "7", "Ä", "打开。", "💡"]), max_size=12)
lines_of_words = st.lists(words.map(" ".join), min_size=1, max_size=6)
searches = st.sampled_from([SearchConfig(beam=beam, max_length_offset=6) for beam in (1, 3)])
samplings = st.sampled_from([None, SamplingConfig(samples=2, seed=9, top_p=0.9)])


@settings(deadline=None, max_examples=15)
@given(lines_of_words, st.randoms(use_true_random=False), st.integers(1, 300), searches, samplings)
def test_the_output_of_a_line_does_not_depend_on_other_lines(
    lines: list[str],
    random: Random,
    batch_tokens: int,
    search: SearchConfig,
    sampling: SamplingConfig | None,
) -> None:
    alone = random_translator(batch_tokens=1).translate(lines, search=search, sampling=sampling)
    order = random.sample(range(len(lines)), len(lines))
    together = random_translator(batch_tokens=batch_tokens).translate(
        [lines[i] for i in order], search=search, sampling=sampling
    )
    for one, other in zip((alone[i] for i in order), together, strict=True):
        assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]
        assert one.truncated == other.truncated
        assert math.isclose(one.log_probability, other.log_probability, abs_tol=1e-3)
        assert math.isclose(one.score, other.score, abs_tol=1e-3)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(max_size=40) | st.binary(max_size=40), max_size=6))
def test_there_is_one_translation_for_each_line(lines: list[str | bytes]) -> None:
    translator, _ = copy_translator(max_source_tokens=10)
    greedy = SearchConfig(beam=1)
    translations = translator.translate(lines, search=greedy)
    assert len(translations) == len(lines)
    assert translations == list(translator.translate_stream(iter(lines), search=greedy))
    for translation in translations:
        assert len(translation.text.splitlines()) <= 1
        assert "\0" not in translation.text


@settings(deadline=None)
@given(st.text(alphabet=".!?…。！？\"'”)」 ab\u3000", max_size=60))
def test_splitting_into_sentences_loses_nothing(line: str) -> None:
    parts = list(sentences(line))
    assert "".join(parts) == line
    assert all(parts)
