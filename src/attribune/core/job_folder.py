"""Folders that one job fills, and continues to fill after an interruption.

The plan is written first and the summary last, each in one step: a folder with a plan and without a summary is an
interrupted job, which the same command continues.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock, Timeout

from attribune.core.files import clear_drafts, remove, replace_file, writing
from attribune.errors import ConfigError, ModelFolderError


class Inside:
    """An attribute of an object with the `path` of a folder: the path of what has this name in it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: Any, kind: type[Any]) -> Path:
        return Path(folder.path, self.name)


class HeldError(ConfigError):
    """Another process, or another thread, works in a folder."""


_HELD: set[Path] = set()  # the lock files that this process holds


@dataclass(frozen=True)
class JobFolder:
    """A folder that one job fills.

    Subclasses name its files, and compare the plan in the folder with the new one.

    Attributes:
        contents: what a folder of this kind holds, for messages.
        plan_name: the file that is written first.
        summary_name: the file that is written last; None if the last step is another.
    """

    path: Path

    contents: ClassVar[str]
    plan_name: ClassVar[str]
    summary_name: ClassVar[str | None] = None

    lock_file = Inside(".lock")
    """The file by which a process holds the folder."""

    @property
    def plan_file(self) -> Path:
        """What the job is; written first."""
        return self.path / self.plan_name

    @property
    def summary_file(self) -> Path:
        """What came of it; written last."""
        assert self.summary_name is not None
        return self.path / self.summary_name

    def is_held(self) -> bool:
        """Whether another process holds the folder just now."""
        if self.lock_file in _HELD or self.lock_file.is_symlink() or not self.lock_file.is_file():
            return False
        with locked(self.lock_file) as free:
            return not free

    def remove_lock(self) -> None:
        """Remove what `held` wrote, by the process that holds the folder and is about to remove it."""
        for file in (self.lock_file, _holder_file(self.lock_file)):
            file.unlink(missing_ok=True)

    @property
    def is_begun(self) -> bool:
        """Whether the folder has a plan."""
        return self.plan_file.is_file()

    @property
    def is_finished(self) -> bool:
        """Whether the job came to its end."""
        return self.summary_file.is_file()

    def refuse_foreign(self) -> None:
        """Refuse a folder without a plan that is not empty; hidden files, such as an unfinished plan, do not count.

        Raises:
            ConfigError: naming what is there.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file: choose another output folder")
        if self.is_begun or not self.path.is_dir():
            return
        if names := sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith(".")):
            raise ConfigError(
                f"{self.path} is not empty and holds no {self.contents} ({', '.join(names[:3])}): choose another "
                "output folder"
            )

    def refuse_links(self) -> None:
        """Refuse to write into a folder with links, which can point to any file of the user; it may be one itself.

        Raises:
            ModelFolderError: naming a link and its target.
        """
        for folder, folders, files in os.walk(self.path):
            for name in sorted((*folders, *files)):
                link = Path(folder, name)
                if link.is_symlink():
                    raise ModelFolderError(
                        f"{link} is a link to {os.readlink(link)}, which would be changed with {self.path}: put a copy "
                        "of the file or folder in its place, or remove the link"
                    )

    def write_plan(self, content: bytes) -> None:
        """Make the folder and write its plan in one step.

        Raises:
            ModelFolderError: when it cannot be written.
        """
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            replace_file(self.plan_file, content)

    def _writing(self) -> AbstractContextManager[None]:
        return writing(f"the output folder {self.path} cannot be written")

    @contextmanager
    def held(self, *, wait: bool = False) -> Iterator[None]:
        """Hold the folder against other processes while the block runs.

        Args:
            wait: wait for another process to leave the folder, instead of raising an error.

        Raises:
            HeldError: when another process holds it.
            ModelFolderError: when the folder cannot be written, or has links in it.
        """
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
        self.refuse_links()
        with locked(self.lock_file, timeout=-1 if wait else 0) as free:
            if not free:
                raise HeldError(f"{_holder(self.lock_file)} works in {self.path}: wait for it, or stop it")
            clear_drafts(self.path)
            yield


@contextmanager
def locked(path: Path, *, timeout: float = 0) -> Iterator[bool]:
    """Hold a lock file while the block runs; yields whether it could be acquired. It is freed when the process ends.

    Args:
        path: the lock file; its folder is made.
        timeout: seconds to wait for another holder; -1 waits until it is free.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=timeout)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    _HELD.add(path)
    try:
        _write_holder(path)
        yield True
    finally:
        _HELD.discard(path)
        remove(_holder_file(path))
        lock.release()


def _holder_file(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.holder")


def _write_holder(lock: Path) -> None:
    """Write which process holds a lock, for messages alone; always a new file, never one that another name is for."""
    file = _holder_file(lock)
    remove(file)
    with contextlib.suppress(OSError), file.open("x", encoding="utf-8") as holder:
        holder.write(f"{os.getpid()} {socket.gethostname()}")


def _holder(lock: Path) -> str:
    """Say which process holds a lock, as far as it can be told."""
    try:
        process, host = _holder_file(lock).read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return "another process"
    return f"another process ({process} on {host})"
