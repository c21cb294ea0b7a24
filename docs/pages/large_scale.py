"""The tables of large_scale.md, made from benchmarks/results/cluster_on_paper.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pages.cells import facts, measured, table

SHAPES = {"minilm": "MiniLM", "bert-base": "BERT-base"}
NAMES = {
    "distinct": "distinct values of a process",
    "distinct_everywhere": "distinct values of the batch",
    "most_distinct": "distinct values of the process with the most",
    "contiguous": "busiest / mean, contiguous",
    "hashed": "busiest / mean, hashed",
    "in turn": "busiest / mean, in turn",
    "gather_bytes": "bytes, gather",
    "exchange_bytes": "bytes, exchange",
    "compute": "seconds until the last process is ready",
    "gather": "seconds of the table, gather",
    "exchange": "seconds of the table, exchange",
    "step": "seconds of a step, gather",
}


def found() -> dict[str, Any]:
    """The result file."""
    return measured("cluster_on_paper")


def name_of(key: str) -> str:
    """Of a profile."""
    shape, _, kind = key.partition(", ")
    return f"{SHAPES[shape]}, {kind.upper()}"


def steps() -> Iterator[tuple[list[str], dict[str, Any], dict[str, Any]]]:
    """Of each case the first cells, the figures and the profile."""
    result = found()
    for one in result["steps"]:
        yield [name_of(one["profile"]), f"{one['processes']}"], one, result["profiles"][one["profile"]]


def assumptions() -> list[str]:
    """What each kind of process is taken to be."""
    rows = []
    for key, one in found()["profiles"].items():
        rows.append(
            [
                name_of(key),
                f"{one['rows']} x {one['tokens']}",
                f"{one['step']:.3f}",
                f"{one['parameters']:,}",
                f"{one['bandwidth'] / 1e6:,.0f}",
                f"{1e6 * one['latency']:.0f}",
                " to ".join(f"{price:.2f}" for price in one["price"]),
            ]
        )
    head = ["process", "rows x tokens", "step alone, s", "trained", "MB/s", "latency, µs", "$ per hour"]
    return table(head, rows)


def bytes_of_a_step() -> list[str]:
    """What a process sends, by formula, and from which N the table is more than the rest."""
    size, rows = found()["size"], []
    for cells, one, profile in steps():
        above = 1 + 2 * 4 * profile["parameters"] / (one["most_distinct"] * 8 * (1 + size))
        cells.append(f"{one['distinct']:,.0f}, {one['distinct_everywhere']:,.0f}")
        cells += [f"{one[way] / 1e6:.2f}" for way in ("dense_bytes", "gather_bytes", "exchange_bytes")]
        rows.append([*cells, f"{above:,.0f}"])
    head = ["process", "N", "distinct values: one, all", "dense, MB", "gather, MB", "exchange, MB"]
    return table([*head, "gather exceeds dense from N"], rows)


def memory() -> list[str]:
    """Of a process, for a table sharded over N."""
    one, rows = found()["around"], []
    for processes in (1, 8, 64, 512):
        parts = [one[part] / processes / 1e9 for part in ("table_bytes", "state_bytes")]
        every = (*parts, sum(parts), one["vocabulary_bytes"] / 1e9)
        rows.append([f"{processes}", *(f"{part:.2f}" for part in every)])
    return table(["N", "table, GB", "state, GB", "both, GB", "vocabulary, GB"], rows, words=())


def around_it() -> list[str]:
    """Reading, vocabulary and files."""
    one = found()["around"]
    fit = f"{one['fit_seconds'] / 60:.1f} minutes, assuming that time grows linearly with the values"
    return facts(
        [
            ["a billion rows as CSV", f"{one['csv_bytes'] / 1e9:,.0f} GB"],
            ["reading, encoding and tokenizing, one core", f"{one['rows_per_core_second']:,.0f} rows/s"],
            ["a billion rows, once", f"{one['reading_core_hours']:,.0f} core hours"],
            [
                "a billion rows in every process, with two cores",
                f"{one['reading_core_hours'] / 2:,.0f} hours until the first step",
            ],
            ["attributes only, one process", f"{one['attribute_rows_per_second']:,.0f} rows/s"],
            ["fitting the vocabulary, one process, each value seen once", fit],
            ["one value in memory: vector and vocabulary", f"{one['bytes_of_value']:.0f} bytes"],
            ["files of a model", f"{one['file_bytes'] / 1e9:.1f} GB"],
            ["writing them, one process", f"{one['file_bytes'] / one['save_bytes_per_second'] / 60:.1f} minutes"],
            ["reading them, one process", f"{one['file_bytes'] / one['load_bytes_per_second'] / 60:.1f} minutes"],
        ]
    )


def skew() -> list[str]:
    """How unevenly the processes are asked, simulated and by formula."""
    dealings = ("contiguous", "hashed", "in turn")
    rows = []
    for one in found()["skew"]:
        cells = [name_of(one["profile"]), f"{one['processes']}", f"{one['exponent']}"]
        cells += [f"{one['first_share']:.1%}", f"{one['asked_of_hot']:.0%}"]
        cells.append("{:,.0f} ({:,.0f})".format(*one["distinct"]))
        rows.append([*cells, *("{:.2f} ({:.2f})".format(*one[dealing]) for dealing in dealings)])
    return table(["process", "N", "exponent", "top value", "hot lookups", "distinct values", *dealings], rows)


def rare() -> list[str]:
    """How many values have how many rows."""
    by_exponent: dict[float, list[dict[str, Any]]] = {}
    for one in found()["rare"]:
        by_exponent.setdefault(one["exponent"], []).append(one)
    first, *others = (one["least"] for one in next(iter(by_exponent.values())))
    rows = [
        [f"{exponent}", *(f"{one['values']:,} ({one['share']:.0%})" for one in mine)]
        for exponent, mine in by_exponent.items()
    ]
    head = ["exponent", f"at least {first} rows: values", *(f"at least {least}" for least in others)]
    return table(head, rows, words=())


def seconds_of_a_step() -> list[str]:
    """Simulated parts of a step."""
    rows = []
    for cells, one, profile in steps():
        parts = (one[part] for part in ("compute", "dense", "gather", "exchange", "step", "step_by_formula"))
        cells += [f"{1e3 * part:,.1f}" for part in parts]
        rows.append([*cells, f"{profile['step'] / one['step']:.0%}"])
    head = ["process", "N", "compute, ms", "dense, ms", "gather, ms", "exchange, ms", "step, ms", "by formula"]
    return table([*head, "efficiency"], rows)


def hours() -> list[str]:
    """Of one epoch."""
    every, rows = found()["rows"], []
    for cells, one, profile in steps():
        processes = one["processes"]
        at_once = processes * profile["rows"]
        span = every / at_once * one["step"] / 3600
        units = span * processes * (profile["cores"] or 1)
        costs = " to ".join(_rounded(span * processes * price) for price in profile["price"])
        rows.append([*cells, f"{at_once:,}", *map(_rounded, (at_once / one["step"], span, units)), costs])
    return table(["process", "N", "rows per step", "rows/s", "hours", "core or GPU hours", "US dollars"], rows)


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def differences() -> list[str]:
    """The simulation over the formulas."""
    rows = []
    for key, name in NAMES.items():
        one = found()["differences"][key]
        where = one["where"]
        place = f"{name_of(where['profile'])}, N = {where['processes']}, exponent {where['exponent']}"
        rows.append([name, f"{one['median']:.3f}", f"{one['worst']:.3f}", place])
    return table(["simulated / by formula", "median", "furthest from 1", "where"], rows)


def law() -> list[str]:
    """Draws against Zipf's law."""
    rows = [
        [exponent, f"{one['chi_squared']:.1f}", f"{one['degrees']}", f"{one['distinct_of_exact']:.9f}"]
        for exponent, one in found()["law"].items()
    ]
    head = ["exponent", "chi squared of 1,000,000 draws", "degrees of freedom"]
    return table([*head, "distinct values, formula / exact sum"], rows, words=())


def two_processes() -> list[str]:
    """The case that was measured, beside its simulation."""
    one = found()["two_processes"]
    return facts(
        [
            ["one process, 32 rows: step", f"{1e3 * one['one_seconds']:,.0f} ms"],
            ["two processes, 16 rows each: step, measured", f"{1e3 * one['two_seconds']:,.0f} ms"],
            ["two processes that exchange nothing: step of the slower", f"{1e3 * one['alone_seconds']:,.0f} ms"],
            ["all-reduce between two processes", f"{one['bytes_per_second'] / 1e6:,.0f} MB/s"],
            ["bytes of dense, of gather", f"{one['dense_bytes'] / 1e6:.1f} MB, {one['gather_bytes'] / 1e3:.0f} kB"],
            ["two processes, on paper", f"{1e3 * one['paper_seconds']:,.0f} ms"],
            ["measured / on paper", f"{one['measured_over_paper']:.2f}"],
            ["memory that each of two processes saves, measured", f"{one['saved_megabytes']:,.0f} MB"],
            ["half of the table, on paper", f"{one['paper_saved_megabytes']:,.0f} MB"],
        ]
    )


TABLES = {
    "large_scale.md": {
        "assumptions": assumptions,
        "bytes": bytes_of_a_step,
        "memory": memory,
        "around": around_it,
        "skew": skew,
        "rare": rare,
        "steps": seconds_of_a_step,
        "hours": hours,
        "differences": differences,
        "law": law,
        "two processes": two_processes,
    },
}
