"""The decoding engine's extension modules; everything else is in pyproject.toml.

Each is `optional`: where no C++ compiler is found, installation goes on and translation runs on torch.
`dragoman doctor` says which engine is used, and why. Two environment variables change that:

    DRAGOMAN_ENGINES    the builds wanted, such as "avx512,avx2"; one that does not compile is then an error
    DRAGOMAN_SANITIZE   "address,undefined" or "thread": compile with gcc's sanitizers (see tests/sanitize.py)
"""

import os
import platform
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import Extension, setup

NATIVE = "src/dragoman/native"
HEADERS = sorted(map(str, Path(NATIVE).glob("*.hpp")))
# One source, compiled for several processors; dragoman.native picks the best that runs here.
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx512bf16"]
INSTRUCTIONS = {"avx512": AVX512, "avx2": AVX2, "generic": []}

ON_X86 = platform.machine() in ("x86_64", "AMD64")
WANTED = os.environ.get("DRAGOMAN_ENGINES", "")
ENGINES = WANTED.split(",") if WANTED else ["avx512", "avx2"] if ON_X86 else ["generic"]

FLAGS, LINK_FLAGS = ["-O3", "-g0"], []
if SANITIZERS := os.environ.get("DRAGOMAN_SANITIZE"):
    LINK_FLAGS = [f"-fsanitize={SANITIZERS}"]
    FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", *LINK_FLAGS]
    if "undefined" in SANITIZERS:
        # The first is not part of "undefined"; the others take three times as long to compile, and what they find
        # ends in an invalid address, which the address sanitizer reports.
        FLAGS += ["-fsanitize=float-cast-overflow", "-fno-sanitize=null,vptr,object-size"]
        # Python's own flags have -fwrapv, which gives signed overflow a meaning, and so no report.
        FLAGS.append("-fno-wrapv")


def engine(name: str) -> Pybind11Extension:
    """The engine for one kind of processor."""
    return Pybind11Extension(
        f"dragoman.native._{name}",
        [f"{NATIVE}/module.cpp"],
        depends=HEADERS,
        cxx_std=17,
        define_macros=[("DRAGOMAN_MODULE", f"_{name}")],
        extra_compile_args=[*FLAGS, "-Wno-psabi", *INSTRUCTIONS[name]],
        extra_link_args=LINK_FLAGS,
        optional=not WANTED,
    )


engines = [engine(name) for name in ENGINES]
if ON_X86:
    engines.append(Extension("dragoman.native._processor", [f"{NATIVE}/processor.c"], optional=not WANTED))

setup(ext_modules=engines)
