"""The tables of serving.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pages.cells import RESULTS, machine_line, measured, table


def serving() -> list[str]:
    """Throughput and latency under load, for every setting that was measured."""
    found = [measured(path.stem) for path in sorted(RESULTS.glob("serving*.json"))]
    rows = []
    for one in found:
        users = f", {one['users']:,} users" if one.get("users") else ""
        times = one["milliseconds"]["one text"]
        rows.append(
            [
                f"{one['precision']}{users}",
                f"{one['of_predict']:.2f}",
                f"{in_lots(one):.2f}",
                f"{times['p50'] / 1000:.1f} / {times['p99'] / 1000:.1f}",
            ]
        )
    head = ["run", "of `predict`", "small batches", "p50 / p99, s"]
    return [machine_line(found[0]), "", *table(head, rows)]


def in_lots(one: Mapping[str, Any]) -> float:
    """The share of the throughput of `predict` in batches like the service's, of older records too."""
    if "of_predict_in_lots" in one:
        return float(one["of_predict_in_lots"])
    rates = one["predict_in_lots"]["texts_per_second"]
    return float(one["texts_per_second"]) * len(rates) / sum(rates)


def many_tasks() -> list[str]:
    """Throughput and memory of nine runs over one backbone."""
    found = measured("many_tasks")
    cases = {"mixed": "shared batches", "one run": "all for one run", "apart": "run by run"}
    cases |= {"plain": "backbone alone", "bare": "bare transformers"}
    kinds = ("all texts", f"{found['lot']} texts at a time")
    rows = [
        [name, *(f"{found[kind]['texts_per_second'][case]:,.0f}" for kind in kinds)]
        for case, name in cases.items()
        if case in found[kinds[0]]["texts_per_second"]
    ]
    memory = ", ".join(f"{name} {size:,.0f}" for name, size in found["megabytes"].items())
    return [
        machine_line(found),
        "",
        *table(["texts/s", "all at once", f"{found['lot']} at a time"], rows),
        "",
        f"Memory in MB: {memory}.",
    ]


TABLES = {"serving.md": {"serving": serving, "many tasks": many_tasks}}
