"""Objects that threads use in turns."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Locked"]


class Locked:
    """An object with a lock, `_lock`; a copy has one of its own, also after it was pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
