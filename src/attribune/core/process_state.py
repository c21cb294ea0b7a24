"""What belongs to the whole process and a training changes: random numbers, verbosity, and defaults of PyTorch."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from transformers.utils import logging as transformers_logging

from attribune.core.device import default_device
from attribune.core.precision import default_float32

__all__ = ["training_alone"]

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
