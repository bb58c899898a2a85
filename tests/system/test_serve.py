"""The verb serve, and a server's signals, as programs."""

import concurrent.futures
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import read_arguments
from dragoman.cli.serve import Serve
from dragoman.errors import StorageError
from tests.support.command_line import dragoman
from tests.support.paths import REPOSITORY
from tests.support.processes import dragoman_process
from tests.support.serving_app import main, printed_address, request, server_program, wait_until
from tests.support.serving_program import metric, served
from tests.support.small_translator import write_model

KEY = "a-key-of-the-office"
KEYS = f'[[keys]]\nname = "office"\nkey = "{KEY}"\n'
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two model directories, whose languages are unknown."""
    folder = tmp_path_factory.mktemp("models")
    for number, name in enumerate(("one", "other")):
        (folder / name).mkdir()
        write_model(folder / name, number, right_to_left=False)
    return folder


# The verb.


def test_serve_prints_its_address_and_ends_with_status_0(models: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    with served(
        *(f"{models / 'one'}=en-de", f"{models / 'other'}=de-en"),
        *("--data", tmp_path / "data", "--keys", tmp_path / "keys.toml", "--access-log"),
    ) as (process, address):
        assert request(address, "GET", "/ready")[::2] == (200, b'{"ready":true}')
        assert request(address, "GET", "/ready?q=secret", headers={"Host": "evil.example.org"})[0] == 421
        process.send_signal(signal.SIGHUP)
        assert request(address, "GET", "/ready")[0] == 200
        wait_until(lambda: b"dragoman_model_reloads 1.0" in request(address, "GET", "/metrics")[2])
        numbers = request(address, "GET", "/metrics")[2].decode().splitlines()
        assert {"dragoman_workers 1.0", "dragoman_lines_in_flight 0.0", "dragoman_worker_restarts 0.0"} <= set(numbers)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "/ready 200 " in errors
    assert "secret" not in errors
    assert "Traceback" not in errors
    assert (tmp_path / "data").is_dir()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["{one}"], "the languages of {one} are unknown: write {one}=SOURCE-TARGET"),
        (["{one}=en-de", "{other}=en-de"], "{one} and {other} both translate en to de"),
        (["{models}/none=en-de"], "{models}/none is not a model directory"),
        (["{one}=en-de", "--port", "{used}"], "cannot listen on port {used} of 127.0.0.1 (Address already in use)"),
        (["{one}=en-de", "--port", "65536"], "cannot listen on port 65536"),
        (["{one}=en-de", "--port", "-1"], "cannot listen on port -1"),
        (["{one}=en-de", "--host", "no such host"], "cannot listen on port 5000 of no such host"),
        (["{one}=en-de", "--keys", "{models}/none.toml"], "{models}/none.toml: cannot be read"),
        (["{one}=en-de", "--keys", "{models}"], "{models}: cannot be read: Is a directory"),
        (["{one}=en-de", "--keys", "{one}/config.json"], "{one}/config.json:1: not valid TOML"),
        (["{one}=en-de", "--suggestions", "{models}"], "{models}: cannot be used: Is a directory"),
        (["{one}=en-de", "--workers", "0"], "workers must be at least 1, got 0"),
        (["{one}=en-de", "--requests", "0"], "the limit requests must be at least 1, not 0"),
        (["{one}=en-de", "--body-seconds", "nan"], "the limit body_seconds must be at least 1, not nan"),
        (["{one}=en-de", "--data", "{one}/config.json"], "{one}/config.json: cannot be used for data: File exists"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    options: list[str],
    message: str,
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as used:
        names = {
            "models": models,
            "one": models / "one",
            "other": models / "other",
            "used": used.getsockname()[1],
        }
        status = dragoman(monkeypatch, "serve", *(option.format(**names) for option in options))
    errors = capsys.readouterr().err
    assert status == 2
    assert message.format(**names) in errors
    assert errors.count("\n") == 1


def test_a_missing_package_is_named(models: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert dragoman(monkeypatch, "serve", f"{models / 'one'}=en-de") == 2
    assert "pip install 'dragoman[serving]'" in capsys.readouterr().err


@BOTH
def test_a_signal_while_models_are_loaded(number: signal.Signals, models: Path, tmp_path: Path) -> None:
    command = dragoman_process(
        *("serve", f"{models / 'one'}=en-de", "--port", "0", "--data", tmp_path),
        interrupted_at="dragoman.serving.running",
        signal_number=number,
    )
    process = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (128 + number, b"", b"")


# Signals of a running server, whose route /echo answers after a time.


@BOTH
def test_requests_in_flight_are_answered_whole(number: signal.Signals, tmp_path: Path) -> None:
    texts = [os.urandom(50_000) for _ in range(8)]
    with server_program("0", tmp_path) as (process, address), concurrent.futures.ThreadPoolExecutor(8) as threads:
        # A connection that is open but idle does not delay the end.
        with closing(socket.create_connection(address)):
            answers = [threads.submit(request, address, "POST", "/echo?seconds=1.5", text) for text in texts]
            wait_until(lambda: b"in_progress 8.0" in request(address, "GET", "/metrics")[2])
            begin = time.monotonic()
            process.send_signal(number)
            wait_until(lambda: not is_ready(address), seconds=1)
            assert [answer.result()[::2] for answer in answers] == [(200, text) for text in texts]
            assert process.wait(timeout=20) == 0
        assert time.monotonic() - begin < 10
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_second_signal_answers_requests_in_flight_at_once(tmp_path: Path) -> None:
    with server_program("0", tmp_path) as (process, address), concurrent.futures.ThreadPoolExecutor() as threads:
        answer = threads.submit(request, address, "POST", "/v2/echo?seconds=40", b"text")
        wait_until(lambda: b"in_progress 1.0" in request(address, "GET", "/metrics")[2])
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_ready(address))
        process.send_signal(signal.SIGTERM)
        assert answer.result()[::2] == (503, b'{"message":"the server is stopping"}')
        assert process.wait(timeout=20) == 0


def test_a_document_in_progress_does_not_delay_the_end(tmp_path: Path) -> None:
    form = "".join(
        f"--x\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n"
        for name, value in (
            ('name="target_lang"', "de"),
            ('name="source_lang"', "en"),
            ('name="file"; filename="a.txt"', "a"),
        )
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    with server_program("0", tmp_path) as (process, address):
        status, _, answer = request(address, "POST", "/v2/document", f"{form}--x--\r\n".encode(), headers)
        assert (status, b"document_id" in answer) == (200, True)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def is_ready(address: tuple[str, int]) -> bool:
    try:
        return request(address, "GET", "/ready")[0] == 200
    except OSError:
        return False


def test_sighup_reads_keys_and_models_anew_without_a_lost_request(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text(KEYS)
    with server_program("0", tmp_path / "data", keys) as (process, address):

        def version(key: str) -> tuple[int, bytes]:
            return request(address, "GET", f"/version?key={key}")[::2]

        assert version(KEY) == (200, b'{"version":1}')
        assert version("another-key-of-the-office")[0] == 403
        keys.write_text(KEYS.replace(KEY, "another-key-of-the-office"))
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            texts = [f"text {number}".encode() for number in range(100)]
            answers = [threads.submit(request, address, "POST", "/echo?seconds=0.02", text) for text in texts]
            process.send_signal(signal.SIGHUP)
            assert [answer.result()[::2] for answer in answers] == [(200, text) for text in texts]
        wait_until(lambda: version("another-key-of-the-office") == (200, b'{"version":2}'))
        assert version(KEY)[0] == 403
        keys.write_text("nonsense")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: version("another-key-of-the-office") == (200, b'{"version":3}'))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors.startswith("dragoman: the former keys stay valid: ")
    assert errors.count("\n") == 1
    assert '"office": ' in (tmp_path / "data/usage.json").read_text()


def test_a_hang_up_while_the_server_starts_is_remembered(models: Path, tmp_path: Path) -> None:
    command = dragoman_process("serve", "--port", "0", "--data", tmp_path, f"{models / 'one'}=en-de")
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:

        def is_held_back() -> bool:
            status = Path(f"/proc/{process.pid}/status").read_text()
            blocked = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:"))
            return bool(blocked >> signal.SIGHUP - 1 & 1)

        try:
            # As soon as the verb runs.
            wait_until(is_held_back)
            process.send_signal(signal.SIGHUP)
            address = printed_address(process)
            wait_until(lambda: metric(address, "dragoman_model_reloads") == 1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


def test_two_servers_cannot_use_one_directory(tmp_path: Path) -> None:
    with server_program("0", tmp_path) as (process, _):
        with pytest.raises(StorageError, match=r"another server uses .*--data"):
            main("0", str(tmp_path))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    (tmp_path / "translated-files").write_text("no directory")
    with pytest.raises(StorageError, match="translated-files: cannot be used for translated files: Not a directory"):
        main("0", str(tmp_path))


def test_a_port_can_be_used_again_at_once(tmp_path: Path) -> None:
    port = "0"
    for _ in range(2):
        with server_program(port, tmp_path) as (process, address), closing(socket.create_connection(address)):
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
        port = str(address[1])


# What the documentation shows for systemd and containers.


def test_the_unit_of_systemd_is_valid(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs/serving/dragoman.service").read_text(encoding="utf-8")
    program = "/opt/dragoman/bin/dragoman"
    command = next(line for line in text.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=")
    words = shlex.split(command)
    assert words[0] == program
    assert isinstance(read_arguments(words[1:]), Serve)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "dragoman.service"
    unit.write_text(text.replace(program, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_of_the_container_is_valid() -> None:
    text = (REPOSITORY / "docs/serving/Containerfile").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("ENTRYPOINT "))
    words = [word.strip('", []') for word in line.removeprefix("ENTRYPOINT ").split(",")]
    verb = read_arguments([*words[1:], "/models/en-de"])
    assert isinstance(verb, Serve)
    assert (verb.address.host, verb.access.data) == ("0.0.0.0", Path("/data"))
