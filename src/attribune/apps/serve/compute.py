"""The one thread on which models are loaded and predict.

OpenMP keeps a team of threads for every thread that computes. With a second team there are more threads than cores, and
libgomp then lets those that wait for each other sleep instead of spin: models that had been loaded, and had
predicted once, on the main thread lost a third of their throughput.
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


def start(function: Callable[[], Result]) -> Future[Result]:
    """Schedule a function on the thread, after those scheduled before."""
    return _THREAD.submit(function)


def compute(function: Callable[[], Result]) -> Result:
    """Call a function on the thread and wait for its result."""
    return function() if threading.current_thread().name.startswith(_NAME) else start(function).result()
