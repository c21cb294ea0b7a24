"""The cores that this process may use, and how its threads behave beside other busy processes.

The threads of OpenMP, with which PyTorch computes on CPUs, wait for each other by default in a loop that keeps their
cores busy. Where another process needs these cores, the threads that are waited for do not get them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from attribune.core.wording import counted

_TIMES = Path("/proc/stat")
_GROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_POLICY = "OMP_WAIT_POLICY"
_WAITING = (_POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_BUSY_SHARE = 0.25  # of the machine's cores
_MEASURED_SECONDS = 0.1


def core_count() -> int:
    """Return the number of cores that this process may use: by its affinity, and by a container's quota of time."""
    quota = quota_cores()
    cores = _allowed_cores()
    return cores if quota is None else max(1, min(cores, int(quota)))


def _allowed_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota_cores() -> float | None:
    """Return the cores whose time a container may use, such as 1.5; None without a quota (cgroup v1 and v2)."""
    quotas = [quota for folder in _own_folders() if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def _own_folders() -> Iterator[Path]:
    """Return the folders of this process's group and of those around it; in a container the first is its own."""
    try:
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    for line in ["0::/", ":cpu:/", *lines]:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "cpu", "cpu,cpuacct", "cpuacct,cpu"):
            inner = Path(path.lstrip("/"))
            yield from (_GROUPS / controllers / part for part in (inner, *inner.parents))


def _quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").is_file():
            words = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            files = (folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
            words = [file.read_text(encoding="utf-8").strip() for file in files]
        quota, period = map(int, words)
    except (OSError, ValueError):  # no such file, or "max" for none
        return None
    return quota / period if quota > 0 and period > 0 else None


def busy_cores() -> float | None:
    """Measure for a tenth of a second, in which this thread sleeps, how many cores are busy; None where Linux is not.

    The load average would not do: a minute after a training it still counts the training itself.
    """
    try:
        before = _core_times()
        time.sleep(_MEASURED_SECONDS)
        spent = [now - then for now, then in zip(_core_times(), before, strict=True)]
    except (OSError, ValueError):
        return None
    user, nice, system, _, _, irq, softirq, *_ = spent
    return _cores() * (user + nice + system + irq + softirq) / sum(spent) if sum(spent) else 0.0


def _core_times() -> list[int]:
    """Return the times of all cores together: user, nice, system, idle, iowait, irq, softirq and steal (proc(5))."""
    with _TIMES.open(encoding="ascii") as file:
        return [int(word) for word in file.readline().split()[1:9]]


def _cores() -> int:
    return os.cpu_count() or 1


def _exceeds(load: float | None) -> bool:
    return load is not None and load >= _BUSY_SHARE * _cores()


def wait_passively(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Let threads leave their cores to others while they wait, on a machine that is busy; before PyTorch is loaded.

    A policy that the user has set stays.

    Returns:
        Whether the policy was set.
    """
    if "torch" in sys.modules or any(name in environment for name in _WAITING) or not _exceeds(busy_cores()):
        return False
    environment[_POLICY] = "PASSIVE"
    return True


def limit_threads() -> None:
    """Let PyTorch use no more threads than a container's quota has cores, unless the user has set another number."""
    import torch

    cores = core_count()
    if torch.get_num_threads() == _allowed_cores() > cores and not any(name in os.environ for name in _COUNTS):
        torch.set_num_threads(cores)


@dataclass(frozen=True)
class BusyMachine:
    """What other processes mean for the threads of this one, and a cure if there is one to take."""

    what: str
    cure: str | None = None

    def __str__(self) -> str:
        return self.what if self.cure is None else f"{self.what}: {self.cure}"


def find_busy_machine(threads: int) -> BusyMachine | None:
    """Say what a busy machine means for so many threads; None for one thread, or a machine that is not busy."""
    if threads < 2 or not _exceeds(load := busy_cores()):
        return None
    busy = f"this machine is busy (load {load:.1f} on {counted(_cores(), 'core')})"
    if os.environ.get(_POLICY, "").upper() == "PASSIVE":
        return BusyMachine(f"{busy}; {threads} threads leave their cores to others while they wait ({_POLICY}=PASSIVE)")
    if any(name in os.environ for name in _WAITING):
        return BusyMachine(f"{busy}; {threads} threads wait as the environment says")
    return BusyMachine(
        f"{busy}, and {threads} threads keep their cores while they wait for each other, which can make a step several "
        "times slower",
        f"set {_POLICY}=PASSIVE before Python starts, or OMP_NUM_THREADS=1",
    )
