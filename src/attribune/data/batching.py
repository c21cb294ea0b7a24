"""Batches of rows of similar length, for little padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from attribune.core.arrays import IntArray
from attribune.errors import ConfigError

_SIMILAR = 0.75  # of the longest row of a batch; shorter rows deserve their own batch
_BUSY_CPU, _BUSY_OTHER = 512, 16384  # ids of a batch beyond which a device gets no faster
_POOL = 50  # batches that are sorted together: enough to group by length, few enough to stay random


class LengthGroupedBatches(torch.utils.data.Sampler[int]):
    """A sampler of row indices; consecutive runs of `batch_size` indices have similar lengths.

    Rows are shuffled, cut into pools of 50 batches and sorted by length within each pool; then the batches are
    shuffled. The batch with the longest row comes first, so that memory runs out at once or not at all; an incomplete
    batch comes last. The order depends only on `seed`, the epoch and the lengths.

    Args:
        lengths: (n,) number of tokens of each row.

    Raises:
        ConfigError: for a batch size below 1.
    """

    def __init__(self, lengths: Sequence[int] | IntArray, *, batch_size: int, seed: int = 0) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size={batch_size} must be at least 1")
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())

    def order(self) -> IntArray:
        """Return the row indices of the epoch, (n,)."""
        random = np.random.default_rng([self.seed, self.epoch])
        rows = random.permutation(len(self.lengths))
        if len(rows):  # the longest row opens the first pool: never in the incomplete batch
            longest = int(np.argmax(self.lengths[rows]))
            rows[[0, longest]] = rows[[longest, 0]]
        pool = _POOL * self.batch_size
        pools = [rows[start : start + pool] for start in range(0, len(rows), pool)]
        ordered = [part[np.argsort(-self.lengths[part], kind="stable")] for part in pools]
        rows = np.concatenate([rows[:0], *ordered])
        complete = len(rows) // self.batch_size
        batches = rows[: complete * self.batch_size].reshape(complete, self.batch_size)
        if complete:
            batches = batches[random.permutation(complete)]
            longest = int(np.argmax(self.lengths[batches].max(axis=1)))
            batches[[0, longest]] = batches[[longest, 0]]
        return np.concatenate([batches.reshape(-1), rows[complete * self.batch_size :]])


class SharedBatches(torch.utils.data.Sampler[list[int]]):
    """A batch sampler for one of several processes, numbered from 0, which share the rows of every batch in turn.

    Thus each gets texts of all lengths. If a batch has fewer rows than there are processes, those without a row get its
    first one.

    Args:
        rows: consecutive runs of its `batch_size` indices are the batches of all processes together.
    """

    def __init__(self, rows: LengthGroupedBatches, *, process: int = 0, processes: int = 1) -> None:
        self.rows, self.process, self.processes = rows, process, processes

    @property
    def most(self) -> int:
        """Maximum number of rows of a batch for one process."""
        return -(-self.rows.batch_size // self.processes)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.rows.set_epoch(epoch)

    def __len__(self) -> int:
        return -(-len(self.rows) // self.rows.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = self.rows.order().tolist()
        for start in range(0, len(order), self.rows.batch_size):
            batch = order[start : start + self.rows.batch_size]
            yield batch[self.process :: self.processes] or batch[:1]


def padding_share(lengths: Sequence[int] | IntArray, *, batch_size: int) -> float:
    """Return the share of padding when consecutive runs of `batch_size` rows are padded to their longest, 0 to 1."""
    array = np.asarray(lengths, dtype=np.int64)
    if not array.sum():
        return 0.0
    starts = np.arange(0, len(array), batch_size)
    sizes = np.diff(np.append(starts, len(array)))
    return float(1 - array.sum() / (np.maximum.reduceat(array, starts) * sizes).sum())


def batches_by_length(
    lengths: IntArray,
    *,
    size: int,
    device: torch.device,
    texts: IntArray | None = None,
    room: int = 0,
) -> Iterator[npt.NDArray[np.intp]]:
    """Cut rows into batches of at most `size` rows of similar length, the longest first; yields their indices.

    A batch ends where rows become much shorter, once it has enough ids to keep the processor busy.

    Args:
        lengths: (n,) number of ids of each row.
        texts: (n,) number of each row's text; rows of one text then come one after the other.
        room: see `length_cuts`.
    """
    order = np.argsort(-lengths, kind="stable") if texts is None else np.lexsort((texts, -lengths))
    busy = _BUSY_CPU if device.type == "cpu" else _BUSY_OTHER
    ordered = None if texts is None else texts[order].tolist()
    for cut in length_cuts(lengths[order].tolist(), size=size, busy=busy, texts=ordered, room=room):
        yield order[cut]


def length_cuts(
    lengths: Sequence[int], *, size: int, busy: int, texts: Sequence[int] | None = None, room: int = 0
) -> Iterator[slice]:
    """Cut rows that are sorted, the longest first, into batches of similar length.

    Args:
        lengths: number of ids of each row, descending.
        size: maximum number of rows of a batch.
        busy: number of ids that keep the processor busy; a batch with fewer takes shorter rows too.
        texts: number of each row's text, rows of one text being neighbours; by default each row has its own.
        room: number of ids up to which a batch has more than `size` rows, of at most `size` texts. With it, an id that
            several rows share keeps the processor busy once.
    """
    start, distinct = 0, 0
    for end in range(1, len(lengths) + 1):
        distinct += texts is None or end - 1 == start or texts[end - 1] != texts[end - 2]
        is_last = end == len(lengths)
        is_new = not is_last and (texts is None or texts[end] != texts[end - 1])
        longest, rows = lengths[start], end - start
        shorter = not is_last and lengths[end] < _SIMILAR * longest and (distinct if room else rows) * longest >= busy
        is_full = rows >= size and (not room or (rows + 1) * longest > room or (distinct == size and is_new))
        if is_last or is_full or shorter:
            yield slice(start, end)
            start, distinct = end, 0
