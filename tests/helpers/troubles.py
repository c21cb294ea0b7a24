"""What a command meets on a bad day: a kill, another command, or too little room, memory or descriptors.

Each trouble is entered by the process in which the command runs, and ends with it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Literal, Protocol

import psutil

CANNOT_MOUNT = 77
"""Exit code of a process that may not mount a file system."""

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NEEDS_ROOM = {"open", "os.rename", "os.mkdir", "os.link", "os.symlink"}
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000  # flags of unshare in Linux's sched.h
_BLOCK = 4096


class Trouble(Protocol):
    """Begins in the process that enters it."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> None: ...


@dataclass
class FileFault:
    """What happens before a change of a file below a folder.

    Changes are seen by Python's audit events, so that what is tested needs no place to hook in. Files that libraries
    write in other languages (tensors, tokenizers, Parquet) are seen when they are moved into place.

    Attributes:
        at: number of the change, from 1; 0 lets all pass.
        kind: ``kill`` ends the process, ``full`` makes every change from then on fail that needs room.
        count: file to which the number of changes is written.
    """

    folder: str
    at: int = 0
    kind: Literal["kill", "full"] = "kill"
    count: str | None = None

    def __enter__(self) -> None:
        seen = 0
        record = None if self.count is None else os.open(self.count, os.O_WRONLY | os.O_CREAT)

        def change(event: str) -> None:
            nonlocal seen
            seen += 1
            if record is not None:
                os.pwrite(record, str(seen).encode(), 0)
            if self.at and seen >= self.at:
                if self.kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if event in _NEEDS_ROOM:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        _watch(self.folder, change)

    def __exit__(self, *_: object) -> None:
        self.at = 0


@dataclass
class Pause:
    """Before a change of a file below a folder, the process says so, and waits until it is told to go on.

    Attributes:
        at: number of the change, from 1.
        reached: set by the process.
        go: for which it waits.
    """

    folder: str
    at: int
    reached: Event
    go: Event

    def __enter__(self) -> None:
        seen = 0

        def change(_: str) -> None:
            nonlocal seen
            seen += 1
            if seen == self.at:
                self.reached.set()
                self.go.wait()

        _watch(self.folder, change)

    def __exit__(self, *_: object) -> None:
        self.at = 0


def _watch(folder: str, change: Callable[[str], None]) -> None:
    """Call a function before every change of a file below a folder, with the name of the audit event."""

    def is_below(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        return os.path.abspath(os.fsdecode(path)).startswith(folder)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if (event in _CHANGES or event == "open") and any(is_below(path) for path in _paths(event, arguments)):
            change(event)

    sys.addaudithook(watch)


def _paths(event: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
    if event != "open":
        yield from arguments[:2]
    elif isinstance(arguments[2], int) and arguments[2] & _WRITING and Path(os.devnull) != arguments[0]:
        yield arguments[0]


@dataclass
class Limits:
    """Less than a process may need.

    Attributes:
        file_size: bytes of the largest file; writing fails half-way in a larger one, as on a full disk.
        memory: bytes of addresses that it may take beyond those it has.
        descriptors: how many files it may open beyond those that are.
    """

    file_size: int | None = None
    memory: int | None = None
    descriptors: int | None = None

    def __enter__(self) -> None:
        process = psutil.Process()
        if self.file_size is not None:
            _limit(resource.RLIMIT_FSIZE, self.file_size)
        if self.memory is not None:
            _limit(resource.RLIMIT_AS, process.memory_info().vms + self.memory)
        if self.descriptors is not None:
            _limit(resource.RLIMIT_NOFILE, max(map(int, os.listdir("/proc/self/fd"))) + 1 + self.descriptors)

    def __exit__(self, *_: object) -> None:
        for kind in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
            _limit(kind, resource.getrlimit(kind)[1])


def _limit(kind: int, soft: int) -> None:
    resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))


@dataclass
class SmallDisk:
    """A file system of its own in place of a folder, with the folder's content and little room (Linux alone).

    Attributes:
        free: bytes.
        kept: what is there at the end.
    """

    folder: str
    free: int
    kept: str

    def __enter__(self) -> None:
        before = f"{self.folder}-before"
        shutil.copytree(self.folder, before)
        blocks = sum(-(-path.stat().st_size // _BLOCK) for path in Path(before).rglob("*") if path.is_file())
        try:
            _mount(self.folder, size=(blocks + -(-self.free // _BLOCK)) * _BLOCK)
        except OSError:
            os._exit(CANNOT_MOUNT)
        shutil.copytree(before, self.folder, dirs_exist_ok=True)
        shutil.rmtree(before)

    def __exit__(self, *_: object) -> None:
        shutil.copytree(self.folder, self.kept)


def _mount(folder: str, *, size: int) -> None:
    """Mount a file system in memory, which this process alone sees."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", _NEW_MOUNTS | (_NEW_USERS if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    private = 1 << 18 | 1 << 14  # MS_PRIVATE | MS_REC
    _call("mount", b"none", b"/", None, ctypes.c_ulong(private), None)
    _call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), f"size={size}".encode())


def _call(name: str, *arguments: Any) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        raise OSError(ctypes.get_errno(), name)
