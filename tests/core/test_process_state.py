"""A training has the process for itself, and leaves it as it was."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.utils import logging as transformers_logging

from attribune.core.device import training_alone


def draws() -> list[float]:
    return [random.random(), float(np.random.random()), float(torch.rand(()))]  # noqa: NPY002


@contextmanager
def default_dtype(dtype: torch.dtype) -> Any:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("fails", [False, True])
def test_the_process_is_afterwards_as_it_was(fails: bool) -> None:
    transformers.set_seed(5)
    expected, level = draws(), transformers_logging.get_verbosity()
    transformers.set_seed(5)
    try:
        with training_alone():
            transformers.set_seed(8)
            draws()
            transformers_logging.set_verbosity_debug()
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fails
    assert draws() == expected
    assert transformers_logging.get_verbosity() == level


@pytest.mark.parametrize(
    "around",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: default_dtype(torch.float64),
        lambda: default_dtype(torch.float16),
    ],
)
def test_a_training_has_gradients_in_float32_whatever_is_around_it(
    around: Callable[[], AbstractContextManager[Any]],
) -> None:
    with around():
        before = torch.get_default_dtype()
        with training_alone():
            w = torch.ones(2, 2, requires_grad=True)
            product = w @ w
            product.sum().backward()
            assert product.dtype == w.dtype == torch.float32
            assert w.grad is not None
        assert torch.get_default_dtype() == before


@pytest.mark.parametrize("around", [nullcontext, lambda: torch.autocast("cpu", dtype=torch.bfloat16)])
def test_a_training_in_bf16_reads_the_weights_of_each_step(around: Callable[[], AbstractContextManager[Any]]) -> None:
    """Autocast keeps copies of weights until its outermost block ends, which is not to be that of the training."""
    w, x = torch.nn.Parameter(torch.ones(2, 2)), torch.ones(1, 2)
    with around(), training_alone():
        for step in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                product = x @ w
            assert product.dtype == torch.bfloat16
            assert product.tolist() == [[2 * (step + 1)] * 2]
            with torch.no_grad():
                w += 1


def test_trainings_of_threads_take_turns(caplog: pytest.LogCaptureFixture) -> None:
    begun, may_end, order = threading.Event(), threading.Event(), []

    class Ends(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:  # the second one has said that it waits
            order.append("waits")
            may_end.set()

    def first() -> None:
        with training_alone(), training_alone():  # a training within a training does not wait for itself
            begun.set()
            assert may_end.wait(timeout=600)
            order.append("first ends")

    def second() -> None:
        assert begun.wait(timeout=600)
        with training_alone():
            order.append("second begins")

    log, handler = logging.getLogger("attribune.core.device"), Ends()
    log.addHandler(handler)
    try:
        threads = [threading.Thread(target=target) for target in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        log.removeHandler(handler)
    assert order == ["waits", "first ends", "second begins"]
    assert "to train at the same time, use processes" in caplog.text
