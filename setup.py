"""The extension modules of the native engine; everything else is in pyproject.toml.

Each module is `optional`: without a C++ compiler the installation succeeds, and translation uses torch.
`dragoman doctor` reports which engine is used, and why. Environment variables:

    DRAGOMAN_BUILDS     comma-separated builds to compile, such as "avx512,avx2"; a build that does not compile is
                        then an error
    DRAGOMAN_SANITIZE   "address,undefined" or "thread": compile with gcc's sanitizers (see tests/sanitize.py)
"""

import os
import platform
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import Extension, setup

NATIVE = "src/dragoman/native"
HEADERS = sorted(map(str, Path(NATIVE).glob("*.hpp")))
# One source, compiled for several instruction sets; dragoman.native imports the best build for the processor.
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx512bf16"]
INSTRUCTIONS = {"avx512": AVX512, "avx2": AVX2, "generic": []}

ON_X86 = platform.machine() in ("x86_64", "AMD64")
REQUESTED = os.environ.get("DRAGOMAN_BUILDS", "")
BUILDS = REQUESTED.split(",") if REQUESTED else ["avx512", "avx2"] if ON_X86 else ["generic"]
if unknown := [name for name in BUILDS if name not in INSTRUCTIONS]:
    raise SystemExit(f"DRAGOMAN_BUILDS: unknown build {unknown[0]!r}; choose from {', '.join(INSTRUCTIONS)}")

FLAGS, LINK_FLAGS = ["-O3", "-g0"], []
if SANITIZERS := os.environ.get("DRAGOMAN_SANITIZE"):
    LINK_FLAGS = [f"-fsanitize={SANITIZERS}"]
    FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", *LINK_FLAGS]
    if "undefined" in SANITIZERS:
        # float-cast-overflow is not part of "undefined". The excluded checks take three times as long to compile, and
        # the errors they detect lead to an invalid address, which the address sanitizer reports.
        FLAGS += ["-fsanitize=float-cast-overflow", "-fno-sanitize=null,vptr,object-size"]
        # Python's own flags contain -fwrapv, which defines signed overflow and so disables its check.
        FLAGS.append("-fno-wrapv")


def extension(build: str) -> Pybind11Extension:
    """Return the extension module of one build."""
    return Pybind11Extension(
        f"dragoman.native._{build}",
        [f"{NATIVE}/module.cpp"],
        depends=HEADERS,
        cxx_std=17,
        define_macros=[("DRAGOMAN_MODULE", f"_{build}")],
        extra_compile_args=[*FLAGS, "-Wno-psabi", *INSTRUCTIONS[build]],
        extra_link_args=LINK_FLAGS,
        optional=not REQUESTED,
    )


extensions = [extension(build) for build in BUILDS]
if ON_X86:
    extensions.append(Extension("dragoman.native._processor", [f"{NATIVE}/processor.c"], optional=not REQUESTED))

setup(ext_modules=extensions)
