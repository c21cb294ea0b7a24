"""Several processes that train one model, as `torchrun` starts them."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

import torch
import torch.distributed as dist
from accelerate import PartialState
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from transformers import TrainerState

from attribune.core.processes import is_main, let_main_speak, process_count, process_number
from attribune.errors import AttribuneError, ConfigError

T = TypeVar("T")

PATIENCE = timedelta(days=7)
"""The timeout of collective operations: one process may score a long table; `torchrun` ends all when one fails."""


def backend() -> str | None:
    """Return the backend of torch.distributed; None leaves the choice to accelerate."""
    return "gloo" if process_count() > 1 and not torch.cuda.is_available() else None


_SPLITTING = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism config",
}
"""What `accelerate launch` sets for a configuration that divides a model among processes."""


def refuse_split_models() -> None:
    """Raise a ConfigError if accelerate is to divide the model among processes, each of which trains a whole one."""
    for variable, name in _SPLITTING.items():
        if os.environ.get(variable, "").lower() in {"1", "true", "yes", "on", "y", "t"}:
            let_main_speak()
            raise ConfigError(
                f"{variable} asks accelerate for {name}, which divides a model among processes; here each process "
                f"trains a whole one: unset {variable} (start with torchrun, or accelerate launch without {name}). "
                "A backbone that is too large for a device has to be a smaller one"
            )


def refuse_separate_folders(checkpoint: Path | None) -> None:
    """Raise a ConfigError, in all processes, unless all are about to continue from the same checkpoint."""
    if process_count() == 1:
        return
    names: list[Any] = [None] * process_count()
    dist.all_gather_object(names, "none" if checkpoint is None else checkpoint.name)
    if len({*names}) > 1:
        raise ConfigError(
            f"the processes do not see the same last checkpoint ({', '.join(names)}): put the run's folder on a disk "
            "that all machines share"
        )


def from_main(make: Callable[[], T]) -> T:
    """Call `make` in the main process and return its result, which must be picklable, or raise its error, in all."""
    if process_count() == 1:
        return make()
    if not dist.is_initialized():  # the Trainer would make the same connection, and reuses this one
        PartialState(cpu=not torch.cuda.is_available(), backend=backend(), timeout=PATIENCE, **_meeting())
    message: list[Any] = [None, None]
    if is_main():
        try:
            message[0] = make()
        except AttribuneError as error:
            message[1] = error
    dist.broadcast_object_list(message, src=0)
    result, raised = message
    if raised is not None:
        raise raised
    return cast(T, result)


def _meeting() -> dict[str, Any]:
    """Return where the processes meet, for `init_process_group`; nothing if torch's own way is right.

    ``torchrun`` keeps its store when it restarts processes. The addresses of those that ended are still in it, and
    those that begin would wait for them.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True):
        return {}
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
    return {"store": _fresh_part(store), "rank": process_number(), "world_size": process_count()}


def _fresh_part(store: Store) -> Store:
    """Return a part of a store to which nothing was written before all processes of this start had agreed on it.

    The number of restarts is no name for the part, since each machine counts for itself. The first process names it,
    and confirms to each of the others a word that no process of an earlier start knows.
    """
    word = uuid4().hex
    if is_main():
        store.set("attribune/start", word)
        for number in range(1, process_count()):
            answer = store.get(f"attribune/{word}/{number}")  # waits for it
            store.set(f"attribune/{word}/{number}/confirmed", answer.decode())
        return PrefixStore(word, store)
    while True:
        start = store.get("attribune/start").decode()  # of an earlier start, until the first process is there
        place = f"attribune/{start}/{process_number()}"
        store.set(place, word)
        try:
            store.wait([f"{place}/confirmed"], timedelta(seconds=1))
        except dist.DistStoreError:
            continue
        if store.get(f"{place}/confirmed").decode() == word:
            return PrefixStore(start, store)
        time.sleep(0.1)


def all_rows(*tensors: Tensor, limit: int) -> list[Tensor]:
    """Gather the rows of all processes; gradients flow into this process's own rows.

    The gradients are multiplied by the number of processes, since these average them.

    Args:
        tensors: (rows, ...) float32 numbers, or integers below 2^24, all with the same number of rows, which may differ
            between processes.
        limit: maximum number of rows of a process.
    """
    sizes = [limit * tensor[0].numel() for tensor in tensors]
    # One message with all tensors and the number of rows, since latency matters more than length.
    message = tensors[0].new_zeros(1 + sum(sizes), dtype=torch.float32)
    message[0] = len(tensors[0])
    for segment, tensor in zip(torch.split(message[1:], sizes), tensors, strict=True):
        segment[: tensor.numel()] = tensor.detach().reshape(-1)
    messages = [torch.empty_like(message) for _ in range(process_count())]
    dist.all_gather(messages, message)
    gathered = []
    for number, tensor in enumerate(tensors):
        parts = []
        for received in messages:
            segment = torch.split(received[1:], sizes)[number].view(limit, *tensor.shape[1:])
            parts.append(segment[: int(received[0])].to(tensor.dtype))
        parts[process_number()] = cast(Tensor, _Multiplied.apply(tensor))  # type: ignore[no-untyped-call]
        gathered.append(torch.cat(parts))
    return gathered


class _Multiplied(torch.autograd.Function):
    """The identity, whose gradient is multiplied by the number of processes."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * process_count()


_WEIGHTS, _STATES = "model.safetensors", ("optimizer.pt", "scheduler.pt")
_RANDOM = "rng_state*.pth"  # one of each process


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; one that an interruption truncated does not count."""
    newest_first = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in newest_first if _is_whole(path)), None)


def read_state(checkpoint: Path) -> TrainerState | None:
    """Return the Trainer's state in a checkpoint; None where it is missing or damaged."""
    try:
        return TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    except (OSError, ValueError, TypeError):
        return None


def _is_whole(checkpoint: Path) -> bool:
    # trainer_state.json is written last; the other files are checked as well, since a copy may be truncated.
    try:
        with safe_open(checkpoint / _WEIGHTS, framework="pt"):
            pass
    except (OSError, SafetensorError):
        return False
    random = list(checkpoint.glob(_RANDOM))
    states = [*(checkpoint / name for name in _STATES), *random]
    return bool(random) and all(map(zipfile.is_zipfile, states)) and read_state(checkpoint) is not None
