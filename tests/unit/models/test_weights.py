"""model.safetensors from an untrusted source: invalid files are rejected before memory is allocated for tensors."""

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dragoman.errors import ModelError
from dragoman.models.config.checks import LARGEST
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.description import CONFIG_FILE, ModelDescription, load_description
from dragoman.models.quantization import quantize_model
from dragoman.models.storage import load_model, save_model, weights_of
from dragoman.models.transformer import build_transformer
from dragoman.models.weights import LARGEST_HEADER, WEIGHTS_FILE, open_weights
from tests.support.variants import VARIANTS

CONFIG = TransformerConfig(
    source_vocabulary=12, target_vocabulary=12, encoder_layers=1, decoder_layers=1, d_model=8, heads=2, d_ff=16
)
NORM = "decoder.layers.0.self_residual.norm.bias"
MATRIX = "encoder.layers.0.feed_forward.inner.weight"
Header = dict[str, Any]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a model directory with a small model."""
    torch.manual_seed(0)
    (tmp_path / "model").mkdir()
    description = ModelDescription(architecture="transformer", model=CONFIG, trained_length=40)
    save_model(tmp_path / "model", description, weights_of(build_transformer(CONFIG)))
    return tmp_path / "model"


@pytest.fixture
def quantized(directory: Path) -> Path:
    """Return the same model in int8."""
    quantize_model(directory, directory.with_name("int8"))
    return directory.with_name("int8")


def header_of(directory: Path) -> tuple[Header, bytes]:
    data = (directory / WEIGHTS_FILE).read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_header(directory: Path, header: bytes, body: bytes) -> None:
    (directory / WEIGHTS_FILE).write_bytes(len(header).to_bytes(8, "little") + header + body)


def change(directory: Path, edit: Callable[[Header], None]) -> None:
    """Edit the header; the digest, which is computed from the tensors only, remains valid."""
    header, body = header_of(directory)
    edit(header)
    write_header(directory, json.dumps(header).encode(), body)


def setting(name: str, **values: Any) -> Callable[[Header], None]:
    return lambda header: header[name].update(values)


def assert_rejected(directory: Path, message: str) -> None:
    """Check that all functions that read weights raise the same error, with a message of one line with the path."""
    for use in (
        lambda: load_model(directory),
        lambda: quantize_model(directory, directory.with_name("out")),
        lambda: open_weights(directory, load_description(directory).model).__enter__(),
    ):
        with pytest.raises(ModelError, match=message) as caught:
            use()
        assert str(directory / WEIGHTS_FILE) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (setting(NORM, shape=[]), r"norm\.bias has shape \[\], but config\.json requires \[8\]"),
        (setting(NORM, shape=[1, 8]), r"has shape \[1, 8\]"),
        (setting(MATRIX, shape=[0, 7, 8]), r"has shape \[0, 7, 8\], but config\.json requires \[16, 8\]"),
        (setting(MATRIX, shape=[2, 8, 8]), r"has shape \[2, 8, 8\]"),
        (setting(MATRIX, shape=[128]), r"has shape \[128\]"),
        (setting(MATRIX, shape=[2**62, 8]), r"has shape \[\d+, 8\]"),
        (setting(MATRIX, shape=[8] * 50_000), r"has shape \[8, 8, 8, 8, 8, 8, \.\.\.\]"),
        (setting(MATRIX, shape=[-16, -8]), "damaged: .* invalid type, shape or offset"),
        (setting(MATRIX, shape=[16.0, 8]), "damaged: .* invalid type, shape or offset"),
        (setting(MATRIX, shape=[True, 8]), "damaged: .* invalid type, shape or offset"),
        (setting(MATRIX, shape="16, 8"), "damaged: .* invalid type, shape or offset"),
        (setting(MATRIX, shape=None), "damaged: .* invalid type, shape or offset"),
        (setting(MATRIX, dtype="F8_E4M3"), "has the unsupported type 'F8_E4M3': save it as F32 or F16 or"),
        (setting(MATRIX, dtype="F64"), "has the unsupported type 'F64'"),
        (setting(MATRIX, dtype="BF16"), "does not match its shape"),
        (setting(MATRIX, dtype="I8"), "does not match its shape"),
        (setting(NORM, dtype="I8"), "has the unsupported type 'I8'"),
        (setting(MATRIX, dtype=["F32"]), "damaged: .* invalid type, shape or offset"),
        (setting(MATRIX, dtype="F\x1b[31m\n"), r"has the unsupported type 'F\\x1b\[31m\\n'"),
        (setting(MATRIX, data_offsets=[0, 2**70]), "damaged: "),
        (setting(MATRIX, data_offsets=[4, 0]), "damaged: "),
        (setting(MATRIX, data_offsets=[0]), "damaged: "),
        (setting(MATRIX, data_offsets={}), "damaged: "),
        (setting(MATRIX, more=1), "damaged: its header has an entry that does not describe a tensor"),
        (
            lambda header: header.update({MATRIX: []}),
            "damaged: its header has an entry that does not describe a tensor",
        ),
        (lambda header: header.pop(MATRIX), "damaged: its tensors overlap, or have gaps between"),
        (lambda header: header.update({MATRIX: header[NORM]}), "damaged: its tensors overlap"),
        (lambda header: header.update(__metadata__=None), "metadata"),
        (lambda header: header.update(__metadata__=[]), "metadata"),
        (lambda header: header.update(__metadata__="x"), "metadata"),
        (lambda header: header.update(__metadata__=3), "metadata"),
        (lambda header: header.update(__metadata__={"sha256": 3}), "metadata"),
        (lambda header: header.update(__metadata__={"sha256": "0" * 64}), "do not match the digest"),
        (
            lambda header: header.update({"a\nError: b\x1b[2J\ud800" * 99: header.pop(MATRIX)}),
            r"lacks encoder\.layers\.0\.feed_forward\.inner\.weight",
        ),
        (
            lambda header: header.update({"a\nb\x1b[2J" * 99: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}),
            r"has 1 unknown weights; the first is 'a\\nb\\x1b\[2J.*\.\.\..*'",
        ),
    ],
)
def test_an_invalid_header_is_rejected(directory: Path, edit: Callable[[Header], None], message: str) -> None:
    change(directory, edit)
    assert_rejected(directory, message)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"[]", "it is not a JSON object"),
        (b"null", "it is not a JSON object"),
        (b"3", "it is not a JSON object"),
        (b"", "damaged"),
        (b'{"a":' * 20_000, "damaged: it is nested too deeply"),
        (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "does not describe a tensor"),
        (b'{"a": NaN}', "does not describe a tensor"),
        (b'{"a": 1, "a": 2}', "damaged: it has the key 'a' twice"),
        (b'{"a": ' + b"9" * 5000 + b"}", "damaged"),
        ("{}".encode("utf-16"), "damaged: it is not UTF-8"),
        (b"\xff{}", "damaged: it is not UTF-8"),
        (b"{}", "damaged: its header describes 0 bytes"),
        (b"{}".ljust(LARGEST_HEADER + 1), "damaged: its header has 2,097,153 bytes; at most"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_header_that_is_not_a_json_object_is_rejected(directory: Path, header: bytes, message: str) -> None:
    write_header(directory, header, header_of(directory)[1])
    assert_rejected(directory, message)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_largest_header_is_within_the_limit(variant: str) -> None:
    """The header of a model with the largest number of layers, in int8, with large sizes and offsets."""
    layers = {name: LARGEST[name] for name in ("encoder_layers", "decoder_layers") if hasattr(VARIANTS[variant], name)}
    length = 0
    for tensor in replace(VARIANTS[variant], **layers).tensors():
        for name in (tensor.name, tensor.name + ".scale") if len(tensor.shape) == 2 else (tensor.name,):
            entry = {"dtype": "F32", "shape": [10**5] * len(tensor.shape), "data_offsets": [10**11, 10**11]}
            length += len(json.dumps({name: entry}, separators=(",", ":")))
    assert length < LARGEST_HEADER


@pytest.mark.parametrize(
    "edit",
    [
        setting(MATRIX + ".scale", shape=[16, 1]),
        setting(MATRIX + ".scale", shape=[]),
        setting(MATRIX + ".scale", dtype="I64", shape=[8]),
        setting(MATRIX + ".scale", dtype="F16", shape=[32]),
        lambda header: header.update({"other": header.pop(MATRIX + ".scale")}),
        lambda header: header.update({MATRIX: header.pop(MATRIX + ".scale"), MATRIX + ".scale": header[MATRIX]}),
    ],
)
def test_int8_has_one_scale_for_each_row(quantized: Path, edit: Callable[[Header], None]) -> None:
    change(quantized, edit)
    with pytest.raises(ModelError, match=r"int8, but has no float32 scale for each|has shape \[16\], but"):
        load_model(quantized)


def test_settings_of_a_large_model_with_a_small_file_are_rejected_before_it_is_built(directory: Path) -> None:
    config = json.loads((directory / CONFIG_FILE).read_text())
    config["model"].update(encoder_layers=250, d_model=4096, d_ff=16384)
    (directory / CONFIG_FILE).write_text(json.dumps(config))
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="requires"):
            load_model(directory)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_half_precision_weights_of_other_programs_can_be_read(directory: Path) -> None:
    expected = weights_of(load_model(directory))
    for kind in (torch.float16, torch.bfloat16):
        save_file({name: tensor.to(kind) for name, tensor in expected.items()}, directory / WEIGHTS_FILE)
        for name, tensor in weights_of(load_model(directory)).items():
            assert tensor.equal(expected[name].to(kind).float())


def test_int8_is_read_as_units_times_scale(quantized: Path) -> None:
    with open_weights(quantized, CONFIG) as weights:
        assert weights.quantized
        assert not [name for name in weights.names if name.endswith(".scale")]
        actual = weights.read(MATRIX)
    header, body = header_of(quantized)
    units, scale = (
        np.frombuffer(body[slice(*header[name]["data_offsets"])], dtype=kind).reshape(header[name]["shape"])
        for name, kind in ((MATRIX, np.int8), (MATRIX + ".scale", np.float32))
    )
    assert np.array_equal(actual, units.astype(np.float32) * scale[:, None])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_rejected(directory: Path, value: float) -> None:
    tensors = {name: tensor.clone() for name, tensor in weights_of(load_model(directory)).items()}
    tensors[MATRIX][3, 4] = value
    save_file(tensors, directory / WEIGHTS_FILE)
    for use in (lambda: load_model(directory), lambda: quantize_model(directory, directory.with_name("out"))):
        with pytest.raises(FloatingPointError, match=rf"{MATRIX}"):
            use()


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "socket link", "dangling link"])
def test_only_a_regular_file_is_read(directory: Path, kind: str) -> None:
    """Run in a separate process, because an error would wait forever or fill the memory."""
    path = directory / WEIGHTS_FILE
    path.unlink()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
        case "socket link":
            path.symlink_to("/dev/log" if Path("/dev/log").exists() else "/dev/null")
        case _:
            path.symlink_to(directory / "nothing")
    code = f"""
from pathlib import Path
from dragoman.errors import ModelError
from dragoman.models.description import load_description
from dragoman.models.weights import open_weights
directory = Path({str(directory)!r})
try:
    with open_weights(directory, load_description(directory).model):
        pass
except ModelError as error:
    assert {WEIGHTS_FILE!r} in str(error)
else:
    raise SystemExit("the file was read")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_symbolic_link_to_a_regular_file_is_read(directory: Path, tmp_path: Path) -> None:
    """Large files may be on another disk."""
    (directory / WEIGHTS_FILE).rename(tmp_path / "elsewhere")
    (directory / WEIGHTS_FILE).symlink_to(tmp_path / "elsewhere")
    load_model(directory)
