"""The thread that writes runs with other values: those who add values at the same time are written together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from attribune.apps.serve.batching import Batcher
from attribune.apps.serve.compute import compute
from attribune.apps.serve.models import ServedModel
from attribune.errors import ConfigError, ModelFolderError
from attribune.values.forget import Forgotten
from attribune.values.live_run import Compute, LearnedValue

__all__ = ["ValueWriter"]

Result = TypeVar("Result")
_Waiting = tuple[LearnedValue, Future[None]]


class ValueWriter:
    """Adds values to served runs, and takes them away: in the folder first, then in memory between two batches.

    Args:
        batcher: on whose thread the models are.
    """

    def __init__(self, models: Iterable[ServedModel], batcher: Batcher) -> None:
        self._batcher, self._models = batcher, [model for model in models if model.live is not None]
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribune-writer")
        self._waiting: dict[ServedModel, list[_Waiting]] = {}
        self._changed = threading.Lock()
        self._compute_by(self._between_batches)

    def add(self, model: ServedModel, learned: LearnedValue) -> Future[None]:
        """Add a value that was learned; the future ends when it is in the folder and in memory, or has the error."""
        future = Future[None]()
        with self._changed:
            self._waiting.setdefault(model, []).append((learned, future))
        self._thread.submit(self._write, model)
        return future

    def remove(self, model: ServedModel, attribute: str, value: str) -> Future[Forgotten]:
        """Take a value away; the future has what was removed, or the error."""
        assert model.live is not None
        return self._thread.submit(_changing, model, partial(model.live.remove, attribute, value))

    def close(self) -> None:
        """Write what waits."""
        self._thread.shutdown()
        self._compute_by(compute)

    def _compute_by(self, caller: Compute) -> None:
        for model in self._models:
            assert model.live is not None
            model.live.compute = caller

    def _between_batches(self, function: Callable[[], Result], /) -> Result:
        return self._batcher.call(function).result()

    def _write(self, model: ServedModel) -> None:
        """Write all values of a model that wait; one that came with others may have been written with them."""
        with self._changed:
            waiting = self._waiting.pop(model, [])
        group: dict[tuple[str, str], _Waiting] = {}
        for learned, future in waiting:
            if not future.set_running_or_notify_cancel():
                continue
            attribute, value = learned.enrolled.attribute, learned.enrolled.value
            if (attribute, value) in group or value in model.predictor.schema[attribute].values:
                future.set_exception(
                    ConfigError(f"attribute {attribute!r} already has the value {value!r}: another request added it")
                )
            else:
                group[attribute, value] = learned, future
        if not group:
            return
        assert model.live is not None
        try:
            _changing(model, partial(model.live.add, [learned for learned, _ in group.values()]))
        except Exception as error:
            for _, future in group.values():
                future.set_exception(error)
        else:
            for _, future in group.values():
                future.set_result(None)


def _changing(model: ServedModel, change: Callable[[], Result]) -> Result:
    """Change the folder of a model that is served."""
    assert model.live is not None
    try:
        return change()
    except OSError as error:
        raise ModelFolderError(
            f"{model.source} cannot be written ({error.strerror or error}): free some space"
        ) from error
