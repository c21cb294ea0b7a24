"""Work on the processor while a GPU computes: what comes next is prepared, and what was computed is fetched late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy.typing as npt
import torch
from torch import Tensor

Item = TypeVar("Item")
Key = TypeVar("Key")
Fetched = Callable[[], npt.NDArray[Any]]
_END: Any = object()


def has_overlap(device: torch.device) -> bool:
    """Whether a device computes while the processor goes on; on a CPU both would want the same cores."""
    return device.type == "cuda"


def ahead(items: Iterable[Item], *, device: torch.device, most: int = 2) -> Iterator[Item]:
    """Yield items, which a thread makes in advance where a device computes meanwhile.

    Args:
        items: what is yielded; an error in making one is raised in its place.
        device: on which what follows computes.
        most: items that wait at a time.
    """
    if not has_overlap(device):
        yield from items
        return
    made = iter(items)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribune-ahead") as thread:
        waiting = deque(thread.submit(next, made, _END) for _ in range(most))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(thread.submit(next, made, _END))
            yield item


def placed(x: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; to a GPU it is copied while both go on."""
    return x.pin_memory().to(device, non_blocking=True) if has_overlap(device) else x.to(device)


def fetched(x: Tensor | npt.NDArray[Any]) -> Fetched:
    """Begin to copy a tensor from its device; what is returned waits for its numbers."""
    if not isinstance(x, Tensor):
        return lambda: x
    if not has_overlap(x.device):
        array = x.numpy(force=True)
        return lambda: array
    copy = torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()

    def wait() -> npt.NDArray[Any]:
        event.synchronize()
        return copy.numpy()

    return wait


def late(computed: Iterable[tuple[Key, Fetched]]) -> Iterator[tuple[Key, npt.NDArray[Any]]]:
    """Wait for the numbers of each item once the next one is under way."""
    before: tuple[Key, Fetched] | None = None
    for item in computed:
        if before is not None:
            yield before[0], before[1]()
        before = item
    if before is not None:
        yield before[0], before[1]()
