"""Memory of this process: how much it held, and what the C library does with what is freed."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import sys
from pathlib import Path

__all__ = ["keep_freed_memory", "peak_megabytes", "return_freed_memory"]

# Parameters of mallopt in glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Let this process keep the memory that tensors gave back, instead of returning it to the system each time.

    By default glibc takes every large block from the system and gives it back when it is freed, so that each tensor of
    each step begins with the system handing out, and filling with zeros, page after page: at 512 tokens a fifth to a
    quarter of the time of a step on a CPU. Nothing is done where another C library or allocator is at work, or where
    the environment has settings for glibc's own.

    Returns:
        Whether it was done.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in (*_SETTINGS, "LD_PRELOAD")):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(name, value) for name, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, 1 << 26)))


def return_freed_memory() -> bool:
    """Give freed memory back to the system once, so that what is kept does not grow with the variety of batches.

    Returns:
        Whether anything was given back; never without glibc.
    """
    return platform.libc_ver()[0] == "glibc" and bool(ctypes.CDLL(None).malloc_trim(0))


def peak_megabytes() -> float:
    """What this process held resident at most, libraries and all."""
    status = Path("/proc/self/status")  # a child's getrusage begins with what its parent held
    held = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.is_file() else None
    if held is not None:
        return int(held[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
