"""Where models run, and what of PyTorch they depend on there: precision, and the state of the whole process."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attribune.core.wording import counted
from attribune.errors import ConfigError


def default_device() -> str:
    """Return the device on which models run: a GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def is_recorded() -> bool:
    """Return whether operations are being recorded, to be compiled, exported or replayed as a CUDA graph.

    What is recorded may not depend on the numbers in tensors: another batch runs through the same operations.
    """
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return True
    is_used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return is_used and torch.cuda.is_current_stream_capturing()


def named_device(name: str | None) -> torch.device:
    """Return a device by its name, by default that of `default_device`; ConfigError for one that is not there."""
    try:
        device = torch.device(name or default_device())
    except RuntimeError as error:
        raise ConfigError(f"device is {name!r}: give cpu, cuda or cuda:0, or leave it out") from error
    check_device(device, "device")
    return device


def check_device(device: torch.device, argument: str) -> None:
    """Refuse an accelerator that is not there by a ConfigError."""
    if device.type in ("cpu", "meta"):
        return
    backend: Any = getattr(torch, device.type, None)
    count = backend.device_count() if hasattr(backend, "device_count") else 0
    if (device.index or 0) >= count:
        raise ConfigError(f"{argument} is '{device}', and torch finds {counted(count, 'GPU')} of this type: give cpu")


_PRECISIONS = ("float32", "bf16")
_MEANT = {"bfloat16": "bf16", "float16": "bf16", "fp16": "bf16", "half": "bf16", "fp32": "float32", "float": "float32"}


def check_precision(precision: str) -> None:
    """Refuse a precision in which nothing is predicted.

    Raises:
        ConfigError: naming those that there are.
    """
    if precision not in _PRECISIONS:
        close = _MEANT.get(str(precision).lower())
        hint = f"; did you mean {close!r}?" if close else ""
        raise ConfigError(f"precision is {precision!r}: choose from {', '.join(_PRECISIONS)}{hint}")


def check_batch_size(batch_size: int) -> None:
    """Refuse batches without rows by a ConfigError."""
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}: give at least 1")


def resolve_precision(precision: str) -> str:
    """``auto`` as this machine understands it: bf16 where products of it are faster than those of float32."""
    if precision != "auto":
        return precision
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    has = torch.cpu.get_capabilities()
    if has.get("amx_bf16"):
        return "bf16"
    # Zen 4 and Cooper Lake multiply pairs of bf16 at twice the rate of float32. Intel's later processors, which have
    # float16 too, leave that to AMX: where a virtual machine hides AMX, bf16 takes 1.5 times as long as float32.
    return "bf16" if has.get("avx512_bf16") and not has.get("avx512_fp16") else "float32"


def computing_in(precision: str | None, device: str) -> AbstractContextManager[Any]:
    """Return the context in which a model computes in a precision: autocast for ``bf16``, none for others."""
    return torch.autocast(device, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


@contextmanager
def default_float32() -> Iterator[None]:
    """Make new tensors float32 within a block, whatever the default of the process; without effect where it is that."""
    before = torch.get_default_dtype()
    if before == torch.float32:
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def at_least_float32(x: Tensor) -> Tensor:
    """Return a tensor in float32, or as it is in float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def product_dtype(x: Tensor) -> torch.dtype:
    """Return the precision in which a matrix product of x runs, that of autocast if it is on."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


_log = logging.getLogger(__name__)
_TURN = threading.RLock()


@contextmanager
def training_alone() -> Iterator[None]:
    """Train within a block as in a process of one's own, and leave the process as it was.

    Trainings draw from the random numbers of the process, so that those of several threads take turns; one that waits
    is logged. Within the block there are gradients, in float32 and without autocast, whatever the caller has chosen.
    """
    if not _TURN.acquire(blocking=False):
        _log.warning(
            "another training runs in this process, and this one waits for its end, since both would draw from the "
            "same random numbers: to train at the same time, use processes"
        )
        _TURN.acquire()
    try:
        with _restored(), ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(default_float32())
            for device in {"cpu", default_device()}:
                # Its cache would last as long as this block, and steps would read the weights of the first one.
                stack.enter_context(torch.autocast(device, enabled=False, cache_enabled=False))
            yield
    finally:
        _TURN.release()


@contextmanager
def _restored() -> Iterator[None]:
    """Restore the states of the random numbers, and how much transformers says, at the end of a block."""
    from transformers.utils import logging as transformers_logging  # here, since most of this module does without

    python, cpu = random.getstate(), torch.get_rng_state()
    numpy = np.random.get_state()  # noqa: NPY002  the one that set_seed of transformers changes
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    verbosity = transformers_logging.get_verbosity()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
        transformers_logging.set_verbosity(verbosity)
