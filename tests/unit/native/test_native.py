"""The native engine equals the torch engine in logits, searches and limits, and refuses what it does not support."""

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman import native
from dragoman.errors import CorpusError, SettingsError, UserError
from dragoman.models.description import ModelDescription
from dragoman.models.quantization import quantize_model
from dragoman.models.storage import load_model, save_model, weights_of
from dragoman.models.transformer import build_transformer
from dragoman.models.weights import WEIGHTS_FILE, open_weights, quantize
from dragoman.native.backend import NativeBackend
from dragoman.native.engine_selection import select_engine
from dragoman.search.config import SearchConfig
from dragoman.search.results import SearchInput
from dragoman.translation.translator import Translator
from tests.support.native_models import (
    BUILDS,
    CONFIG,
    NOT_INSTALLED,
    SOURCES,
    assert_same,
    native_backend,
    search_inputs,
    torch_backend,
    translator_directory,
    write_model,
)
from tests.support.small_translator import model_config, tokenizer

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

# Widths of several vectors, of less than one vector, and not divisible by the size of a vector.
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm_placement": "pre", "d_model": 128, "heads": 2},
    {"tied_embeddings": "two-way", "source_vocabulary": 90, "activation": "gelu"},
    {"tied_embeddings": "none", "target_vocabulary": 131, "attention_bias": True},
    {"norm": "rms", "positions": "rotary", "norm_placement": "pre", "activation": "swiglu", "d_ff": 43},
    {"positions": "learned", "max_positions": 64, "activation": "geglu", "d_model": 36, "heads": 3},
    {"d_model": 22, "heads": 11, "d_ff": 7, "encoder_layers": 1, "decoder_layers": 3},
    {"attention_scale": "none", "position_base": 100.0, "heads": 16},
    {"attention_scale": 0.5, "position_base": 500.0, "positions": "rotary", "norm_placement": "pre"},
    {"positions": "none", "activation": "gelu_tanh"},
]
# Limit of the root mean square error of logits, relative to their standard deviation. Gated networks with random
# weights amplify rounding errors.
TOLERANCE: dict[native.Precision, float] = {"fp32": 1e-5, "bf16": 0.1, "int8": 0.2}


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
@pytest.mark.parametrize("precision", native.PRECISIONS)
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_logits_equal_those_of_torch(
    tmp_path: Path, changes: dict[str, Any], precision: native.Precision, build: native.Build
) -> None:
    config = write_model(tmp_path, changes)
    engine = NativeBackend(tmp_path, config, build, precision)
    model = load_model(tmp_path)
    target = [7, 40, 8, 69, 69, 12, *range(20, 38)]  # more than a page of the cache
    for source in SOURCES:
        ids = torch.tensor([[*source, 3]])
        with torch.no_grad():
            expected = model.decode(torch.tensor([[2, *target]]), model.encode(ids, torch.ones_like(ids).bool()))[0]
        error = engine.logits(source, target) - expected.numpy()
        assert np.sqrt((error**2).mean()) < TOLERANCE[precision] * float(expected.std())


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_search_equals_that_of_torch(tmp_path: Path, beam: int, seed: int) -> None:
    config = write_model(tmp_path, VARIANTS[seed % 2], seed)
    search = SearchConfig(beam=beam, n_best=beam, length_penalty=0.4 * seed, max_length_offset=9)
    assert_same(
        native_backend(tmp_path, config).search(search_inputs(SOURCES), search),
        torch_backend(tmp_path).search(search_inputs(SOURCES), search),
    )


def test_limits_and_prefixes_equal_those_of_torch(tmp_path: Path) -> None:
    config = write_model(tmp_path)
    inputs = search_inputs(SOURCES, [[], [9, 10, 11], [5], [6, 7, 8, 9, 10, 11, 12, 13]])
    for search in (
        SearchConfig(n_best=2, max_length_factor=0.0, max_length_offset=4),
        SearchConfig(n_best=4, min_length_factor=0.5, min_length_offset=3, max_length_offset=30),
        SearchConfig(beam=1, min_length_offset=6, max_length_offset=6),
    ):
        outputs = native_backend(tmp_path, config).search(inputs, search)
        assert_same(outputs, torch_backend(tmp_path).search(inputs, search))
        for each, (best, *_) in zip(inputs, outputs, strict=True):
            assert list(best.tokens[: len(each.prefix)]) == each.prefix


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_a_sentence_does_not_depend_on_the_others(tmp_path: Path, precision: native.Precision) -> None:
    """Bit for bit, for any number of other sentences in the batch."""
    config = write_model(tmp_path, {"d_model": 128})
    generator = np.random.default_rng(0)
    sources = [generator.integers(4, 70, generator.integers(1, 30)).tolist() for _ in range(41)]
    search = SearchConfig(n_best=4, max_length_offset=8)
    alone = native_backend(tmp_path, config, precision, batch_sentences=1, threads=1).search(
        search_inputs(sources), search
    )
    for settings in ({"batch_sentences": 7}, {"threads": 3, "batch_tokens": 90}, {"batch_sentences": 41}):
        assert native_backend(tmp_path, config, precision, **settings).search(search_inputs(sources), search) == alone


def test_an_empty_search(tmp_path: Path) -> None:
    assert native_backend(tmp_path, write_model(tmp_path)).search([], SearchConfig()) == []


def test_quantized_weights_take_a_quarter_of_the_space_and_give_the_same_logits(tmp_path: Path) -> None:
    config = write_model(tmp_path / "whole", {"d_model": 128, "d_ff": 512})
    (tmp_path / "whole" / "README.md").write_text("# A model\n")
    quantize_model(tmp_path / "whole", tmp_path / "quantized")
    sizes = [(tmp_path / name / WEIGHTS_FILE).stat().st_size for name in ("whole", "quantized")]
    assert sizes[1] < 0.28 * sizes[0]
    assert "int8" in (tmp_path / "quantized" / "README.md").read_text()
    whole, quantized = (native_backend(tmp_path / name, config, "int8") for name in ("whole", "quantized"))
    # Not equal bit for bit: if the last bit of a scale differs, an activation may be rounded differently.
    assert np.abs(whole.logits(SOURCES[0], [5, 6]) - quantized.logits(SOURCES[0], [5, 6])).mean() < 0.02
    # Torch converts the int8 values to float32.
    model = load_model(tmp_path / "quantized")
    ids = torch.tensor([[*SOURCES[0], 3]])
    with torch.no_grad():
        expected = model.decode(torch.tensor([[2, 5, 6]]), model.encode(ids, torch.ones_like(ids).bool()))[0]
    fp32 = native_backend(tmp_path / "quantized", config, "fp32").logits(SOURCES[0], [5, 6])
    assert np.abs(fp32 - expected.numpy()).max() < 1e-4
    for directory, message in (
        (tmp_path / "quantized", "^[^:]* is quantized already$"),
        (tmp_path / "nothing", "not a model directory"),
    ):
        with pytest.raises(UserError, match=message):
            quantize_model(directory, tmp_path / "again")
    with pytest.raises(UserError, match="exists"):
        quantize_model(tmp_path / "whole", tmp_path / "quantized")


def test_each_row_is_quantized_with_its_own_scale() -> None:
    units, scale = quantize(np.array([[254.0, -127.0, 1.2], [0.0, 0.0, 0.0], [0.5, -0.25, 0.1]], dtype=np.float32))
    assert units.tolist() == [[127, -64, 1], [0, 0, 0], [127, -64, 25]]
    np.testing.assert_allclose(scale, [2.0, 0.0, 0.5 / 127])


def test_weights_that_do_not_fit_the_settings_are_refused(tmp_path: Path) -> None:
    config = write_model(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    name = "decoder.layers.1.memory_attention.key.weight"
    for changed, message in (
        ({key: value for key, value in tensors.items() if key != name}, f"lacks {name}"),
        ({**tensors, name: torch.zeros(32, 31)}, r"has shape \[32, 31\], but config.json requires \[32, 32\]"),
        ({**tensors, "stowaway": torch.zeros(1)}, "1 unknown weights; the first is 'stowaway'"),
    ):
        save_file(changed, tmp_path / WEIGHTS_FILE)
        with pytest.raises(UserError, match=message):
            native_backend(tmp_path, config)
    save_file({**tensors, name: torch.full((32, 32), torch.nan)}, tmp_path / WEIGHTS_FILE)
    with pytest.raises(FloatingPointError, match=f"{WEIGHTS_FILE}: {name} has values that are not finite"):
        native_backend(tmp_path, config)


def test_overflow_in_a_model_is_an_error(tmp_path: Path) -> None:
    config = write_model(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    huge = {name: tensor * 1e20 if "residual" in name else tensor for name, tensor in tensors.items()}
    save_file(huge, tmp_path / WEIGHTS_FILE)
    with pytest.raises(FloatingPointError):
        native_backend(tmp_path, config).search(search_inputs(SOURCES), SearchConfig())


def test_a_sentence_longer_than_the_learned_positions_is_an_error(tmp_path: Path) -> None:
    config = write_model(tmp_path, {"positions": "learned", "max_positions": 20})
    with pytest.raises(CorpusError, match="20 learned positions of the model"):
        native_backend(tmp_path, config).search(search_inputs([[5] * 30]), SearchConfig())


def test_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        native_backend(tmp_path, write_model(tmp_path)).search(search_inputs([[70]]), SearchConfig())


def test_selection_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = select_engine("auto", "auto", "cpu", [CONFIG])
    assert selection.build is not None
    assert selection.build.name == BUILDS[0].name
    assert selection.precision == BUILDS[0].default_precision
    assert select_engine("torch").build is None
    assert "ensemble" in select_engine("auto", "auto", "cpu", [CONFIG, CONFIG]).reason
    batch_norm = replace(CONFIG, norm="batch")
    assert "batch normalisation" in select_engine("auto", "auto", "cpu", [batch_norm]).reason
    for wrong, message in (
        ({"engine": "native", "configs": [batch_norm]}, "batch normalisation"),
        ({"engine": "torch", "precision": "int8"}, "needs the native engine"),
        ({"precision": "int8", "device": "cuda"}, "not on cuda"),
        ({"engine": "abacus"}, "unknown engine"),
        ({"precision": "int3"}, "unknown precision"),
    ):
        with pytest.raises(UserError, match=message):
            select_engine(**wrong)
    monkeypatch.setattr(native, "builds", list)
    assert "C++ compiler" in select_engine("auto", "auto", "cpu", [CONFIG]).reason
    with pytest.raises(UserError, match=r"C\+\+ compiler"):
        select_engine("native")


def test_a_model_that_the_native_engine_does_not_support_is_translated_in_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = replace(model_config(), norm="batch")
    model = build_transformer(config).eval()
    description = ModelDescription(architecture="transformer", model=config, trained_length=12)
    tokenizer().save(tmp_path)
    save_model(tmp_path, description, weights_of(model))
    translator = Translator.load(tmp_path, device="cpu")
    assert translator.engine.startswith("torch")
    assert len(translator.translate(["the lamp"])) == 1


def test_scores_and_samples_of_a_translator_with_the_native_engine(tmp_path: Path) -> None:
    """Both are computed in torch, and equal those of the torch engine."""
    from dragoman.search.config import SamplingConfig

    translator = Translator.load(translator_directory(tmp_path), device="cpu", precision="fp32")
    assert translator.engine.startswith("native")
    in_torch = Translator.load(tmp_path, device="cpu", engine="torch")
    lines, short = ["the lamp is on", "turn off the light"], SearchConfig(max_length_offset=8)
    translations = translator.translate(lines, search=short)
    assert [each.text for each in translations] == [each.text for each in in_torch.translate(lines, search=short)]
    sampling = SamplingConfig(samples=2, seed=3)
    assert translator.translate(lines, sampling=sampling, search=short) == in_torch.translate(
        lines, sampling=sampling, search=short
    )
    assert translator.score(list(zip(lines, lines, strict=True))) == in_torch.score(
        list(zip(lines, lines, strict=True))
    )


def test_translating_does_not_import_torch(tmp_path: Path) -> None:
    """Importing torch would take most of the time to the first translation."""
    directory = translator_directory(tmp_path)
    (tmp_path / "lines.txt").write_text("the lamp\n")
    from_python = f"dragoman.Translator.load({str(directory)!r}, device='cpu').translate(['the lamp'])"
    arguments = ["translate", str(directory), str(tmp_path / "lines.txt"), "--device", "cpu"]
    verb = f"atexit.register(check); cli.run({arguments!r})"
    check = "check = lambda: os._exit('torch' in sys.modules)"
    for code in (from_python, verb):
        program = f"import atexit, dragoman, os, sys; from dragoman import cli; {check}; {code}; check()"
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0, code


def test_an_interrupt_ends_a_search(tmp_path: Path) -> None:
    """Ctrl-C takes effect while the threads of the native engine are running, not after them."""
    config = write_model(tmp_path, {"d_model": 128, "d_ff": 512})
    backend = native_backend(tmp_path, config)
    endless = SearchConfig(min_length_offset=3000, max_length_offset=3000)
    interrupt = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    # If the tests run in the background, the shell makes them ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            backend.search(search_inputs([[*range(10, 60)]] * 200), endless)
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)


def test_weights_are_read_one_at_a_time(tmp_path: Path) -> None:
    config = write_model(tmp_path)
    with open_weights(tmp_path, config) as weights:
        assert not weights.quantized
        assert weights.names == sorted(load_file(tmp_path / WEIGHTS_FILE))
        for name, tensor in load_file(tmp_path / WEIGHTS_FILE).items():
            assert np.array_equal(weights.read(name), tensor.numpy())


@pytest.mark.parametrize("precision", native.PRECISIONS)
def test_sharing_products_between_threads_changes_nothing(tmp_path: Path, precision: native.Precision) -> None:
    """The result for one sentence is the same, bit for bit, on any number of threads."""
    config = write_model(tmp_path, {"d_model": 128, "target_vocabulary": 700, "tied_embeddings": "none"})
    inputs = [SearchInput([*range(4, 30)], [])]
    alone = native_backend(tmp_path, config, precision, threads=1).search(inputs, SearchConfig(max_length_offset=40))
    for _ in range(5):
        for threads in (2, 3, 9):
            outputs = native_backend(tmp_path, config, precision, threads=threads, shared_bytes=0).search(
                inputs, SearchConfig(max_length_offset=40)
            )
            assert outputs == alone


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    config = write_model(tmp_path)
    for name in ("threads", "batch_sentences", "batch_tokens"):
        for value in (0, 2**40):
            with pytest.raises(SettingsError, match=f"{name} must lie between 1 and [0-9,]*, got {value}"):
                native_backend(tmp_path, config, "fp32", **{name: value})
    with pytest.raises(SettingsError, match="does not support this model: it has batch normalisation"):
        native_backend(tmp_path, replace(config, norm="batch"))
