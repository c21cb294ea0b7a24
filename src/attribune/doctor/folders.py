"""Folders that are written to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribune.doctor.findings import Problem, tried
from attribune.doctor.machine import GIGABYTE

__all__ = ["Folder", "look_into_folders", "problems_of_folders"]

_LITTLE_ROOM = 1.0  # gigabytes


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that is written to.

    Args:
        use: what for.
        path: where it is, or will be made.
        error: why it cannot be written; None where it can.
        free: room on its disk in gigabytes (10^9 bytes).
    """

    use: str
    path: str
    error: str | None
    free: float


def look_into_folders() -> tuple[Folder, ...]:
    """The caches, the folder for temporary files, and the one that the command was given in."""
    places = {
        "pretrained weights": tried(_hub_cache),
        "tables of the hub": tried(_datasets_cache),
        "tables too large for memory": tried(tempfile.gettempdir) or os.environ.get("TMPDIR", "/tmp"),
        "runs, where you are now": tried(os.getcwd),
    }
    return tuple(_look_into(use, Path(path)) for use, path in places.items() if path is not None)


def _hub_cache() -> str:
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def _datasets_cache() -> str:
    from datasets import config

    return str(config.HF_DATASETS_CACHE)


def _look_into(use: str, path: Path) -> Folder:
    """Write an empty file where the folder is, or where it would be made; the file is gone at once."""
    whole = path.absolute()
    there = next(place for place in (whole, *whole.parents) if os.path.exists(place))  # not if it may not be looked at
    try:
        with tempfile.TemporaryFile(dir=there):
            error = None
    except OSError as failure:
        error = failure.strerror or str(failure)
    return Folder(use=use, path=str(path), error=error, free=shutil.disk_usage(there).free / GIGABYTE)


def problems_of_folders(folders: Sequence[Folder]) -> Iterator[Problem]:
    """Folders that cannot be written, or whose disk is nearly full."""
    for folder in folders:
        if folder.error is not None:
            yield Problem(
                what=f"{folder.path} cannot be written ({folder.error}); it is for {folder.use}",
                cure=_ELSEWHERE.get(folder.use, "go to a folder that you may write to"),
            )
        elif folder.free < _LITTLE_ROOM:
            yield Problem(
                what=f"{folder.path} has {folder.free:.1f} GB of room left; it is for {folder.use}",
                cure=f"free space, or {_ELSEWHERE.get(folder.use, 'work on another disk')}",
            )


_ELSEWHERE = {
    "pretrained weights": "set HF_HOME to a folder that you may write to, on a disk with room",
    "tables of the hub": "set HF_DATASETS_CACHE to a folder that you may write to, on a disk with room",
    "tables too large for memory": "set TMPDIR to a folder that you may write to, on a disk with room",
}
