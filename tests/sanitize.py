"""Compile the engine with gcc's sanitizers and run its tests: `make sanitize`.

    .venv/bin/python tests/sanitize.py              every build that this processor runs
    .venv/bin/python tests/sanitize.py thread/avx2  one of them

Each build gets a copy of the package in build/sanitize/KIND/ENGINE; the modules in src/ stay as they are. A test that
fails and a sanitizer's report, in whatever process, are failures.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman import native
from dragoman.threads import available_cpus

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "build/sanitize"
KINDS = {"address": "address,undefined", "thread": "thread"}
RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
OPTIONS = {
    # Python and torch leave memory to the end of the process. A size beyond all memory is an exception, as without.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}
TESTS = {
    "address": [
        "tests/unit/native",
        "tests/unit/translation/test_shortlist.py",
        "tests/property/test_native_properties.py",
    ],
    "thread": ["tests/unit/native/test_threads.py"],
}
# The address sanitizer of gcc 12 does not lock its allocator for a fork: now and then a child waits forever.
WITHOUT = {
    "address": [
        "--deselect=tests/unit/native/test_shutdown.py::test_a_forked_child_can_search_and_exit",
        "--deselect=tests/unit/native/test_live_search.py::test_a_forked_child_makes_its_own",
    ],
    "thread": [],
}
# What the tests import must be the sanitized module.
CHECK = """
import sys
from dragoman import native
[build] = native.builds()
assert build.module.__file__.startswith(sys.argv[1]), build
"""


def runtime(name: str) -> str:
    """Return the path of a library that comes with gcc."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        sys.exit(
            f"{compiler} is not installed; the sanitizers are those of gcc (on Debian and Ubuntu: apt install g++)"
        )
    path = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    # Without the library, gcc prints its name as it was given.
    if not Path(path.strip()).is_absolute():
        sys.exit(f"{compiler} has no {name}: on Debian and Ubuntu it comes with g++, on Fedora with {name[:-3]}")
    return path.strip()


def sanitize(kind: str, build: str, preloaded: str) -> bool:
    """Compile one build and run its tests; print what went wrong."""
    folder = FOLDER / kind / build
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    package, log = str(folder / "package"), folder / "log"
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    compiling = plain | {"DRAGOMAN_BUILDS": build, "DRAGOMAN_SANITIZE": KINDS[kind]}
    sanitized = plain | {"PYTHONPATH": package, "LD_PRELOAD": preloaded}
    sanitized |= {name: f"{options}:log_path={folder / 'report'}" for name, options in OPTIONS.items()}
    steps: list[tuple[list[str], dict[str, str]]] = [
        (["setup.py", "-q", "build", "--build-base", str(folder / "objects"), "--build-lib", package], compiling),
        (["-c", CHECK, package], sanitized),
        (["-m", "pytest", "-q", "--numprocesses=0", "--capture=sys", *WITHOUT[kind], *TESTS[kind]], sanitized),
    ]
    with log.open("w") as to:
        # A step that fails is the last.
        failed = any(
            subprocess.run(
                [sys.executable, *arguments], cwd=REPOSITORY, env=environment, stdout=to, stderr=to
            ).returncode
            for arguments, environment in steps
        )
    # The undefined sanitizer reports to the log (hence --capture=sys), the others to files.
    reports = sorted(folder.glob("report.*"))
    passed = not failed and not reports
    print(f"== {kind}/{build}: {'passed' if passed else 'FAILED'}", flush=True)
    print(log.read_text().splitlines()[-1] if passed else log.read_text())
    for report in reports:
        print(f"-- {report}", report.read_text(errors="replace"), sep="\n")
    return passed


def main() -> None:
    """Sanitize what the command line names, or all."""
    builds = sorted({build.name for build in native.builds()} | {"generic"})
    everything = [f"{kind}/{build}" for kind in KINDS for build in builds]
    names = sys.argv[1:] or everything
    if unknown := set(names) - set(everything):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(everything)}")
    # The C++ library is there from the start, so that the sanitizer finds its functions for exceptions.
    preloaded = {kind: f"{runtime(RUNTIMES[kind])} {runtime('libstdc++.so.6')}" for kind in KINDS}

    def sanitize_named(name: str) -> bool:
        kind, build = name.split("/")
        return sanitize(kind, build, preloaded[kind])

    with ThreadPoolExecutor(available_cpus()) as pool:
        passed = list(pool.map(sanitize_named, names))
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
