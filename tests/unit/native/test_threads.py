"""Threads that search at once give what one gives. `make sanitize` looks for races here: nothing in it is large."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from dragoman import native
from dragoman.models.weights import WEIGHTS_FILE
from dragoman.search.config import SearchConfig
from tests.support.native_models import BUILDS, NOT_INSTALLED, pieces, searcher, write

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

SHORT = SearchConfig(n_best=2, max_length_offset=5)


def sentences(count: int) -> list[list[int]]:
    generator = np.random.default_rng(0)
    return [generator.integers(4, 70, generator.integers(1, 12)).tolist() for _ in range(count)]


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_more_threads_than_cores_share_a_queue(tmp_path: Path, precision: native.Precision) -> None:
    config = write(tmp_path)
    given = pieces(sentences(24))
    alone = searcher(tmp_path, config, precision, threads=1).search(given, SHORT)
    crowd = searcher(tmp_path, config, precision, threads=5, batch_sentences=3)
    assert crowd.search(given, SHORT) == alone


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_teams_share_products(tmp_path: Path, precision: native.Precision) -> None:
    config = write(tmp_path, {"d_model": 128, "target_vocabulary": 700, "tied_embeddings": "none"})
    given = pieces(sentences(2))
    alone = searcher(tmp_path, config, precision, threads=1).search(given, SHORT)
    assert searcher(tmp_path, config, precision, threads=6, shared_bytes=0).search(given, SHORT) == alone


def test_one_engine_is_used_by_several_threads_of_python(tmp_path: Path) -> None:
    engine = searcher(tmp_path, write(tmp_path), "int8", threads=2)
    given = pieces(sentences(8))
    alone = engine.search(given, SHORT)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: engine.search(given, SHORT), range(6)))
    assert found == [alone] * 6


def test_the_table_of_positions_grows_under_several_threads(tmp_path: Path) -> None:
    config = write(tmp_path, {"d_model": 128})
    engine = searcher(tmp_path, config, "fp32", threads=2)
    wanted = [SearchConfig(beam=2, max_length_factor=0, max_length_offset=length) for length in (20, 70, 150, 300)]
    alone = [searcher(tmp_path, config).search(pieces([[5, 9, 33]] * 3), search) for search in wanted]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda search: engine.search(pieces([[5, 9, 33]] * 3), search), wanted))
            assert found == alone


def test_an_error_in_one_thread_ends_the_others(tmp_path: Path) -> None:
    config = write(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    huge = {name: tensor * 5e18 if "residual" in name else tensor for name, tensor in tensors.items()}
    save_file(huge, tmp_path / WEIGHTS_FILE)
    engine = searcher(tmp_path, config, threads=3, batch_sentences=1)
    with pytest.raises(FloatingPointError):
        engine.search(pieces(sentences(12)), SHORT)


def test_an_interrupt_reaches_every_thread(tmp_path: Path) -> None:
    engine = searcher(tmp_path, write(tmp_path), threads=3)
    endless = SearchConfig(min_length_offset=3000, max_length_offset=3000)
    interrupt = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    # Where the tests run in the background, the shell has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            engine.search(pieces(sentences(200)), endless)
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
