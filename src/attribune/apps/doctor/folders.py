"""Folders that the library writes to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribune.apps.doctor.findings import Problem, probe
from attribune.apps.doctor.machine import GIGABYTE

__all__ = ["Folder", "inspect_folders", "problems_of_folders"]

_MIN_FREE = 1.0  # gigabytes


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that the library writes to, which may not exist yet.

    Args:
        use: what is written.
        error: why it cannot be written to; None where it can.
        free: space on its disk in gigabytes (10^9 bytes).
    """

    use: str
    path: str
    error: str | None
    free: float


def inspect_folders() -> tuple[Folder, ...]:
    """Inspect the caches, the folder for temporary files, and the current folder."""
    paths = {
        "pretrained weights": probe(_hub_cache),
        "tables of the hub": probe(_datasets_cache),
        "tables too large for memory": probe(tempfile.gettempdir) or os.environ.get("TMPDIR", "/tmp"),
        "runs, the current folder": probe(os.getcwd),
    }
    return tuple(_inspect_folder(use, Path(path)) for use, path in paths.items() if path is not None)


def _hub_cache() -> str:
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def _datasets_cache() -> str:
    from datasets import config

    return str(config.HF_DATASETS_CACHE)


def _inspect_folder(use: str, path: Path) -> Folder:
    """Write a temporary file into the folder, or into the closest parent that exists."""
    absolute = path.absolute()
    # os.path.exists is False, where Path.exists raises, where permission is denied.
    existing = next(folder for folder in (absolute, *absolute.parents) if os.path.exists(folder))
    try:
        with tempfile.TemporaryFile(dir=existing):
            error = None
    except OSError as failure:
        error = failure.strerror or str(failure)
    return Folder(use=use, path=str(path), error=error, free=shutil.disk_usage(existing).free / GIGABYTE)


def problems_of_folders(folders: Sequence[Folder]) -> Iterator[Problem]:
    """Find folders that cannot be written to, or whose disk is nearly full."""
    for folder in folders:
        if folder.error is not None:
            yield Problem(
                what=f"{folder.path} cannot be written ({folder.error}); it is for {folder.use}",
                cure=_CURES.get(folder.use, "go to a folder that you may write to"),
            )
        elif folder.free < _MIN_FREE:
            yield Problem(
                what=f"{folder.path} has {folder.free:.1f} GB free; it is for {folder.use}",
                cure=f"free some space, or {_CURES.get(folder.use, 'work on another disk')}",
            )


_CURES = {
    "pretrained weights": "set HF_HOME to a folder that you may write to, on a disk with free space",
    "tables of the hub": "set HF_DATASETS_CACHE to a folder that you may write to, on a disk with free space",
    "tables too large for memory": "set TMPDIR to a folder that you may write to, on a disk with free space",
}
