"""Running of a case in a separate process: its outcome, and its use of memory."""

import contextlib
import faulthandler
import hashlib
import os
import re
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import UserError
from tests.support.hostile.cases import Case
from tests.support.hostile.folder import Files, size_of, write_folder
from tests.support.hostile.verbs import LINE_BY_LINE, LINES, MODEL, NUMBERS_ONLY, PAIR_LINES, PAIRS, VERBS

SECONDS = 10
# Limit of the memory that a process may allocate, beyond what it has when it starts, in bytes.
MOST_MEMORY = 1 << 30
MOST_WRITTEN = 1 << 28
LONGEST_MESSAGE = 1000

CLEAN, SAME, DIFFERENT = "clean", "same", "different"
# Outcomes that are bugs.
UNCLEAR, TRACEBACK, CRASH, HANG, MEMORY = "unclear", "traceback", "crash", "hang", "memory"
OUTCOMES = (CLEAN, SAME, DIFFERENT, UNCLEAR, TRACEBACK, CRASH, HANG, MEMORY)
TROUBLE = (UNCLEAR, TRACEBACK, CRASH, HANG, MEMORY)


@dataclass
class Result:
    """Result of a command on a case.

    Attributes:
        outcome: one of `OUTCOMES`.
        detail: the message of an error, or where it occurred.
        digest: SHA-256 of the standard output.
        peak: largest memory use in bytes, beyond that at the start of the process.
        noise: lines on standard error, except warnings about lines of text.
    """

    outcome: str
    detail: str = ""
    digest: str = ""
    peak: int = 0
    noise: tuple[str, ...] = ()


@dataclass
class Running:
    """A process that runs a command on a case in a directory, and the pipe for its result."""

    process: int
    pipe: int
    folder: Path
    began: float


def start(case: Case, verb: str, folder: Path, other: Files, *, tracebacks: bool = False) -> Running:
    """Start a command on a case in a new directory.

    Args:
        case: the case.
        verb: a key of `VERBS`.
        folder: the directory to create.
        other: an undamaged model directory, which some commands need in addition.
        tracebacks: print tracebacks to standard error, which is part of the result.
    """
    folder.mkdir()
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return Running(process, reading, folder, time.monotonic())
    try:
        os.close(reading)
        _run_child(case, verb, folder, other, writing, tracebacks)
    finally:
        os._exit(1)


def finish(running: Running) -> Result:
    """Wait until a process ends or exceeds the time limit; return its result."""
    data = b""
    timed_out = False
    while True:
        left = max(0.0, running.began + SECONDS - time.monotonic())
        ready, _, _ = select.select([running.pipe], [], [], left)
        if not ready:
            timed_out = True
            break
        part = os.read(running.pipe, 1 << 16)
        data += part
        if not part:
            break
    os.close(running.pipe)
    if timed_out:
        # On SIGABRT, faulthandler prints a traceback.
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.process, signal.SIGABRT)
            time.sleep(0.2)
            os.kill(running.process, signal.SIGKILL)
    _, status = os.waitpid(running.process, 0)
    errors = (running.folder / "stderr").read_text(errors="replace") if (running.folder / "stderr").exists() else ""
    shutil.rmtree(running.folder)
    if timed_out:
        return Result(HANG, _innermost(errors))
    if status or not data:
        ending = (
            signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
        )
        return Result(CRASH, f"{ending} {_innermost(errors)}")
    outcome, digest, peak, detail = data.decode(errors="replace").split("\t", 3)
    noise = tuple(line for line in errors.splitlines() if not re.match(r"(dragoman: )?line \d+: ", line))
    return Result(outcome, detail, digest, int(peak), noise)


def judged(result: Result, undamaged: Result, files: Files, allowance: int) -> Result:
    """Return a result compared with that of the undamaged directory: the outcome may become DIFFERENT or MEMORY."""
    if result.outcome == SAME and result.digest != undamaged.digest:
        result.outcome = DIFFERENT
    limit = undamaged.peak + 2 * size_of(files) + allowance
    if result.outcome in (CLEAN, SAME, DIFFERENT) and result.peak > limit:
        result.outcome = MEMORY
        result.detail = f"{result.peak / 1e6:.1f} MB, not {limit / 1e6:.1f}: {result.detail}"
    return result


def _run_child(case: Case, verb: str, folder: Path, other: Files, pipe: int, tracebacks: bool) -> None:
    os.chdir(folder)
    write_folder(MODEL, case.files)
    write_folder(Path("other"), other)
    LINES.write_bytes(case.lines)
    PAIRS.write_text(PAIR_LINES)
    output = os.open("stdout", os.O_WRONLY | os.O_CREAT)
    errors = os.open("stderr", os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    faulthandler.enable(errors)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
    held = _memory("VmData") + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (held, held))
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("RssAnon")
    outcome, detail = _outcome(case, verb, tracebacks)
    # Subtract the pages of mapped files: only allocated memory counts.
    peak = max(0, _memory("VmHWM") - _memory("RssFile") - before)
    digest = hashlib.sha256(Path("stdout").read_bytes()).hexdigest()
    with open(pipe, "wb") as file:
        file.write(f"{outcome}\t{digest}\t{peak}\t{detail}".encode(errors="backslashreplace"))
    os._exit(0)


def _outcome(case: Case, verb: str, tracebacks: bool) -> tuple[str, str]:
    try:
        VERBS[verb](case.settings)
        sys.stdout.flush()
        printed = Path("stdout").read_bytes()
        lines = case.lines.count(b"\n") + (case.lines[-1:] not in (b"\n", b""))
        if verb in LINE_BY_LINE and printed.count(b"\n") != lines:
            return UNCLEAR, f"{printed.count(10)} lines for {lines}"
        if verb in NUMBERS_ONLY and not printed.decode().replace("\n", "").replace("\t", "").isprintable():
            return UNCLEAR, f"printed {printed[:300]!r}"
    except (UserError, OSError, FloatingPointError) as error:
        # The command line prints these errors as one line.
        message = str(error)
        fine = 0 < len(message) <= LONGEST_MESSAGE and message.isprintable()
        detail = f"{type(error).__name__}: {message if fine else repr(message[:300])}"
        return (CLEAN if fine else UNCLEAR), detail + ("" if fine else f" ({len(message)} characters)")
    except BaseException as error:
        kind = MEMORY if isinstance(error, MemoryError) or "allocate memory" in str(error) else TRACEBACK
        if tracebacks:
            traceback.print_exc()
        return kind, f"{_origin(error)}: {type(error).__name__}: {str(error)[:200]!r}"
    return SAME, ""


def _origin(error: BaseException) -> str:
    """Return the place in Dragoman at which an exception was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/dragoman/" in frame.filename]
    if not frames:
        return "outside"
    last = frames[-1]
    return f"{last.filename.rpartition('/dragoman/')[2]}:{last.lineno} {last.name}"


def _innermost(errors: str) -> str:
    """Return the innermost frames in Dragoman of faulthandler's traceback."""
    frames = re.findall(r'File "[^"]*/dragoman/([^"]*)", line (\d+) in (\S+)', errors)
    return ", from ".join(f"{path}:{line} {name}" for path, line, name in frames[:2])


def _memory(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None
    return 1024 * int(match[1])


def run_one(case: Case, verb: str, folder: Path, other: Files) -> Result:
    """Run a command on a case and wait for its result; arguments as for `start`."""
    return finish(start(case, verb, folder, other))
