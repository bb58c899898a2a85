"""For any requests, in any order and any combination, the native engine returns what torch returns."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.native.backend import NativeBackend
from dragoman.search.config import SearchConfig
from dragoman.search.results import SearchInput
from dragoman.search.torch_backend import TorchBackend
from tests.support.native_models import BUILDS, NOT_INSTALLED, native_backend, torch_backend, write_model

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

TOKENS = st.integers(4, 69)
SEARCH_INPUTS = st.lists(
    st.builds(SearchInput, st.lists(TOKENS, min_size=1, max_size=25), st.lists(TOKENS, max_size=4)),
    min_size=1,
    max_size=6,
)


@st.composite
def searches(draw: st.DrawFn) -> SearchConfig:
    beam = draw(st.integers(1, 6))
    least = draw(st.integers(0, 5))
    return SearchConfig(
        beam=beam,
        n_best=draw(st.integers(1, beam)),
        length_penalty=draw(st.floats(0, 2)),
        min_length_offset=least,
        max_length_factor=draw(st.floats(0, 1)),
        max_length_offset=draw(st.integers(max(least, 1), 12)),
    )


@cache
def engines() -> tuple[NativeBackend, NativeBackend, TorchBackend]:
    directory = Path(mkdtemp())
    config = write_model(directory)
    return (
        native_backend(directory, config, batch_sentences=2, threads=2),
        native_backend(directory, config, "int8"),
        torch_backend(directory),
    )


# Derandomized, because two outputs may have equal scores within rounding; then either is correct.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEARCH_INPUTS, searches())
def test_outputs_equal_those_of_torch(search_inputs: list[SearchInput], search: SearchConfig) -> None:
    ours, theirs = (engine.search(search_inputs, search) for engine in (engines()[0], engines()[2]))
    for our, their in zip(ours, theirs, strict=True):
        assert len(our) == len(their)
        assert [each.score for each in our] == pytest.approx([each.score for each in their], rel=1e-4, abs=1e-4)
        assert our[0].tokens == their[0].tokens


@settings(max_examples=60, deadline=None)
@given(SEARCH_INPUTS, searches())
def test_int8_outputs_are_within_the_limits(search_inputs: list[SearchInput], search: SearchConfig) -> None:
    for search_input, hypotheses in zip(search_inputs, engines()[1].search(search_inputs, search), strict=True):
        longest = max(search.maximum_length(len(search_input.source)), len(search_input.prefix))
        assert 1 <= len(hypotheses) <= search.n_best
        assert [each.score for each in hypotheses] == sorted((each.score for each in hypotheses), reverse=True)
        assert len({each.tokens for each in hypotheses}) == len(hypotheses)
        for each in hypotheses:
            assert list(each.tokens[: len(search_input.prefix)]) == search_input.prefix
            assert min(search.minimum_length(len(search_input.source)), longest) <= len(each.tokens) <= longest
            assert each.log_probability <= 0
            assert all(4 <= token < 70 for token in each.tokens)
