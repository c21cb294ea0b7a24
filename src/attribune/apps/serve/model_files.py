"""The files of models that are served: a change of one must not reach the answers, nor end the process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
from torch import Tensor, nn

__all__ = ["MappedFiles", "copy_into_memory"]

_LARGEST_COPY = 1 << 28  # bytes of a tensor; larger ones, such as tables of millions of values, stay in their files
_SUFFIXES = (".safetensors", ".arrow")
_LISTS_FILES = hasattr(psutil.Process, "memory_maps")  # not on macOS


def copy_into_memory(models: Sequence[nn.Module]) -> None:
    """Copy the tensors of models, which the system otherwise reads from their files when they are needed.

    Tensors that are shared between models stay shared. Large ones are not copied, where `MappedFiles` can watch them.
    """
    copies: dict[tuple[object, ...], Tensor] = {}
    originals = []  # as long as they are there, no copy gets the address of one
    for model in models:
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.device.type == "cpu" and (tensor.nbytes <= _LARGEST_COPY or not _LISTS_FILES):
                original = tensor.data
                if _place(original) not in copies:
                    originals.append(original)
                    copy = original.clone()
                    copies[_place(original)] = copies[_place(copy)] = copy
                tensor.data = copies[_place(original)]


def _place(tensor: Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


@dataclass(frozen=True)
class MappedFiles:
    """Files from which the system reads while a process runs, and what they were when it began.

    Args:
        stamps: by path, the inode, the size and the time of the last change.
        places: where in memory they are.
    """

    stamps: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    places: frozenset[str] = frozenset()

    @classmethod
    def of_this_process(cls, *, apart_from: Self | None = None) -> Self:
        """Find the files of models that this process has mapped, apart from what it had mapped before.

        A file that it maps anew is found, also where a model that is there already reads from it.
        """
        maps = psutil.Process().memory_maps(grouped=False) if _LISTS_FILES else []
        known = apart_from.places if apart_from else frozenset()
        new = {one.addr: one.path for one in maps if one.path.endswith(_SUFFIXES) and one.addr not in known}
        return cls({path: _stamp(path) for path in sorted(set(new.values()))}, frozenset(new))

    @contextmanager
    def own_change(self, folder: Path) -> Iterator[None]:
        """Let a folder be replaced within a block; what the process has mapped of the one before stays what it was.

        Files that had changed before are still reported.
        """
        below = f"{folder.resolve()}{os.sep}"
        own = [path for path, stamp in self.stamps.items() if path.startswith(below) and _stamp(path) == stamp]
        for path in own:
            del self.stamps[path]
        try:
            yield
        finally:
            self.stamps.update({path: _stamp(path) for path in own})

    def changed(self) -> list[str]:
        """Return the files that are no longer what they were, or no longer there."""
        return [path for path, stamp in list(self.stamps.items()) if _stamp(path) != stamp]


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
