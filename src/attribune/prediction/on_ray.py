"""Scoring of parts on a Ray cluster: tasks of Ray Data read the files, and actors with the model score their parts.

A row of the Ray dataset is a serialised part, so that Ray does not merge, split or convert it. What a worker says to
the user (notes, warnings and errors) is also a row: an error is no reason to retry.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from attribune import errors
from attribune.core.cluster import Cluster, connect
from attribune.core.door import Door, opened_door, present_door
from attribune.core.logs import Said, recorded, say_again
from attribune.errors import AttribuneError, AttribuneWarning, DataError
from attribune.prediction.parts import Mark, PartsFolder
from attribune.prediction.reading import FilePart, Job, read_parts

if TYPE_CHECKING:
    from attribune.prediction.worker import PartScorer

__all__ = ["score_on_cluster"]

_TRIES_END = ".tries.tmp"
_ROW = pa.schema(
    {
        "file": pa.int64(),
        "first_row": pa.int64(),
        "last": pa.bool_(),
        "rows": pa.large_binary(),
        "message": pa.string(),
    }
)
_TRIES = 5  # of one part: Ray would retry a part forever whose scoring kills its workers


def score_on_cluster(job: Job, done: Mapping[int, Collection[int]], *, workers: int | None) -> Iterator[Mark]:
    """Make the missing parts of files and yield their marks; if a worker dies, another one makes its part.

    Args:
        job: the run, the files and the output must have the same paths on all nodes.
        done: numbers of the files to read, with the first rows of their existing parts.
        workers: at a time; None takes what the cluster has.

    Raises:
        AttribuneError: for what a worker could not read or score, or if Ray is not installed.
    """
    cluster = connect(workers=workers)
    for tries in Path(job.output).glob(f".*{_TRIES_END}"):  # of an earlier command, perhaps with other workers
        tries.unlink(missing_ok=True)
    told = set[Said]()  # a file that is read again, and each worker that loads the run, say the same
    try:
        with _quiet_data(cluster), _interruptions() as pressed:
            for block in _dataset(cluster, job, done).iter_batches(batch_size=None, batch_format="pyarrow"):
                if pressed:
                    raise KeyboardInterrupt
                for message in block.column("message").to_pylist():
                    yield from _received(json.loads(message), told)
    except cluster.ray.exceptions.RayError as error:
        first = str(error).strip().splitlines()[0]
        raise DataError(
            f"the Ray cluster failed ({first}): finished parts are kept; run the same command again to continue with "
            "the others"
        ) from error
    finally:
        cluster.close()
        if not cluster.own:
            _release_workers()


def _release_workers() -> None:
    """Let go of the workers of a dataset that ended early, so that an open cluster has their cores again.

    Ray Data ends an actor with the last reference to it. After an error they lie in frames of its traceback, and in
    cycles: a process that waits for the cluster would never collect them.
    """
    if (error := sys.exception()) is not None:
        traceback.clear_frames(error.__traceback__)
    gc.collect()


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Record Ctrl-C, also when it interrupts code of Ray that swallows exceptions."""
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _dataset(cluster: Cluster, job: Job, done: Mapping[int, Collection[int]]) -> Any:
    """Map one row per file to one row per part, and this to its mark.

    Ray restarts tasks and actors that die, and the parts they worked on (`max_retries`, `max_restarts` and
    `max_task_retries` of Ray Data are -1).
    """
    data: Any = importlib.import_module("ray.data")
    begun = {"begun_in": os.getcwd(), "door": present_door()}
    files = data.from_items([{"file": number} for number in done], override_num_blocks=len(done))
    parts = files.map_batches(
        _read,
        fn_kwargs={"job": job, "done": dict(done), **begun},
        batch_size=1,
        batch_format="pyarrow",
        # Reading is cheap, and must continue while the scorers occupy all cores.
        num_cpus=0,
        compute=data.TaskPoolStrategy(size=cluster.workers),
    )
    return parts.map_batches(
        _Worker,
        fn_constructor_kwargs={"job": job, "threads": cluster.cores, **begun},
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=cluster.cores,
        num_gpus=cluster.devices,
        compute=data.ActorPoolStrategy(size=cluster.workers, max_tasks_in_flight_per_actor=2),
    )


@contextmanager
def _quiet_data(cluster: Cluster) -> Iterator[None]:
    """Silence Ray Data, and make it yield each row of a dataset as soon as it is computed."""
    data: Any = importlib.import_module("ray.data")
    context, logger = data.DataContext.get_current(), logging.getLogger("ray.data")
    settings = {"enable_progress_bars": False, "print_on_execution_start": False, "target_max_block_size": 1}
    before, level = {name: getattr(context, name) for name in settings}, logger.level
    try:
        for name, value in settings.items():
            setattr(context, name, value)
        logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        logger.setLevel(level)


def _read(
    batch: pa.Table, *, job: Job, done: dict[int, Collection[int]], begun_in: str, door: Door
) -> Iterator[pa.Table]:
    """Read the files of a batch; yields rows with a part or a message."""
    os.chdir(begun_in)  # paths are relative to the user's working directory
    for number in batch.column("file").to_pylist():
        yield from _rows(read_parts(job, number, done=done[number]), door)


def _rows(parts: Iterator[FilePart], door: Door) -> Iterator[pa.Table]:
    """Yield the rows of the parts of a file, each after what was said when it was read."""
    while True:
        end: dict[str, Any] = {}
        with opened_door(door), recorded() as said:
            try:
                part = next(parts, None)
            except AttribuneError as error:
                part, end = None, _error(error)
        if said or end:
            yield _row(message=json.dumps({"said": said, **end}))
        if part is None:
            return
        yield _packed(part)


class _Worker:
    """Score serialised parts, with one thread per core."""

    def __init__(self, *, job: Job, threads: int, begun_in: str, door: Door) -> None:
        # Imported here, since the reading processes need no torch.
        import torch

        from attribune.prediction.worker import PartScorer

        os.chdir(begun_in)
        os.environ["RAYON_NUM_THREADS"] = str(threads)  # of the tokenizer
        torch.set_num_threads(threads)
        self._scorer: PartScorer | None = None
        self._job, self._door, self._failure = job, door, dict[str, Any]()
        with opened_door(door), recorded() as self._said:
            try:
                self._scorer = PartScorer(job)
            except AttribuneError as error:
                self._failure = _error(error)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Score the parts, or forward the messages of the reader; returns rows with a message."""
        return pa.table({"message": [self._message(batch.slice(index, 1)) for index in range(len(batch))]})

    def _message(self, row: pa.Table) -> str:
        message: str | None = row["message"][0].as_py()
        if message is not None:
            return message
        with opened_door(self._door), recorded() as said:
            end = self._end(row)
        return json.dumps({"said": [*self._said, *said], **end})

    def _end(self, row: pa.Table) -> dict[str, Any]:
        if self._scorer is None:
            return self._failure
        try:
            return {"mark": self._scored(_unpacked(row), self._scorer).to_json()}
        except AttribuneError as error:
            return _error(error)

    def _scored(self, part: FilePart, scorer: PartScorer) -> Mark:
        path = PartsFolder(Path(self._job.output)).part(part.file, part.first_row)
        source, last = self._job.files[part.file - 1], part.first_row + len(part.rows) - 1
        tries = path.with_name(f".{path.name}{_TRIES_END}")
        lost = tries.read_text().splitlines() if tries.exists() else []
        if len(lost) >= _TRIES:
            raise DataError(
                f"{source}: {len(lost)} workers were lost, one after the other, while they scored rows "
                f"{part.first_row:,} to {last:,}, as when memory runs out: use fewer workers, and run the "
                "same again to continue"
            )
        with suppress(OSError):  # a folder that cannot be written is reported when the part is
            tries.write_text("".join(f"{process}\n" for process in (*lost, os.getpid())))
        mark = scorer.score(part)
        tries.unlink(missing_ok=True)
        if lost:
            warnings.warn(
                f"{source}: a worker was lost while it scored rows {part.first_row:,} to {last:,}, and another did it; "
                "if memory ran out, use fewer workers",
                AttribuneWarning,
                stacklevel=2,
            )
        return mark


def _row(**values: Any) -> pa.Table:
    return pa.Table.from_pylist([values], schema=_ROW)


def _packed(part: FilePart) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.rows.schema) as stream:
        stream.write_table(part.rows)
    return _row(file=part.file, first_row=part.first_row, last=part.last, rows=sink.getvalue().to_pybytes())


def _unpacked(row: pa.Table) -> FilePart:
    file, first_row, last = (row[name][0].as_py() for name in ("file", "first_row", "last"))
    with pa.ipc.open_stream(row["rows"][0].as_buffer()) as stream:
        return FilePart(file=file, first_row=first_row, last=last, rows=stream.read_all())


def _error(error: AttribuneError) -> dict[str, Any]:
    kind = DataError if isinstance(error, DataError) else type(error)  # RowError cannot be made from one text
    return {"error": [kind.__name__, str(error)]}


def _received(message: dict[str, Any], told: set[Said]) -> Iterator[Mark]:
    """Yield the mark that a worker sent, and pass on what it said, unless the user was told.

    Args:
        told: the messages that the user has seen; new ones are added.
    """
    for kind, text in message.get("said", ()):
        if (kind, text) not in told:
            told.add((kind, text))
            say_again((kind, text))
    if "error" in message:
        kind, text = message["error"]
        raise getattr(errors, kind)(text)
    if "mark" in message:
        yield Mark.from_json(message["mark"])
