"""A cluster on paper: what it is assumed to be, and closed formulas for a training step on it.

Symbols: N processes, b rows of each in a step, Z numbers of a vector, P trained parameters beside the tables, p_v the
share of value v among the rows, ``q_v = 1 - (1 - p_v)^b`` how likely it is among b rows, u the sum of all q_v: the
distinct values of a process. Times are in seconds, sizes in bytes; what a process sends counts, ids are 8 bytes and
numbers 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from scipy.stats import norm
from zipf import Array, Zipf, seen

ID, NUMBER = 8, 4
Dealing = Literal["contiguous", "hashed", "in turn"]
DEALINGS: tuple[Dealing, ...] = get_args(Dealing)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A kind of process and its work.

    Args:
        name: in tables.
        rows: b.
        tokens: of a row.
        step: seconds of a step of a process by itself.
        step_range: of its assumption; both the same where it was measured.
        parameters: P.
        bandwidth: bytes per second that a process sends, while others of its node send too.
        latency: seconds of a message.
        noise: standard deviation of the logarithm of a step's time.
        pauses: probability that a process stops, in one step, for as long as a step.
        cores: of a process; 0 where it has a GPU.
        price: of an hour of the process, from and to, in US dollars.
        processes: N, those that are looked at.
    """

    name: str
    rows: int
    tokens: int
    step: float
    step_range: tuple[float, float]
    parameters: int
    bandwidth: float
    latency: float
    noise: float
    pauses: float
    cores: int
    price: tuple[float, float]
    processes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a step comes to, by formula or by simulation.

    Args:
        distinct: u, of a process.
        distinct_everywhere: of the whole batch.
        most_distinct: of the process that has most.
        imbalance: for each way of dealing rows out, the vectors asked of the busiest process over the mean.
        dense_bytes: of the all-reduce of P gradients.
        gather_bytes: of all ids to all, vectors summed and scattered, gradients to all.
        exchange_bytes: of each id to its owner alone, the vector back and the gradient there, on average.
        compute: until the last process is ready.
        dense: of the all-reduce.
        gather: of the first way.
        exchange: of the second, for each way of dealing rows out.
    """

    distinct: float
    distinct_everywhere: float
    most_distinct: float
    imbalance: dict[Dealing, float]
    dense_bytes: float
    gather_bytes: float
    exchange_bytes: float
    compute: float
    dense: float
    gather: float
    exchange: dict[Dealing, float]

    @property
    def whole_gather(self) -> float:
        """Seconds of a step in which nothing overlaps, tables by the first way."""
        return self.compute + self.dense + self.gather

    @property
    def whole_exchange(self) -> float:
        """The same by the second way, rows dealt out in turn."""
        return self.compute + self.dense + self.exchange["in turn"]


def largest(processes: int) -> float:
    """The expected largest of so many standard normal numbers (Blom's approximation)."""
    return float(norm.ppf((processes - 0.375) / (processes + 0.25))) if processes > 1 else 0.0


def by_formula(profile: Profile, processes: int, law: Zipf, size: int) -> Step:
    """A step of the closed formulas.

    Args:
        profile: of the processes.
        processes: N.
        law: the values.
        size: Z.
    """
    b, z = profile.rows, largest(processes)
    u = law.distinct(b)
    most = min(b, u + z * math.sqrt(distinct_variance(law, b)))
    imbalance = {dealing: imbalance_of(dealing, law, b, processes) for dealing in DEALINGS}
    compute = profile.step * math.exp(profile.noise * z - profile.noise**2 / 2)
    compute += profile.step * -math.expm1(processes * math.log1p(-profile.pauses))
    return timed(
        profile,
        processes,
        size,
        distinct=u,
        distinct_everywhere=law.distinct(b * processes),
        most_distinct=most,
        imbalance=imbalance,
        compute=compute,
    )


def timed(
    profile: Profile,
    processes: int,
    size: int,
    *,
    distinct: float,
    distinct_everywhere: float,
    most_distinct: float,
    imbalance: dict[Dealing, float],
    compute: float,
) -> Step:
    """Bytes, and seconds by latency and bandwidth: rings for what all must have, pairs for what has one owner."""
    others, of_value = processes - 1, ID + 2 * NUMBER * size
    dense = 2 * others / processes * NUMBER * profile.parameters
    gather = others * most_distinct * of_value
    exchange = others / processes * distinct * of_value
    return Step(
        distinct=distinct,
        distinct_everywhere=distinct_everywhere,
        most_distinct=most_distinct,
        imbalance=imbalance,
        dense_bytes=dense,
        gather_bytes=gather,
        exchange_bytes=exchange,
        compute=compute,
        dense=2 * others * profile.latency + dense / profile.bandwidth,
        gather=3 * others * profile.latency + gather / profile.bandwidth,
        exchange={
            dealing: 3 * others * profile.latency + exchange * busiest / profile.bandwidth
            for dealing, busiest in imbalance.items()
        },
    )


def distinct_variance(law: Zipf, draws: int) -> float:
    """Of the number of distinct values among so many draws."""
    spread = law.total(lambda share: seen(share, draws) * (1 - seen(share, draws)))
    once = law.total(lambda share: share * (1 - share) ** (draws - 1))
    return max(spread - draws * once**2, 0.0)


def imbalance_of(dealing: Dealing, law: Zipf, draws: int, processes: int) -> float:
    """Vectors asked of the busiest process over the mean, which is u.

    Value v is asked for by N q_v processes. Contiguous: the first process has the first V / N values. In turn: it has
    value 1 and every Nth after it, or another has the luck of the batch. Hashed: either an unlucky draw of values,
    normal with the variance of the sum, or whoever has value 1.
    """

    def q(share: Array) -> Array:
        return seen(share, draws)

    mean = law.total(q)
    first = law.total(q, 1)
    if dealing == "contiguous":
        return processes * law.total(q, law.values // processes) / mean
    chance = largest(processes)
    if dealing == "in turn":
        rest = mean - law.total(q, min(processes, law.values))
        by_chance = mean + chance * math.sqrt(law.total(lambda share: q(share) * (1 - q(share))))
        return max(by_chance, processes * first + rest) / mean
    variance = law.total(lambda share: q(share) + (processes - 2) * q(share) ** 2)
    return max(mean + chance * math.sqrt(variance), processes * first + mean - first) / mean
