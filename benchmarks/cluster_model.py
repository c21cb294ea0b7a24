"""A cluster on paper: closed formulas for a training step on it, and a simulation that checks them.

Symbols: N processes, b rows of each in a step, Z numbers of a vector, P trained parameters beside the tables, p_v the
share of value v among the rows, ``q_v = 1 - (1 - p_v)^b`` how likely it is among b rows, u the sum of all q_v: the
distinct values of a process. Times are in seconds, sizes in bytes; what a process sends counts, ids are 8 bytes and
numbers 4. Figures of a step are named as the page names them: see `figures`.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from zipf import Array, Zipf, seen

ID, NUMBER = 8, 4
DEALINGS = ("contiguous", "hashed", "in turn")  # ways of giving a table's rows to processes
NOISE, PAUSES = 0.05, 1e-3  # spread of the logarithm of a step's time; steps in which a process stops for another one
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A kind of process and its work.

    Args:
        rows: b.
        tokens: of a row.
        step: seconds of a step of a process by itself.
        parameters: P.
        bandwidth: bytes per second that a process sends, while others of its node send too.
        latency: seconds of a message.
        cores: of a process; 0 where it has a GPU.
        price: of an hour of the process, from and to, in US dollars.
        processes: N, those that are looked at.
    """

    rows: int
    tokens: int
    step: float
    parameters: int
    bandwidth: float
    latency: float
    cores: int
    price: tuple[float, float]
    processes: tuple[int, ...]


def dense_bytes(parameters: int, processes: int) -> float:
    """Of the all-reduce of P gradients in a ring."""
    return 2 * (processes - 1) / processes * NUMBER * parameters


def gather_bytes(most_distinct: float, processes: int, size: int) -> float:
    """Of all ids to all, vectors summed and scattered, gradients to all."""
    return (processes - 1) * most_distinct * (ID + 2 * NUMBER * size)


def figures(
    profile: Profile,
    processes: int,
    size: int,
    *,
    distinct: float,
    distinct_everywhere: float,
    most_distinct: float,
    imbalance: dict[str, float],
    compute: float,
) -> dict[str, float]:
    """A step by latency and bandwidth: rings for what all must have, pairs for what has one owner; nothing overlaps.

    Args:
        profile: of the processes.
        processes: N.
        size: Z.
        distinct: u, of a process.
        distinct_everywhere: of the whole batch.
        most_distinct: of the process that has most.
        imbalance: for each way of dealing rows out, the vectors asked of the busiest process over the mean.
        compute: seconds until the last process is ready.
    """
    others, of_value = processes - 1, ID + 2 * NUMBER * size
    dense, gather = dense_bytes(profile.parameters, processes), gather_bytes(most_distinct, processes, size)
    exchange = others / processes * distinct * of_value  # each id to its owner, the vector back, the gradient there
    seconds = {
        "compute": compute,
        "dense": 2 * others * profile.latency + dense / profile.bandwidth,
        "gather": 3 * others * profile.latency + gather / profile.bandwidth,
    }
    return {
        "distinct": distinct,
        "distinct_everywhere": distinct_everywhere,
        "most_distinct": most_distinct,
        **imbalance,
        "dense_bytes": dense,
        "gather_bytes": gather,
        "exchange_bytes": exchange,
        **seconds,
        "exchange": 3 * others * profile.latency + exchange * imbalance["in turn"] / profile.bandwidth,
        "step": sum(seconds.values()),
    }


# By formula


def by_formula(profile: Profile, processes: int, law: Zipf, size: int) -> dict[str, float]:
    """A step of the closed formulas.

    Args:
        profile: of the processes.
        processes: N.
        law: the values.
        size: Z.
    """
    b, z = profile.rows, largest(processes)
    u = law.distinct(b)
    pausing = -math.expm1(processes * math.log1p(-PAUSES))
    return figures(
        profile,
        processes,
        size,
        distinct=u,
        distinct_everywhere=law.distinct(b * processes),
        most_distinct=min(b, u + z * math.sqrt(distinct_variance(law, b))),
        imbalance={dealing: imbalance_of(dealing, law, b, processes) for dealing in DEALINGS},
        compute=profile.step * (math.exp(NOISE * z - NOISE**2 / 2) + pausing),
    )


def largest(processes: int) -> float:
    """The expected largest of so many standard normal numbers (Blom's approximation)."""
    return float(norm.ppf((processes - 0.375) / (processes + 0.25)))


def distinct_variance(law: Zipf, draws: int) -> float:
    """Of the number of distinct values among so many draws."""
    spread = law.total(lambda share: seen(share, draws) * (1 - seen(share, draws)))
    once = law.total(lambda share: share * (1 - share) ** (draws - 1))
    return max(spread - draws * once**2, 0.0)


def imbalance_of(dealing: str, law: Zipf, draws: int, processes: int) -> float:
    """Vectors asked of the busiest process over the mean, which is u.

    Value v is asked for by N q_v processes. Contiguous: the first process has the first V / N values. In turn: it has
    value 1 and every Nth after it, or another has the luck of the batch. Hashed: either an unlucky draw of values,
    normal with the variance of the sum, or whoever has value 1.
    """

    def q(share: Array) -> Array:
        return seen(share, draws)

    mean, first, chance = law.total(q), law.total(q, 1), largest(processes)
    if dealing == "contiguous":
        return processes * law.total(q, law.values // processes) / mean
    if dealing == "in turn":
        rest = mean - law.total(q, min(processes, law.values))
        by_chance = mean + chance * math.sqrt(law.total(lambda share: q(share) * (1 - q(share))))
        return max(by_chance, processes * first + rest) / mean
    variance = law.total(lambda share: q(share) + (processes - 2) * q(share) ** 2)
    return max(mean + chance * math.sqrt(variance), processes * first + mean - first) / mean


# By simulation


def simulated(profile: Profile, processes: int, law: Zipf, size: int, steps: int) -> dict[str, float]:
    """The mean of some steps; each has a hash function of its own."""
    random = np.random.default_rng(0)
    found = [_one_step(profile, processes, law, size, random) for _ in range(steps)]
    return {name: statistics.fmean(one[name] for one in found) for name in found[0]}


def _one_step(profile: Profile, processes: int, law: Zipf, size: int, random: np.random.Generator) -> dict[str, float]:
    """Each process draws its rows' values and asks for its distinct ones; the slowest is waited for."""
    ids = np.sort(law.draw((processes, profile.rows), random), axis=1)
    new = np.ones(ids.shape, dtype=bool)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    asked, salt = ids[new], int(random.integers(2**62))
    loads = {
        dealing: np.bincount(owners(asked, dealing, processes, law.values, salt), minlength=processes)
        for dealing in DEALINGS
    }
    compute = profile.step * random.lognormal(-(NOISE**2) / 2, NOISE, processes)
    compute += profile.step * (random.random(processes) < PAUSES)
    return figures(
        profile,
        processes,
        size,
        distinct=len(asked) / processes,
        distinct_everywhere=len(np.unique(asked)),
        most_distinct=int(new.sum(axis=1).max()),
        imbalance={dealing: load.max() / load.mean() for dealing, load in loads.items()},
        compute=float(compute.max()),
    )


def owners(ids: Ids, dealing: str, processes: int, values: int, salt: int) -> Ids:
    """The process that has each value's row; values are numbered by frequency, as a vocabulary numbers them."""
    if dealing == "contiguous":
        return (ids - 1) // -(-values // processes)
    if dealing == "in turn":
        return (ids - 1) % processes
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)  # splitmix64
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(processes)).astype(np.int64)
