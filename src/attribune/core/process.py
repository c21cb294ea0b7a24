"""This process: its memory and peak memory, what the C library does with freed memory, and its end."""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from attribune.errors import ConfigError

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "failed to map segment",
    "not enough memory",
    "could not create a primitive",  # oneDNN
    "failed to launch worker thread",  # Arrow
    "can't start new thread",
)
_SMALL = 1 << 20  # bytes that are there without a look
_ADDRESSES = 2 << 30  # bytes; PyTorch, SciPy and transformers take 2.5 GB
# Parameters of mallopt in glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_CGROUP = Path("/sys/fs/cgroup")
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Let this process keep freed memory, instead of returning it to the system each time.

    By default glibc takes every large block from the system and returns it when it is freed, so that the system hands
    out and zeroes new pages for each tensor of each step: at 512 tokens a fifth to a quarter of the time of a step on a
    CPU. With another C library or allocator, or settings for glibc's in the environment, nothing is done.

    Returns:
        Whether the C library was set so.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in (*_SETTINGS, "LD_PRELOAD")):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(name, value) for name, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, 1 << 26)))


def return_freed_memory() -> bool:
    """Return freed memory to the system once, so that memory does not grow with the variety of batches.

    Returns:
        Whether any was returned; never without glibc.
    """
    return platform.libc_ver()[0] == "glibc" and bool(ctypes.CDLL(None).malloc_trim(0))


class OrderlyEnd:
    """Has this process end as Python does, with threads joined and exit handlers called, but tear down no objects.

    A thread of a C++ library, such as one of Arrow's that has just read a table, may still release a Python object. If
    it asks for the interpreter's lock while Python tears objects down, Python ends the thread, and C++ aborts the
    process: "terminate called without an active exception", with status 134 in place of the exit code.

    Exit handlers are called in the opposite order of their registration, and this one, which ends the process, has to
    be the last: make it before libraries are loaded that register theirs.
    """

    def __init__(self) -> None:
        self._code = 1
        atexit.register(self._end)

    def exit(self, code: int) -> NoReturn:
        """End the process with a code."""
        self._code = code
        sys.exit(code)

    def cancel(self) -> None:
        """Let Python end the process, as after an error that nobody expected."""
        atexit.unregister(self._end)

    def _end(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # the reader has gone, it was closed, or there is none
                stream.flush()
        os._exit(self._code)


def available_bytes() -> int:
    """Return how much memory this process can still take: of the machine, its container and its limit of addresses."""
    import psutil

    known = [int(psutil.virtual_memory().available + psutil.swap_memory().free)]
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            known.append(limit - int(psutil.Process().memory_info().vms))
    limits = [_CGROUP / name for name in ("memory.max", "memory.current")]
    if all(path.is_file() for path in limits):
        most, current = (path.read_text().strip() for path in limits)
        if most.isdecimal():
            known.append(int(most) - int(current))
    return max(0, min(known))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory, of the machine or of a GPU, ran out."""
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def require_addresses() -> None:
    """Refuse a limit of addresses in which libraries cannot be loaded; some would abort the process, or never end.

    Raises:
        ConfigError: with the limit.
    """
    if sys.platform == "win32" or "torch" in sys.modules:
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _ADDRESSES:
        raise ConfigError(
            f"this process may use {limit / 1e9:.1f} GB of addresses (ulimit -v), and the libraries alone take 2.5 GB: "
            "raise the limit to 4 GB, or remove it (ulimit -v unlimited)"
        )


def require_memory(needed: int, *, what: str, cure: str) -> None:
    """Refuse what does not fit into memory, before it is allocated.

    Args:
        needed: in bytes.

    Raises:
        ConfigError: with the bytes that are needed and those that are there.
    """
    if needed > _SMALL and needed > (there := available_bytes()):
        raise ConfigError(f"{what} needs {needed / 1e9:,.1f} GB of memory, and {there / 1e9:,.1f} GB are free: {cure}")


def peak_megabytes() -> float:
    """Return the largest resident size that this process has had, libraries and all, in MiB."""
    status = Path("/proc/self/status")  # a child's getrusage begins with the peak of its parent
    peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.is_file() else None
    if peak is not None:
        return int(peak[1]) / 1024
    if sys.platform == "win32":
        import psutil

        return float(psutil.Process().memory_info().peak_wset / 1024**2)
    import resource  # which Windows does not have

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
