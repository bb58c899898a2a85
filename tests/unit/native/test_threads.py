"""Searches in several threads equal those in one thread.

`make sanitize` runs this file to detect data races, so its models are small.
"""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from dragoman import native
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.native.language_backend import NativeTextState
from dragoman.native.live_search import LiveSearch
from dragoman.search.config import ContinuationConfig, SearchConfig
from tests.support.live_search import Results
from tests.support.native_language import native_model, random_tokens, write_language_model
from tests.support.native_models import BUILDS, NOT_INSTALLED, native_backend, search_inputs, write_model

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

SHORT = SearchConfig(n_best=2, max_length_offset=5)


def sentences(count: int) -> list[list[int]]:
    generator = np.random.default_rng(0)
    return [generator.integers(4, 70, generator.integers(1, 12)).tolist() for _ in range(count)]


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_more_threads_than_cores_share_a_queue(tmp_path: Path, precision: native.Precision) -> None:
    config = write_model(tmp_path)
    inputs = search_inputs(sentences(24))
    alone = native_backend(tmp_path, config, precision, threads=1).search(inputs, SHORT)
    several = native_backend(tmp_path, config, precision, threads=5, batch_sentences=3)
    assert several.search(inputs, SHORT) == alone


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_threads_that_share_products_give_the_same_result(tmp_path: Path, precision: native.Precision) -> None:
    config = write_model(tmp_path, {"d_model": 128, "target_vocabulary": 700, "tied_embeddings": "none"})
    inputs = search_inputs(sentences(2))
    alone = native_backend(tmp_path, config, precision, threads=1).search(inputs, SHORT)
    assert native_backend(tmp_path, config, precision, threads=6, shared_bytes=0).search(inputs, SHORT) == alone


def test_threads_that_share_products_on_a_single_core_give_the_same_result(tmp_path: Path) -> None:
    """A waiting thread yields the core to the thread for which it waits."""
    config = write_model(tmp_path, {"d_model": 128, "target_vocabulary": 700, "tied_embeddings": "none"})
    inputs = search_inputs(sentences(1))
    alone = native_backend(tmp_path, config, threads=1).search(inputs, SHORT)
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        assert native_backend(tmp_path, config, threads=8, shared_bytes=0).search(inputs, SHORT) == alone
    finally:
        os.sched_setaffinity(0, cpus)


def test_one_backend_can_be_used_by_several_python_threads(tmp_path: Path) -> None:
    backend = native_backend(tmp_path, write_model(tmp_path), "int8", threads=2)
    inputs = search_inputs(sentences(8))
    alone = backend.search(inputs, SHORT)
    with ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(lambda _: backend.search(inputs, SHORT), range(6)))
    assert outputs == [alone] * 6


def test_several_threads_can_extend_the_table_of_positions(tmp_path: Path) -> None:
    config = write_model(tmp_path, {"d_model": 128})
    backend = native_backend(tmp_path, config, "fp32", threads=2)
    searches = [SearchConfig(beam=2, max_length_factor=0, max_length_offset=length) for length in (20, 70, 150, 300)]
    alone = [native_backend(tmp_path, config).search(search_inputs([[5, 9, 33]] * 3), search) for search in searches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            outputs = list(pool.map(lambda search: backend.search(search_inputs([[5, 9, 33]] * 3), search), searches))
            assert outputs == alone


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_several_python_threads_submit_and_cancel(tmp_path: Path, precision: native.Precision) -> None:
    engine = native_backend(tmp_path, write_model(tmp_path), precision, threads=3, batch_sentences=4)
    inputs = search_inputs(sentences(30))
    expected = engine.search(inputs, SHORT)
    endless = SearchConfig(min_length_offset=3000, max_length_offset=3000)
    results = Results()
    reports: list[tuple[int, ...]] = []

    def submit(thread: int) -> None:
        for i, row in enumerate(inputs):
            ticket = live.submit(row, endless, results.done("cancelled"), group=thread, progress=reports.append)
            live.submit(row, SHORT, results.done((thread, i)), group=thread, progress=reports.append)
            assert live.cancel(ticket)

    with engine.live() as live:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(submit, range(4)))
        assert results.of([(thread, i) for thread in range(4) for i in range(30)]) == expected * 4
        assert "cancelled" not in results.results


def test_live_searches_end_while_threads_submit(tmp_path: Path) -> None:
    """A sentence has one result, its hypotheses or an error, or is refused when it is submitted."""
    engine = native_backend(tmp_path, write_model(tmp_path), threads=2, batch_sentences=2)
    inputs = search_inputs(sentences(20))
    for _ in range(5):
        results, live = Results(), engine.live()

        def submit(thread: int, live: LiveSearch = live, results: Results = results) -> list[tuple[int, int]]:
            accepted = []
            for i, row in enumerate(inputs):
                try:
                    live.submit(row, SHORT, results.done((thread, i)), group=thread)
                except RuntimeError:
                    break
                accepted.append((thread, i))
            return accepted

        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(submit, thread) for thread in range(3)]
            pool.submit(live.close)
        live.close()
        assert sorted(results.results) == sorted(name for future in futures for name in future.result())


def test_several_threads_can_continue_the_same_state(tmp_path: Path) -> None:
    """Only the first of them writes to the page that they share, and each call uses several threads itself."""
    config = write_language_model(tmp_path)
    tokens, uniforms = random_tokens(3, 7), np.random.default_rng(0).random((3, 20))
    model = native_model(tmp_path, config, "int8", threads=2, shared_bytes=0, thread_bytes=0)
    for seed in range(3):
        _, state = model.read(random_tokens(3, 7, seed), model.start(3))

        def continued(row: int, state: NativeTextState = state) -> list[list[int]]:
            model.read(tokens, state.reorder([row, row, 2]))
            return model.generate(tokens[:, row], state, uniforms, ContinuationConfig()).tokens.tolist()

        with ThreadPoolExecutor(3) as pool:
            outputs = list(pool.map(continued, (0, 1, 2)))
        assert outputs == [continued(row) for row in range(3)]


def test_an_error_in_one_thread_ends_the_others(tmp_path: Path) -> None:
    config = write_model(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    huge = {name: tensor * 5e18 if "residual" in name else tensor for name, tensor in tensors.items()}
    save_file(huge, tmp_path / WEIGHTS_FILE)
    backend = native_backend(tmp_path, config, threads=3, batch_sentences=1)
    with pytest.raises(FloatingPointError):
        backend.search(search_inputs(sentences(12)), SHORT)


def test_an_interrupt_reaches_every_thread(tmp_path: Path) -> None:
    backend = native_backend(tmp_path, write_model(tmp_path), threads=3)
    endless = SearchConfig(min_length_offset=3000, max_length_offset=3000)
    interrupt = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    # If the tests run in the background, the shell makes them ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            backend.search(search_inputs(sentences(200)), endless)
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
