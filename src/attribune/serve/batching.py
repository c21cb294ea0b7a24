"""Requests that wait for the model, answered together: as many as there are when it becomes free."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from attribune.errors import AttribuneError
from attribune.process_memory import return_freed_memory
from attribune.serve.compute import start
from attribune.serve.models import Answer, ServedModel

__all__ = ["Batcher", "Overloaded", "Stopping"]

_PATIENCE = 0.05  # of the time of a batch
_RETURN_SECONDS = 3  # between two times that freed memory is given back, which takes 20 ms


class Overloaded(Exception):  # noqa: N818 - a state of the service, not a mistake
    """More texts wait than the service was given room for."""


class Stopping(Exception):  # noqa: N818
    """The service finishes what it has and takes no more."""


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    model: ServedModel
    columns: Mapping[str, Sequence[Any]]
    rows: int
    answers: Future[list[Answer]] = field(default_factory=Future)


class Batcher:
    """Lets the thread that computes score what waits, and nothing else: the processor's cores are the model's.

    While the model works requests gather by themselves, and those for the model that was asked for first are scored
    together when it is done. Where several were answered together, those who asked are likely to ask again: the next
    batch waits for as many texts, for a twentieth of the time of the last at most. Who asks alone never waits.

    Args:
        queue_rows: texts that may wait.
        at_once: texts scored together, unless one request has more.
        observe: is told how many texts were scored together.
    """

    def __init__(self, *, queue_rows: int, at_once: int = 256, observe: Callable[[int], None] = lambda _: None) -> None:
        self.queue_rows, self.at_once = queue_rows, at_once
        self._observe = observe
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._working = self._closed = False
        self._asked, self._patience = 0, 0.0  # texts of the last batch of several requests; how long to wait for more
        self._returned = time.monotonic()

    @property
    def waiting(self) -> int:
        """Texts that wait."""
        with self._changed:
            return self._rows()

    @property
    def alive(self) -> bool:
        """Whether requests are taken."""
        return not self._closed

    def submit(self, model: ServedModel, columns: Mapping[str, Sequence[Any]]) -> Future[list[Answer]]:
        """Let rows be scored; the future gives an answer for each, or the error of this request.

        Args:
            model: by which.
            columns: texts and attributes by name.

        Raises:
            Overloaded: when there is no room for them.
            Stopping: after `close`.
        """
        request = _Waiting(model=model, columns=columns, rows=len(next(iter(columns.values()))))
        with self._changed:
            if self._closed:
                raise Stopping
            waiting = self._rows()
            if waiting and waiting + request.rows > self.queue_rows:
                raise Overloaded
            self._queue.append(request)
            self._changed.notify_all()
            if not self._working:
                self._working = True
                start(self._work)
        return request.answers

    def close(self) -> None:
        """Take no more requests, and wait until those there are have been answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._working)

    def _rows(self) -> int:
        return sum(one.rows for one in self._queue)

    def _work(self) -> None:
        """Answer until nothing waits; after a mistake of ours nothing more is taken, and `/health` says so."""
        try:
            self._answer_all()
        except BaseException:
            with self._changed:
                self._closed, self._working = True, False
                for one in self._queue:
                    one.answers.set_exception(Stopping())
                self._queue.clear()
                self._changed.notify_all()
            raise

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._rows() >= self._asked, timeout=self._patience)
                self._asked, self._patience = 0, 0.0
                if not self._queue:
                    self._working = False
                    self._changed.notify_all()
                    return
                batch = self._next()
            batch = [one for one in batch if one.answers.set_running_or_notify_cancel()]  # whoever left is passed over
            if batch:
                self._score(batch)
            if time.monotonic() - self._returned > _RETURN_SECONDS:
                return_freed_memory()
                self._returned = time.monotonic()

    def _score(self, batch: Sequence[_Waiting]) -> None:
        began, rows = time.monotonic(), sum(one.rows for one in batch)
        try:
            self._observe(rows)
            _answer(batch)
        except BaseException as error:
            for one in batch:
                if not one.answers.done():
                    one.answers.set_exception(error)
            raise
        if len(batch) > 1:
            self._asked, self._patience = min(rows, self.at_once), _PATIENCE * (time.monotonic() - began)

    def _next(self) -> list[_Waiting]:
        """Take the oldest request and those for the same model that fit beside it."""
        first = self._queue.popleft()
        batch, rows, others = [first], first.rows, deque[_Waiting]()
        for one in self._queue:
            if one.model is first.model and rows + one.rows <= self.at_once:
                batch.append(one)
                rows += one.rows
            else:
                others.append(one)
        self._queue = others
        return batch


def _answer(batch: Sequence[_Waiting]) -> None:
    """Score requests together; where that fails, each alone, so that a bad one fails alone."""
    try:
        answers = batch[0].model.answer(_joined(batch))
    except Exception as error:
        if len(batch) > 1 and isinstance(error, AttribuneError):
            for one in batch:
                _answer([one])
        else:
            for one in batch:
                one.answers.set_exception(error)
        return
    start = 0
    for one in batch:
        one.answers.set_result(answers[start : start + one.rows])
        start += one.rows


def _joined(batch: Sequence[_Waiting]) -> dict[str, list[Any]]:
    return {name: [value for one in batch for value in one.columns[name]] for name in batch[0].columns}
