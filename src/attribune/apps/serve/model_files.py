"""The files of models that are served: a change of one must not reach the answers, nor end the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil
from torch import Tensor, nn

__all__ = ["MappedFiles", "copy_into_memory", "stamp_of"]

_LARGEST_COPY = 1 << 28  # bytes of a tensor; larger ones, such as tables of millions of values, stay in their files
_SMALL_FILE = 1 << 26  # bytes; below, a copy in each process is worth its independence of the file
_SUFFIXES = (".safetensors", ".arrow")
_LISTS_FILES = hasattr(psutil.Process, "memory_maps")  # not on macOS


def copy_into_memory(models: Sequence[nn.Module], *, below: Sequence[Path] | None = None) -> None:
    """Copy the tensors of models, which the system otherwise reads from their files when they are needed.

    Tensors that are shared between models stay shared. Large ones are not copied, where `MappedFiles` can watch them.

    Args:
        below: folders; only what is read from their small files is copied.
    """
    if below is None:
        _copy(models, lambda tensor: tensor.nbytes <= _LARGEST_COPY or not _LISTS_FILES)
        return
    mapped = [one for one in _maps() if any(Path(one.path).is_relative_to(folder.resolve()) for folder in below)]
    small = [one for one in mapped if (stamp := stamp_of(one.path)) is not None and stamp.state[0] <= _SMALL_FILE]
    places = [[int(end, 16) for end in one.addr.split("-")] for one in small]
    _copy(models, lambda tensor: any(start <= tensor.data_ptr() < end for start, end in places))


def _copy(models: Sequence[nn.Module], is_copied: Callable[[Tensor], bool]) -> None:
    copies: dict[tuple[object, ...], Tensor] = {}
    originals = []  # as long as they are there, no copy gets the address of one
    for model in models:
        for tensor in (*model.parameters(), *model.buffers()):
            # A packed int8 weight has no address: it was made in memory, and reads from no file.
            if tensor.device.type == "cpu" and not tensor.is_mkldnn and is_copied(tensor):
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
        stamps: by path, which file it was, and its size and the time of its last change.
        places: where in memory they are.
    """

    stamps: dict[str, _Stamp | None] = field(default_factory=dict)
    places: frozenset[str] = frozenset()

    @classmethod
    def of_this_process(cls, *, apart_from: Self | None = None) -> Self:
        """Find the files of models that this process has mapped, apart from what it had mapped before.

        A file that it maps anew is found, also where a model that is there already reads from it.
        """
        known = apart_from.places if apart_from else frozenset()
        new = {one.addr: one.path for one in _maps() if one.addr not in known}
        return cls({path: stamp_of(path) for path in sorted(set(new.values()))}, frozenset(new))

    def changed(self) -> list[str]:
        """Return the files that were written to since.

        A file that was removed or renamed, or in whose place there is another, is still what the process reads.
        """
        return [path for path, stamp in self.stamps.items() if _written_to(stamp, stamp_of(path))]


def _maps() -> list[Any]:
    """Return where this process has mapped files of models."""
    maps = psutil.Process().memory_maps(grouped=False) if _LISTS_FILES else []
    return [one for one in maps if one.path.endswith(_SUFFIXES)]


class _Stamp(NamedTuple):
    """A file, and its state."""

    file: tuple[int, int]
    state: tuple[int, int]


def stamp_of(path: str | Path) -> _Stamp | None:
    """Return which file is at a path, with its size and the time of its last change; None without one."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return _Stamp((status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns))


def _written_to(before: _Stamp | None, now: _Stamp | None) -> bool:
    return before is not None and now is not None and before.file == now.file and before.state != now.state
