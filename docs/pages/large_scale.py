"""The tables of large_scale.md, made from benchmarks/results/cluster_on_paper.json."""

from __future__ import annotations

from typing import Any

from pages.cells import measured, table

SHAPES = {"minilm": "MiniLM", "bert-base": "BERT-base"}


def found() -> dict[str, Any]:
    """The result file."""
    return measured("cluster_on_paper")


def name_of(key: str) -> str:
    """Of a profile."""
    shape, _, kind = key.partition(", ")
    return f"{SHAPES[shape]}, {kind.upper()}"


def assumptions() -> list[str]:
    """What each kind of process is taken to be."""
    rows = [
        [
            name_of(key),
            f"{one['rows']} x {one['tokens']}",
            f"{one['step']:.3f}",
            " to ".join(f"{price:.2f}" for price in one["price"]),
        ]
        for key, one in found()["profiles"].items()
    ]
    return table(["process", "rows x tokens", "step, s", "$ per hour"], rows)


def skew() -> list[str]:
    """How unevenly the processes are asked with exponent 1, simulated."""
    ways = ("contiguous", "hashed", "in turn")
    rows = [
        [f"{name_of(one['profile'])}, {one['processes']}", *(f"{one[way][0]:.1f}" for way in ways)]
        for one in found()["skew"]
        if one["exponent"] == 1.0
    ]
    return table(["processes", *ways], rows)


def rare() -> list[str]:
    """How many values have how many rows."""
    by_exponent: dict[float, list[dict[str, Any]]] = {}
    for one in found()["rare"]:
        if one["least"] > 2:
            by_exponent.setdefault(one["exponent"], []).append(one)
    rows = [
        [f"{exponent}", *(f"{one['values'] / 1e6:.1f} ({one['share']:.0%})" for one in mine)]
        for exponent, mine in by_exponent.items()
    ]
    heads = (f"{one['least']} rows" for one in next(iter(by_exponent.values())))
    return table(["exponent", *heads], rows, words=())


def hours() -> list[str]:
    """Of one epoch, with the efficiency of its steps."""
    result, rows = found(), []
    for one in result["steps"]:
        profile = result["profiles"][one["profile"]]
        processes = one["processes"]
        span = result["rows"] / (processes * profile["rows"]) * one["step"] / 3600
        costs = " to ".join(_rounded(span * processes * price) for price in profile["price"])
        efficiency = f"{profile['step'] / one['step']:.0%}"
        rows.append([name_of(one["profile"]), f"{processes}", efficiency, _rounded(span), costs])
    return table(["process", "N", "efficiency", "hours", "US dollars"], rows)


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


TABLES = {"large_scale.md": {"assumptions": assumptions, "skew": skew, "hours": hours, "rare": rare}}
