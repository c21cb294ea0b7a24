"""The one thread on which models are loaded and asked.

OpenMP keeps a team of threads for every thread that computes. With a second team there are more threads than cores, and
libgomp then lets those that wait for each other sleep instead of spin: a third of the throughput was lost so, by models
that had been loaded, and asked once, on the main thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["compute", "start"]

Result = TypeVar("Result")
_NAME = "attribune-model"
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix=_NAME)


def start(do: Callable[[], Result]) -> Future[Result]:
    """Let something be done on the thread, after what was asked of it before."""
    return _THREAD.submit(do)


def compute(do: Callable[[], Result]) -> Result:
    """Do something on the thread and wait for it."""
    return do() if threading.current_thread().name.startswith(_NAME) else start(do).result()
