"""`LiveSearch` returns what `NativeBackend.search` returns, one sentence at a time, and shares its places fairly."""

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from dragoman import native
from dragoman.errors import CorpusError, ModelError
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.native.backend import NativeBackend
from dragoman.native.live_search import Done
from dragoman.search.config import MAX_OUTPUT_LENGTH, SearchConfig
from dragoman.search.results import Hypothesis, SearchInput
from tests.support.live_search import SECONDS, Results, search_live
from tests.support.native_models import BUILDS, NOT_INSTALLED, native_backend, search_inputs, write_model

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

SHORT = SearchConfig(n_best=2, max_length_offset=8)
GREEDY = SearchConfig(beam=1, max_length_offset=8)
# Takes minutes, and so does not end during a test.
ENDLESS = SearchConfig(beam=2, min_length_offset=MAX_OUTPUT_LENGTH, max_length_offset=MAX_OUTPUT_LENGTH)
LONG = SearchInput([*range(4, 60)], [])


def inputs(count: int, longest: int = 20, seed: int = 0) -> list[SearchInput]:
    generator = np.random.default_rng(seed)
    return search_inputs(
        [generator.integers(4, 70, generator.integers(1, longest)).tolist() for _ in range(count)],
        [generator.integers(4, 70, generator.integers(0, 3)).tolist() for _ in range(count)],
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_model(path)
    return path


def backend(directory: Path, precision: native.Precision = "fp32", **settings: Any) -> NativeBackend:
    from dragoman.models.description import load_description

    config = load_description(directory).model
    return native_backend(directory, config, precision, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", native.PRECISIONS)
@pytest.mark.parametrize("seed", range(2))
def test_results_equal_those_of_a_search_of_all_at_once(tmp_path: Path, precision: native.Precision, seed: int) -> None:
    config = write_model(tmp_path, {"d_model": 64, "positions": "rotary", "norm_placement": "pre"}, seed=seed)
    engine = native_backend(tmp_path, config, precision, threads=2, batch_sentences=5, batch_tokens=300)
    rows = inputs(60, seed=seed)
    # More widths of the beam than there are pools of pages.
    searches = [SearchConfig(beam=1 + i, n_best=1 + i // 2, length_penalty=0.1 * i) for i in range(12)]
    configs = [searches[i % len(searches)] for i in range(len(rows))]
    expected = [engine.search([row], config)[0] for row, config in zip(rows, configs, strict=True)]
    with engine.live() as live:
        assert search_live(live, rows, configs, groups=4) == expected
        assert search_live(live, rows, configs) == expected


def test_a_shortlist_restricts_the_outputs(directory: Path) -> None:
    class Shortlist:
        always = np.array([3, 5, 6, 7])
        likely = np.array([10, 11, 12])
        starts = np.array([0, 0, 0, 0, 0, 1, 3])

    engine = backend(directory, "int8", threads=2, shortlist=Shortlist())
    rows = inputs(12)
    with engine.live() as live:
        assert search_live(live, rows, [SHORT] * 12) == engine.search(rows, SHORT)


def test_a_sentence_joins_the_batch_while_others_run(directory: Path) -> None:
    engine = backend(directory, threads=1)
    with engine.live() as live:
        results = Results()
        ticket = live.submit(LONG, ENDLESS, results.done("long"))
        for i, row in enumerate(inputs(10)):
            live.submit(row, SHORT, results.done(i))
            assert results.of([i]) == engine.search([row], SHORT)
        assert live.cancel(ticket)
        assert "long" not in results.results


def test_a_cancelled_sentence_frees_its_place(directory: Path) -> None:
    """With one place, and another in reserve for a second group, the others wait for the sentences that never end."""
    [row] = inputs(1)
    engine = backend(directory, threads=1, batch_sentences=1)
    with engine.live() as live:
        results = Results()
        first, second = (live.submit(LONG, ENDLESS, results.done(i), group=i) for i in range(2))
        waiting = live.submit(row, SHORT, results.done("cancelled while it waits"))
        live.submit(row, SHORT, results.done("last"))
        time.sleep(0.1)
        assert not results.results
        assert [live.cancel(ticket) for ticket in (waiting, first, second)] == [True] * 3
        assert results.of(["last"]) == engine.search([row], SHORT)
        assert not live.cancel(first)
        assert list(results.results) == ["last"]


def test_threads_that_work_give_signs_of_life(directory: Path) -> None:
    with backend(directory, threads=2).live() as live:
        assert live.signs() == [None] * 3
        ticket = live.submit(LONG, ENDLESS, Results().done("long"))
        seen: list[int] = []
        began = time.monotonic()
        while len(seen) < 10 and time.monotonic() - began < SECONDS:
            *threads, forgotten = live.signs()
            working = [sign for sign in threads if sign is not None]
            assert len(working) <= 1
            seen += [sign for sign in working if sign not in seen]
        assert len(seen) == 10
        assert seen == sorted(seen)
        assert forgotten is None
        live.cancel(ticket)
        while live.signs() != [None] * 3:
            assert time.monotonic() - began < SECONDS


def test_a_group_is_not_delayed_by_the_many_sentences_of_another(directory: Path) -> None:
    engine = backend(directory, threads=1, batch_sentences=4)
    results = Results()
    order: list[str] = []

    def done(name: str, number: int) -> Done:
        record = results.done((name, number))

        def called(result: list[Hypothesis] | Exception) -> None:
            order.append(name)
            record(result)

        return called

    rows = inputs(300)
    with engine.live() as live:
        for i, row in enumerate(rows):
            live.submit(row, SHORT, done("many", i), group=1)
        for i in range(10):
            live.submit(rows[i], GREEDY, done("few", i), group=2)
        results.of([("few", i) for i in range(10)])
        results.of([("many", i) for i in range(300)])
    last = max(i for i, name in enumerate(order) if name == "few")
    # Beside those that were finished before the ten were submitted, about as many of the others as of the few.
    assert order.index("few") < 200
    assert last - order.index("few") < 60


def test_a_new_group_does_not_wait_for_a_place(directory: Path) -> None:
    engine = backend(directory, threads=1, batch_sentences=8)
    with engine.live() as live:
        results = Results()
        for i in range(100):
            live.submit(LONG, ENDLESS, results.done(i), group=1)
        rows = inputs(5)
        for i, row in enumerate(rows):
            live.submit(row, SHORT, results.done(("new", i)), group=2 + i)
        assert results.of([("new", i) for i in range(5)]) == engine.search(rows, SHORT)


def test_a_group_that_has_used_little_advances_faster(directory: Path) -> None:
    """Without turns of its own, 64 positions of one sentence would take 64 of the others."""
    engine = backend(directory, threads=1, batch_sentences=32)
    config = SearchConfig(beam=1, min_length_offset=64, max_length_offset=64)
    positions: list[int] = []
    heavy = threading.Event()

    def advanced(tokens: tuple[int, ...]) -> None:
        positions.append(len(tokens))
        if len(tokens) > 50:
            heavy.set()

    with engine.live() as live:
        results = Results()
        for i in range(24):
            live.submit(LONG, ENDLESS, results.done(i), group=1, progress=advanced if i == 0 else None)
        assert heavy.wait(SECONDS)
        first = positions[-1]
        live.submit(LONG, config, results.done("light"), group=2)
        light = results.of(["light"])
        # Both may be seen late by a few positions.
        assert positions[-1] - first < 50
        assert light == engine.search([LONG], config)


def test_a_group_that_has_used_little_does_not_stop_the_others(directory: Path) -> None:
    """Sentences of ever new groups take turns with those of a group that has used much."""
    engine = backend(directory, threads=1, batch_sentences=8)
    config = SearchConfig(beam=2, min_length_offset=400, max_length_offset=400)
    row = inputs(1)[0]
    with engine.live() as live:
        results = Results()
        for i in range(4):
            live.submit(row, config, results.done(i), group=0)
        stop = threading.Event()

        def submit_again(number: int) -> None:
            if not stop.is_set():
                live.submit(row, GREEDY, lambda _: submit_again(number + 1), group=number)

        submit_again(1)
        assert results.of(range(4)) == engine.search([row] * 4, config)
        stop.set()


def test_a_sentence_that_exceeds_the_batch_is_not_passed_over_for_ever(directory: Path) -> None:
    engine = backend(directory, threads=1, batch_sentences=4, batch_tokens=100)
    rows = inputs(40, longest=8)
    with engine.live() as live:
        results = Results()
        for i, row in enumerate(rows):
            live.submit(row, SHORT, results.done(i), group=1)
        live.submit(LONG, SHORT, results.done("large"), group=2)
        assert results.of(["large"]) == engine.search([LONG], SHORT)
        assert results.of(range(40)) == engine.search(rows, SHORT)


def test_progress_is_reported_before_the_result(directory: Path) -> None:
    engine = backend(directory, threads=1)
    # Reports that are not fetched in time are replaced, so the output takes a while.
    config = SearchConfig(beam=1, min_length_offset=2000, max_length_offset=2000)
    with engine.live() as live:
        results, reports = Results(), list[tuple[int, ...]]()
        live.submit(LONG, config, results.done(0), progress=reports.append)
        [[hypothesis]] = engine.search([LONG], config)
        assert results.of([0]) == [[hypothesis]]
    assert reports
    assert [len(tokens) for tokens in reports] == sorted({len(tokens) for tokens in reports})
    assert all(hypothesis.tokens[: len(tokens)] == tokens for tokens in reports)


def test_an_error_belongs_to_its_sentence(tmp_path: Path) -> None:
    """In the encoder, and at the position of the decoder that exceeds the learned positions."""
    config = write_model(tmp_path, {"positions": "learned", "max_positions": 20})
    engine = native_backend(tmp_path, config, threads=1)
    rows = inputs(12, longest=10)
    exceeding = SearchConfig(min_length_offset=40, max_length_offset=40)
    with engine.live() as live:
        results = Results()
        for i, row in enumerate(rows):
            live.submit(row, SHORT, results.done(i))
            if i % 4 == 0:
                live.submit(SearchInput([5] * 30, []), SHORT, results.done(("source", i)))
                live.submit(row, exceeding, results.done(("output", i)))
        assert results.of(range(12)) == engine.search(rows, SHORT)
        for error in results.of([(name, i) for name in ("source", "output") for i in (0, 4, 8)]):
            assert isinstance(error, CorpusError)
            assert "20 learned positions of the model: split the text" in str(error)


def test_an_overflow_is_an_error_of_its_sentence(tmp_path: Path) -> None:
    config = write_model(tmp_path, {"tied_embeddings": "none"})
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    tensors["source_embedding.tokens.weight"][66] = 9e18
    save_file(tensors, tmp_path / WEIGHTS_FILE)
    engine = native_backend(tmp_path, config, threads=1)
    rows = search_inputs([[5, 9], [4, 66, 7], [8], [66]])
    with engine.live() as live:
        outputs = search_live(live, rows, [SHORT] * 4)
    assert [outputs[0], outputs[2]] == engine.search([rows[0], rows[2]], SHORT)
    assert [type(outputs[i]) for i in (1, 3)] == [FloatingPointError] * 2


def test_a_sentence_without_output_is_an_error(directory: Path) -> None:
    class OnlyEnd:
        always, likely, starts = np.array([3]), np.array([], dtype=np.int64), np.array([0])

    with backend(directory, shortlist=OnlyEnd()).live() as live:
        [error] = search_live(live, search_inputs([[5]]), [SearchConfig()])
    assert isinstance(error, ModelError)


def test_what_is_submitted_is_checked(directory: Path) -> None:
    with backend(directory, threads=1).live() as live:
        with pytest.raises(ValueError, match="vocabulary"):
            live.submit(SearchInput([70], []), SHORT, lambda _: None)
        assert len(search_live(live, inputs(2), [SHORT] * 2)) == 2


def test_closing_gives_unfinished_sentences_an_error(directory: Path) -> None:
    live = backend(directory, threads=2, batch_sentences=2).live()
    results = Results()
    for i in range(10):
        live.submit(LONG, ENDLESS, results.done(i))
    live.close()
    assert sorted(map(str, results.results)) == sorted(map(str, range(10)))
    assert all(isinstance(error, RuntimeError) for error in results.results.values())
    live.close()
    with pytest.raises(RuntimeError, match="the live search is closed"):
        live.submit(LONG, SHORT, results.done("late"))
    assert not live.cancel(0)


def test_a_callback_may_close_the_search(directory: Path) -> None:
    live = backend(directory, threads=1).live()
    closed = threading.Event()

    def close(_: object) -> None:
        live.close()
        closed.set()

    live.submit(inputs(1)[0], SHORT, close)
    assert closed.wait(SECONDS)


def test_a_search_that_is_no_longer_used_ends_its_threads(directory: Path) -> None:
    engine = backend(directory, threads=3)
    before = len(list(Path("/proc/self/task").iterdir()))
    live = engine.live()
    assert len(list(Path("/proc/self/task").iterdir())) == before + 4
    del live
    gc.collect()
    assert len(list(Path("/proc/self/task").iterdir())) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_in_a_callback_is_reported_and_the_others_continue(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    with backend(directory, threads=1).live() as live:
        live.submit(inputs(1)[0], SHORT, lambda _: [][0])
        search_live(live, inputs(3), [SHORT] * 3)
    assert [report.exc_type for report in reported] == [IndexError]


def test_idle_threads_do_not_use_the_processor(directory: Path) -> None:
    with backend(directory, threads=4).live() as live:
        search_live(live, inputs(8), [SHORT] * 8)
        before = time.process_time()
        time.sleep(1)
        assert time.process_time() - before < 0.1


PROGRAM = """
import os, sys, threading, time
from pathlib import Path
from dragoman.models.description import load_description
from dragoman.native import builds
from dragoman.native.backend import NativeBackend
from dragoman.native.live_search import Done
from dragoman.search.config import MAX_OUTPUT_LENGTH, SearchConfig
from dragoman.search.results import Hypothesis, SearchInput

directory = Path(sys.argv[1])
backend = NativeBackend(directory, load_description(directory).model, builds()[0], "int8", threads=2)
endless = SearchConfig(min_length_offset=MAX_OUTPUT_LENGTH, max_length_offset=MAX_OUTPUT_LENGTH)
live = backend.live()
for i in range(100):
    live.submit(SearchInput([*range(4, 60)], []), endless, lambda result: None, progress=lambda tokens: None)
time.sleep(0.1)
"""


def run(directory: Path, code: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM + code, str(directory)], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stderr
    assert not process.stderr
    return process.stdout


def test_the_interpreter_shuts_down_during_a_search(directory: Path) -> None:
    run(directory, "")
    run(directory, "live.close()")
    # Threads that run on while the interpreter ends.
    run(directory, "threading.Thread(target=lambda: [live.cancel(i) for i in range(100)], daemon=True).start()")


def test_a_search_cannot_be_made_after_the_shutdown(directory: Path) -> None:
    code = """
import atexit
atexit._run_exitfuncs()
try:
    backend.live()
except RuntimeError as error:
    print(error)
"""
    assert run(directory, code) == "the Python interpreter is shutting down\n"


def test_a_forked_child_makes_its_own(directory: Path) -> None:
    code = """
if (child := os.fork()) == 0:
    try:
        live.submit(SearchInput([5], []), SearchConfig(), print)
    except RuntimeError as error:
        print(error)
    done = threading.Event()
    own = backend.live()
    own.submit(SearchInput([5], []), SearchConfig(), lambda result: (print(len(result)), done.set()))
    assert done.wait(20)
    live.close()
    sys.stdout.flush()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    assert run(directory, code).split("\n")[:2] == [
        "the live search belongs to the parent process: make one after the fork",
        "1",
    ]
