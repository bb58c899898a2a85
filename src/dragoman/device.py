"""Which device computes, and in which precision."""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch

from dragoman.errors import SettingsError

Precision = Literal["fp32", "bf16"]

# Products compiled for their shape: oneDNN's own, and torch's prepared calls of them, each with memory to work in.
PRODUCTS_KEPT, CALLS_KEPT = 128, 64
# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def select_device(name: str) -> torch.device:
    """Turn "auto", "cpu", "cuda" or "cuda:1" into a device; auto takes a GPU when there is one.

    Raises:
        SettingsError: when the device does not exist here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingsError(f"unknown device {name!r}: use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise SettingsError(f"device {name!r} is not supported: use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingsError(f"there is no device {name!r} here: torch sees {torch.cuda.device_count()} GPUs")
    return device


def select_precision(name: Literal["auto", "fp32", "bf16"], device: torch.device) -> Precision:
    """Turn "auto" into bf16 where the device multiplies bf16 matrices in hardware, else fp32."""
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if cpu_has_bf16() else "fp32"


def cpu_has_bf16() -> bool:
    """Whether this CPU has bf16 matrix instructions (AVX-512 BF16 or AMX)."""
    # Private until torch 2.13 named them in get_capabilities(); 2.11 has these two.
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@contextmanager
def deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Make torch take only algorithms that give the same bits again, and raise where it has none.

    Enter before the first computation on a GPU: cuBLAS reads its workspace's size once.
    """
    before = torch.are_deterministic_algorithms_enabled()
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def tune_cpu() -> None:
    """Set up this process for training on a CPU: 10 to 30 % of its speed. Call it before the first computation.

    A step makes temporaries of megabytes. Left alone, glibc returns each of them to the system, which then hands out
    fresh pages one fault at a time: here freed memory is kept for the next step (on Linux with glibc; elsewhere
    nothing is done). And fewer compiled products are kept than the 1,024 that oneDNN and torch would keep each, which
    is 300 MB less; training does not miss them, as its rows come in few sizes (`packing`). MALLOC_MMAP_THRESHOLD_,
    ONEDNN_PRIMITIVE_CACHE_CAPACITY and LRU_CACHE_CAPACITY, where they are set, win.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRODUCTS_KEPT))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(CALLS_KEPT))
    if _has_glibc() and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that glibc takes
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> None:
    """Give the system back what is free between pieces in use: worth it now and then, not in every step."""
    if _has_glibc():
        ctypes.CDLL(None).malloc_trim(0)


def peak_memory() -> int:
    """The most bytes that this process has held so far; 0 where the system does not say.

    What getrusage says may be the parent's.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _has_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"
