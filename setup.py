"""The decoding engine's extension modules; everything else is in pyproject.toml.

Each is `optional`: where no C++ compiler is found, installation goes on and translation runs on torch.
`dragoman doctor` says which engine is used, and why.
"""

import platform
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import Extension, setup

NATIVE = "src/dragoman/native"
HEADERS = sorted(map(str, Path(NATIVE).glob("*.hpp")))
# One source, compiled for several processors; dragoman.native picks the best that runs here.
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx512bf16"]


def engine(name: str, flags: list[str]) -> Pybind11Extension:
    """The engine for one kind of processor."""
    return Pybind11Extension(
        f"dragoman.native.{name}",
        [f"{NATIVE}/module.cpp"],
        depends=HEADERS,
        cxx_std=17,
        define_macros=[("DRAGOMAN_MODULE", name)],
        extra_compile_args=["-O3", "-g0", "-Wno-psabi", *flags],
        optional=True,
    )


if platform.machine() in ("x86_64", "AMD64"):
    engines = [engine("_avx512", AVX512), engine("_avx2", AVX2)]
    engines.append(Extension("dragoman.native._processor", [f"{NATIVE}/processor.c"], optional=True))
else:
    engines = [engine("_generic", [])]

setup(ext_modules=engines)
