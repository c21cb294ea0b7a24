"""Dynamic batching: the requests that wait when the model becomes free are answered together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from attribune.apps.serve.models import Answer, ServedModel, start
from attribune.core.process import return_freed_memory
from attribune.errors import AttribuneError

Result = TypeVar("Result")
_PATIENCE = 0.05  # share of the time of a batch
_RETURN_SECONDS = 3  # between two returns of freed memory, each of which takes 20 ms


class Overloaded(Exception):  # noqa: N818 - a state of the service, not a mistake
    """The queue is full."""


class Stopping(Exception):  # noqa: N818
    """The service answers what waits and takes no more requests."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Waiting:
    model: ServedModel
    columns: Mapping[str, Sequence[Any]]
    rows: int
    answers: Future[list[Answer]] = field(default_factory=Future)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    function: Callable[[], Any]
    rows: int
    result: Future[Any] = field(default_factory=Future)


class Batcher:
    """Answers the requests that wait, batch by batch, on the one thread on which models predict.

    Requests gather while a model works; when it is done, those for the model of the oldest request, and for models that
    share its backbone, are answered together. Where a batch had several requests, their callers are likely to ask
    again: the next batch waits for as many texts, for a twentieth of the time of the last one at most. A single caller
    never waits. Other work on that thread, `call`, is done between the batches.

    Args:
        max_queue_size: texts that may wait.
        max_batch_size: texts of a batch, unless one request has more.
        observe: called with the size of every batch.
    """

    def __init__(
        self, *, max_queue_size: int, max_batch_size: int = 256, observe: Callable[[int], None] = lambda _: None
    ) -> None:
        self.max_queue_size, self.max_batch_size = max_queue_size, max_batch_size
        self._observe = observe
        self._queue: deque[_Waiting] = deque()
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._working = self._closed = False
        self._expected, self._patience = 0, 0.0  # texts to wait for, and seconds for which
        self._returned = time.monotonic()

    @property
    def waiting(self) -> int:
        """The number of texts that wait."""
        with self._changed:
            return self._rows()

    @property
    def alive(self) -> bool:
        """Whether requests are taken."""
        return not self._closed

    def submit(self, model: ServedModel, columns: Mapping[str, Sequence[Any]]) -> Future[list[Answer]]:
        """Queue rows, as columns by name; the future has an answer for each, or the error of this request.

        Rows whose future is cancelled before they are scored leave the queue.

        Raises:
            Overloaded: when the queue is full.
            Stopping: after `close`.
        """
        rows = len(next(iter(columns.values())))
        request = _Waiting(model=model, columns=columns, rows=rows)
        with self._taking(rows):
            self._queue.append(request)
        request.answers.add_done_callback(lambda answers: self._forget(request) if answers.cancelled() else None)
        return request.answers

    def call(self, function: Callable[[], Result], *, rows: int = 0) -> Future[Result]:
        """Queue a function; the future has its result or its error.

        Args:
            rows: that it works on, if it takes long; it then calls `give_way` now and then.

        Raises:
            Overloaded: when rows wait, and the queue is full.
            Stopping: after `close`.
        """
        job = _Job(function=function, rows=rows)
        with self._taking(rows):
            self._jobs.append(job)
        return job.result

    def give_way(self) -> None:
        """Answer a batch of those that wait and do what is short, within a function that takes long."""
        with self._changed:
            batch = self._next_batch() if self._queue else []
            short = [job for job in self._jobs if not job.rows]
            self._jobs = deque(job for job in self._jobs if job.rows)
        for job in short:
            _do(job)
        self._score(batch)

    @contextlib.contextmanager
    def _taking(self, rows: int) -> Iterator[None]:
        """Put something into a queue within the block."""
        with self._changed:
            if self._closed:
                raise Stopping
            waiting = self._rows()
            if rows and waiting and waiting + rows > self.max_queue_size:
                raise Overloaded
            yield
            self._changed.notify_all()
            if not self._working:
                self._working = True
                start(self._work)

    def _forget(self, request: _Waiting) -> None:
        with self._changed, contextlib.suppress(ValueError):  # it may be in a batch already
            self._queue.remove(request)

    def close(self) -> None:
        """Take no more requests, and wait until those in the queue have been answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._working)

    def _rows(self) -> int:
        return sum(request.rows for request in self._queue) + sum(job.rows for job in self._jobs)

    def _work(self) -> None:
        """Answer until the queue is empty; an unexpected error ends the service, and `/health` says so."""
        try:
            self._answer_all()
        except BaseException:
            with self._changed:
                self._closed, self._working = True, False
                for future in (*(one.answers for one in self._queue), *(job.result for job in self._jobs)):
                    if not future.cancelled():
                        future.set_exception(Stopping())
                self._queue.clear()
                self._jobs.clear()
                self._changed.notify_all()
            raise

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closed or self._jobs or self._rows() >= self._expected, timeout=self._patience
                )
                self._expected, self._patience = 0, 0.0
                if not self._queue and not self._jobs:
                    self._working = False
                    self._changed.notify_all()
                    return
                job = self._jobs.popleft() if self._jobs else None
                batch = self._next_batch() if self._queue else []
            self._score(batch)
            if job is not None:
                _do(job)
            if time.monotonic() - self._returned > _RETURN_SECONDS:
                return_freed_memory()
                self._returned = time.monotonic()

    def _score(self, batch: Sequence[_Waiting]) -> None:
        batch = [request for request in batch if request.answers.set_running_or_notify_cancel()]
        if not batch:
            return
        start_time, rows = time.monotonic(), sum(request.rows for request in batch)
        try:
            self._observe(rows)
            _answer(batch)
        except BaseException as error:
            for request in batch:
                if not request.answers.done():
                    request.answers.set_exception(error)
            raise
        if len(batch) > 1:
            self._expected, self._patience = min(rows, self.max_batch_size), _PATIENCE * (time.monotonic() - start_time)

    def _next_batch(self) -> list[_Waiting]:
        """Take the oldest request, and those that can be in a batch with it, up to the size of a batch."""
        first = self._queue.popleft()
        batch, rows, others = [first], first.rows, deque[_Waiting]()
        for request in self._queue:
            if first.model.shares_batches_with(request.model) and rows + request.rows <= self.max_batch_size:
                batch.append(request)
                rows += request.rows
            else:
                others.append(request)
        self._queue = others
        return batch


def _do(job: _Job) -> None:
    if not job.result.set_running_or_notify_cancel():
        return
    try:
        result = job.function()
    except BaseException as error:
        job.result.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        job.result.set_result(result)


def _answer(batch: Sequence[_Waiting]) -> None:
    """Answer requests together; where that fails, each alone, so that a bad one fails alone."""
    by_model: dict[ServedModel, list[_Waiting]] = {}
    for request in batch:
        by_model.setdefault(request.model, []).append(request)
    try:
        answers = batch[0].model.answer_together({model: _joined(requests) for model, requests in by_model.items()})
    except Exception as error:
        if len(batch) > 1 and isinstance(error, AttribuneError):
            for request in batch:
                _answer([request])
        else:
            for request in batch:
                request.answers.set_exception(error)
        return
    for model, requests in by_model.items():
        start = 0
        for request in requests:
            request.answers.set_result(answers[model][start : start + request.rows])
            start += request.rows


def _joined(requests: Sequence[_Waiting]) -> dict[str, list[Any]]:
    """Join the columns of requests for one model."""
    return {name: [value for one in requests for value in one.columns[name]] for name in requests[0].columns}
