"""config.json from an untrusted source, and the list of the files that belong to a model."""

import hashlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ModelError
from dragoman.models.description import (
    ALIGNMENT_FILE,
    CONFIG_FILE,
    SHORTLIST_FILE,
    ModelDescription,
    add_file,
    load_description,
    save_description,
)
from dragoman.models.quantization import quantize_model
from dragoman.models.storage import load_model
from tests.support.native_models import translator_directory
from tests.support.tiny import tiny


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a model directory with a tokenizer."""
    (tmp_path / "model").mkdir()
    return translator_directory(tmp_path / "model")


def config_of(directory: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((directory / CONFIG_FILE).read_text())
    return config


def assert_rejected(directory: Path, message: str) -> None:
    """Check that config.json is rejected with a short, printable message that contains its path."""
    with pytest.raises(ModelError, match=message) as caught:
        load_description(directory)
    text = str(caught.value)
    assert str(directory / CONFIG_FILE) in text
    assert text.isprintable()
    assert len(text) < 800


DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
ESCAPES = "a\nError: all is well\x1b[2J\u202e\ud800"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": ["transformer"]}, r"unknown architecture \['transformer'\]"),
        ({"architecture": {"transformer": 1}}, "unknown architecture {'transformer': 1}"),
        ({"architecture": DEEP}, r"unknown architecture \[\[\["),
        ({"architecture": ESCAPES}, r"unknown architecture 'a\\nError: all is well\\x1b\[2J\\u202e\\ud800'"),
        ({"architecture": "x" * 500_000}, r"unknown architecture 'xxx.*\.\.\.x*'"),
        ({"architecture": 10**400}, "unknown architecture 1000"),
        ({"model": DEEP}, "must be a table of settings"),
        ({"model": None}, "must be a table of settings"),
        ({ESCAPES: 1}, r"unknown key 'a\\nError: all is well\\x1b"),
        ({"x" * 100_000: 1}, r"unknown key 'xxx.*\.\.\."),
        ({"source_language": 3}, "expected text"),
        ({"trained_length": 2**31}, "trained_length must be at least 1 and at most 131,072, not 2147483648"),
        ({"trained_length": float("inf")}, "expected a whole number, got inf"),
        ({"trained_length": 10**400}, "trained_length must be"),
        ({"format": 3}, "format 3 is not supported"),
        ({"format": -1}, "format -1 is not supported"),
        ({"format": 10**400}, "format 1000"),
        ({"format": "2"}, "expected a whole number"),
        ({"format": None}, "expected a whole number"),
        ({"digests": []}, "digests.*expected a table"),
        ({"digests": {ESCAPES: 1}}, r"digests\.'a\\nError.* expected text"),
    ],
)
def test_untrusted_values_are_quoted_and_rejected(directory: Path, changes: dict[str, Any], message: str) -> None:
    (directory / CONFIG_FILE).write_text(json.dumps(config_of(directory) | changes))
    assert_rejected(directory, message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": float("nan")}, "expected a whole number, got nan"),
        ({"dropout": float("nan")}, "expected a finite number, got nan"),
        ({"dropout": -float("inf")}, "expected a finite number, got -inf"),
        ({"encoder_layers": 10**6}, "encoder_layers must be at most 250, not 1000000"),
        ({"d_ff": 2**63}, "d_ff must be at most"),
        ({"norm": DEEP}, "expected one of"),
        ({ESCAPES: 1}, r"unknown key model\.'a\\nError"),
    ],
)
def test_untrusted_settings_are_rejected(directory: Path, changes: dict[str, Any], message: str) -> None:
    config = config_of(directory)
    config["model"] |= changes
    (directory / CONFIG_FILE).write_text(json.dumps(config))
    assert_rejected(directory, message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": ' * 50_000, "nested too deeply"),
        (b"[" * 500_000, "nested too deeply"),
        (b" " * (1 << 20) + b"{}", "more than 1,048,576 bytes"),
        (b"{}\0", "damaged"),
        (b"\0" * 99, "damaged"),
        (b'{"format": 1, "format": 2}', "has the key 'format' twice"),
        (b'{"\xff": 1}', "it is not UTF-8"),
        (b"\xef\xbb\xbf{}", "damaged"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_file_that_is_not_a_json_object_is_rejected(directory: Path, data: bytes, message: str) -> None:
    (directory / CONFIG_FILE).write_bytes(data)
    assert_rejected(directory, message)


LOADING = """
import sys
from pathlib import Path
from dragoman.errors import ModelError
from dragoman.alignment.heads import AlignmentHead
from dragoman.models.quantization import quantize_model
from dragoman.translation.translator import Translator
from dragoman.models.description import load_description
from dragoman.translation.shortlist import Shortlist
directory, out = map(Path, sys.argv[1:])
messages = []
for use in (
    lambda: Translator.load(directory, device="cpu", engine="native"),
    lambda: Shortlist.load(directory, load_description(directory)),
    lambda: AlignmentHead.load(directory),
    lambda: quantize_model(directory, out),
):
    try:
        use()
    except ModelError as error:
        messages.append(str(error))
print("\\n".join(messages))
"""


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "process"])
@pytest.mark.parametrize(
    "name", [CONFIG_FILE, "model.safetensors", "tokenizer.model", SHORTLIST_FILE, ALIGNMENT_FILE, "README.md"]
)
def test_only_regular_files_are_read(directory: Path, name: str, kind: str) -> None:
    """Run in a separate process with limited memory: an error would wait forever or fill the memory."""
    path = directory / name
    path.unlink(missing_ok=True)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to("/proc/self/mem")
    process = subprocess.run(
        [sys.executable, "-c", LOADING, str(directory), str(directory.with_name("out"))],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30)),
    )
    assert str(path) in process.stdout
    assert not directory.with_name("out").exists()


def test_only_the_files_of_a_model_are_copied(directory: Path, tmp_path: Path) -> None:
    """A symbolic link could copy any file of this machine into a directory that is then published."""
    (tmp_path / "secret").write_text("secret")
    (directory / "README.md").write_text("# A model\n")
    (directory / "metrics.json").write_text("{}")
    (directory / "notes").symlink_to(tmp_path / "secret")
    (directory / "run").mkdir()
    quantize_model(directory, tmp_path / "copy")
    names = ["README.md", CONFIG_FILE, "metrics.json", "model.safetensors", "tokenizer.model"]
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == names
    assert config_of(tmp_path / "copy") == config_of(directory)
    for name in ("README.md", "metrics.json", "tokenizer.model", ALIGNMENT_FILE):
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(tmp_path / "secret")
        with pytest.raises(ModelError, match=rf"cannot copy .*{name}: it is a symbolic link; copy the directory again"):
            quantize_model(directory, tmp_path / "other")
        assert not (tmp_path / "other").exists()
        (directory / name).unlink()


# The list of files


def test_existing_files_are_listed(directory: Path) -> None:
    digest = hashlib.sha256((directory / "tokenizer.model").read_bytes()).hexdigest()
    assert config_of(directory)["digests"] == {"tokenizer.model": digest}
    add_file(directory, SHORTLIST_FILE, b"some")
    assert config_of(directory)["digests"] == {
        "tokenizer.model": digest,
        SHORTLIST_FILE: hashlib.sha256(b"some").hexdigest(),
    }
    # Training continues and writes a better model.
    before = config_of(directory)
    save_description(directory, load_description(directory))
    assert config_of(directory) == before


def test_an_interrupted_add_file_affects_only_that_file(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_file(directory, SHORTLIST_FILE, b"some")
    with monkeypatch.context() as context:
        context.setattr("dragoman.models.description._write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            add_file(directory, SHORTLIST_FILE, b"other")
    assert (directory / SHORTLIST_FILE).read_bytes() == b"other"
    load_model(directory)
    with pytest.raises(ModelError, match=r"cannot copy .*shortlist\.safetensors: its bytes are not those"):
        quantize_model(directory, directory.with_name("out"))
    add_file(directory, SHORTLIST_FILE, b"other")
    quantize_model(directory, directory.with_name("out"))


def test_a_directory_of_an_earlier_version_can_be_read(directory: Path) -> None:
    config = config_of(directory)
    del config["digests"]
    (directory / CONFIG_FILE).write_text(json.dumps(config | {"format": 1}))
    description = load_description(directory)
    assert description.listed is None
    load_model(directory)
    quantize_model(directory, directory.with_name("new"))
    assert config_of(directory.with_name("new"))["format"] == 2
    assert config_of(directory.with_name("new"))["digests"].keys() == {"tokenizer.model"}


def test_a_model_without_a_tokenizer_lists_none(tmp_path: Path) -> None:
    save_description(
        tmp_path, ModelDescription(architecture="transformer", model=tiny(8, 8, joint=True), trained_length=9)
    )
    assert config_of(tmp_path)["digests"] == {}


@pytest.mark.parametrize("name", ["architecture", "model"])
def test_a_description_without_required_keys_is_rejected(directory: Path, name: str) -> None:
    config = config_of(directory)
    del config[name]
    (directory / CONFIG_FILE).write_text(json.dumps(config))
    assert_rejected(directory, f"{name} is missing in ")
