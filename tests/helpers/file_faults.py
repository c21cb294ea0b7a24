"""Faults at the n-th change of a file: the process is killed, or the disk is full from then on.

Changes are seen by Python's audit events, so that what is tested needs no place to hook in. Files that libraries write
in other languages (tensors, tokenizers, Parquet) are seen when they are moved into place.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["FileFault"]

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NEEDS_ROOM = {"open", "os.rename", "os.mkdir", "os.link", "os.symlink"}


@dataclass
class FileFault:
    """What happens before a change of a file below a folder.

    Attributes:
        at: number of the change, from 1; 0 lets all pass.
        kind: ``kill`` ends the process, ``full`` makes every change from then on fail that needs room.
        count: file to which the number of changes is written.
    """

    folder: str
    at: int = 0
    kind: Literal["kill", "full"] = "kill"
    count: str | None = None

    def install(self) -> None:
        """Watch this process from now on; there is no way back."""
        seen = 0
        record = None if self.count is None else os.open(self.count, os.O_WRONLY | os.O_CREAT)

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal seen
            if (event not in _CHANGES and event != "open") or not any(
                self._is_ours(p) for p in _paths(event, arguments)
            ):
                return
            seen += 1
            if record is not None:
                os.pwrite(record, str(seen).encode(), 0)
            if self.at and seen >= self.at:
                if self.kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if event in _NEEDS_ROOM:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        sys.addaudithook(watch)

    def _is_ours(self, path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        return os.path.abspath(os.fsdecode(path)).startswith(self.folder)


def _paths(event: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
    if event != "open":
        yield from arguments[:2]
    elif isinstance(arguments[2], int) and arguments[2] & _WRITING and Path(os.devnull) != arguments[0]:
        yield arguments[0]
