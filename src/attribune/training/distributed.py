"""Several processes that train one model, started by `torchrun`: what they agree on, and what they share out."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from accelerate import PartialState
from torch import Tensor

from attribune.errors import AttribuneError, ConfigError

__all__ = [
    "PATIENCE",
    "all_rows",
    "backend",
    "from_main",
    "is_main",
    "process_count",
    "process_number",
    "refuse_processes",
]

T = TypeVar("T")

PATIENCE = timedelta(days=7)
"""How long processes wait for each other: one may be scoring a long table; `torchrun` ends all when one fails."""


def process_count() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_number() -> int:
    """Which of them this is, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """Whether this is the process that writes, scores and speaks to the user."""
    return process_number() == 0


def backend() -> str | None:
    """What connects several processes; None leaves the choice to accelerate."""
    return "gloo" if process_count() > 1 and not torch.cuda.is_available() else None


def refuse_processes(what: str) -> None:
    """Refuse several processes where each would do the whole work.

    Raises:
        ConfigError: when there are several.
    """
    if process_count() > 1:
        raise ConfigError(f"{what} was started in {process_count()} processes, which would all do the same: start one")


def from_main(make: Callable[[], T]) -> T:
    """What `make` returns in the main process; its error is raised in all of them.

    Args:
        make: called in the main process alone; its result must be something that can be pickled.
    """
    if process_count() == 1:
        return make()
    _connect()
    made: list[Any] = [None, None]
    if is_main():
        try:
            made[0] = make()
        except AttribuneError as error:
            made[1] = error
    dist.broadcast_object_list(made, src=0)
    if made[1] is not None:
        raise made[1]
    return cast(T, made[0])


def all_rows(*tensors: Tensor, most: int) -> list[Tensor]:
    """The rows of all processes' tensors, the same in each process; gradients reach this process's own rows.

    They reach them as often as there are processes, since these average what each has found.

    Args:
        tensors: of one number of rows, which may differ from one process to the next; (rows, ...) float32 numbers, or
            integers below 2^24.
        most: rows that a process has at most.
    """
    rows = len(tensors[0])
    sizes = [most * tensor[0].numel() for tensor in tensors]
    # All in one, with the number of rows: it is the time of a message that counts, not its length.
    message = tensors[0].new_zeros(1 + sum(sizes), dtype=torch.float32)
    message[0] = rows
    for place, tensor in zip(torch.split(message[1:], sizes), tensors, strict=True):
        place[: tensor.numel()] = tensor.detach().reshape(-1)
    messages = [torch.empty_like(message) for _ in range(process_count())]
    dist.all_gather(messages, message)
    counts = [int(found[0]) for found in messages]
    whole = []
    for number, tensor in enumerate(tensors):
        parts = [
            torch.split(found[1:], sizes)[number].view(most, *tensor.shape[1:])[:count].to(tensor.dtype)
            for found, count in zip(messages, counts, strict=True)
        ]
        parts[process_number()] = cast(Tensor, _Multiplied.apply(tensor))  # type: ignore[no-untyped-call]
        whole.append(torch.cat(parts))
    return whole


class _Multiplied(torch.autograd.Function):
    """The same, with a gradient as many times as large as there are processes."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * process_count()


def _connect() -> None:
    # The Trainer makes the same connection, and finds this one.
    if not dist.is_initialized():
        PartialState(cpu=not torch.cuda.is_available(), backend=backend(), timeout=PATIENCE)
