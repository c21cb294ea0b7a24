"""What takes long to make and many tests read: made once for all workers.

Nothing here may be changed by a test: it takes a copy. When all tests have ended, a changed file is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock


class MadeOnce:
    """A folder in which each thing is made by the first test of any worker that asks for it.

    Args:
        folder: that all workers share.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def copy(self, run: Path, to: Path) -> Path:
        """A copy of something made here, which a test may change."""
        shutil.copytree(run, to)
        return to

    def once(self, kind: str, key: Any, make: Callable[[Path], object]) -> Path:
        """A folder that is made by the first who asks, and given to all who ask with an equal key.

        Args:
            kind: begins the name of the folder.
            key: says what is in it, as JSON can.
            make: writes the folder, which does not exist yet.
        """
        name = f"{kind}-{hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:16]}"
        path, record = self.folder / name, self.folder / f"{name}.json"
        if record.exists():
            return path
        with FileLock(self.folder / f"{name}.lock"):
            if not record.exists():
                shutil.rmtree(path, ignore_errors=True)  # left by a maker that failed
                with _Undisturbed():
                    make(path)
                _write(record, _files_of(path))
        return path

    def changed(self) -> list[str]:
        """Files that a test changed, added or removed."""
        found: list[str] = []
        for record in sorted(self.folder.glob("*.json")):
            made, now = json.loads(record.read_text()), _files_of(record.with_suffix(""))
            found += [f"{record.stem}/{name}" for name in sorted({*made, *now}) if made.get(name) != now.get(name)]
        return found


class _Undisturbed:
    """Random numbers and threads are after a block what they were before it: it runs in whichever test came first."""

    def __enter__(self) -> None:
        import torch  # not above: what looks for changed files trains nothing

        self.torch = torch
        self.before = (random.getstate(), self.torch.get_rng_state(), self.torch.get_num_threads())
        self.torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        random.setstate(self.before[0])
        self.torch.set_rng_state(self.before[1])
        self.torch.set_num_threads(self.before[2])


def _files_of(folder: Path) -> dict[str, list[int]]:
    """Size and time of change of every file but locks, which readers take too."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if ".lock" not in name:
                state = os.stat(os.path.join(place, name))
                found[os.path.relpath(os.path.join(place, name), folder)] = [state.st_size, state.st_mtime_ns]
    return found


def _write(path: Path, tree: Any) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(tree))
    draft.replace(path)
