"""The tables of large_scale.md, made from benchmarks/results/cluster_on_paper.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "benchmarks" / "results" / "cluster_on_paper.json"
MIDDLE = 1.0  # the exponent of tables that have one
NAMES = {
    "distinct": "distinct values of a process",
    "distinct_everywhere": "distinct values of the batch",
    "most_distinct": "of the process with most",
    "imbalance contiguous": "busiest over mean, contiguous",
    "imbalance hashed": "busiest over mean, hashed",
    "imbalance in turn": "busiest over mean, in turn",
    "gather_bytes": "bytes, gather",
    "exchange_bytes": "bytes, exchange",
    "compute": "seconds until the last process is ready",
    "gather": "seconds of the table, gather",
    "exchange in turn": "seconds of the table, exchange",
    "whole_gather": "seconds of a step, gather",
}


def found() -> dict[str, Any]:
    """The result file."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def table(head: list[str], rows: list[list[str]], *, words: int = 1) -> list[str]:
    """Lines of a table whose first columns are words and the others numbers."""
    rule = ["---" if number < words else "---:" for number in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def name_of(key: str) -> str:
    """Of a profile."""
    shape, _, kind = key.partition(", ")
    return f"{ {'minilm': 'MiniLM', 'bert-base': 'BERT-base'}[shape] }, {kind.upper()}"


def assumptions() -> list[str]:
    """What each kind of process is taken to be."""
    head = ["process", "rows x tokens", "alone, s", "from", "trained", "MB/s", "latency, µs", "$ an hour"]
    rows = []
    for key, one in found()["profiles"].items():
        low, high = one["step_range"]
        rows.append(
            [
                name_of(key),
                f"{one['rows']} x {one['tokens']}",
                f"{one['step']:.3f}",
                "measured" if low == high else f"assumed, {low:.3f} to {high:.3f}",
                f"{one['parameters']:,}",
                f"{one['bandwidth'] / 1e6:,.0f}",
                f"{1e6 * one['latency']:.0f}",
                " to ".join(f"{price:.2f}" for price in one["price"]),
            ]
        )
    return table(head, rows)


def bytes_of_a_step() -> list[str]:
    """What a process sends, by formula, and from when on the table is more than the rest."""
    result = found()
    size = result["size"]
    head = [
        "process",
        "N",
        "distinct, of N rows",
        "dense, MB",
        "gather, MB",
        "exchange, MB",
        "gather above dense from N",
    ]
    rows = []
    for one in cases(MIDDLE):
        figures, profile = one["formula"], result["profiles"][one["profile"]]
        above = 1 + 2 * 4 * profile["parameters"] / (figures["most_distinct"] * 8 * (1 + size))
        rows.append(
            [
                name_of(one["profile"]),
                f"{one['processes']}",
                f"{figures['distinct']:,.0f}, {figures['distinct_everywhere']:,.0f}",
                *(f"{figures[way] / 1e6:.2f}" for way in ("dense_bytes", "gather_bytes", "exchange_bytes")),
                f"{above:,.0f}",
            ]
        )
    return table(head, rows)


def cases(exponent: float) -> list[dict[str, Any]]:
    """Those of one exponent."""
    return [one for one in found()["cases"] if one["exponent"] == exponent]


def memory() -> list[str]:
    """Of a process, for a table dealt out to N."""
    result = found()
    around = result["around"]
    head = ["N", "table, GB", "state, GB", "both, GB", "vocabulary, GB"]
    rows = []
    for processes in (1, 8, 64, 512):
        parts = [around[part] / processes / 1e9 for part in ("table_bytes", "state_bytes")]
        rows.append(
            [f"{processes}", *(f"{part:.2f}" for part in (*parts, sum(parts), around["vocabulary_bytes"] / 1e9))]
        )
    return table(head, rows, words=0)


def around_it() -> list[str]:
    """Reading, vocabulary and files."""
    one = found()["around"]
    rows = [
        ["a billion rows as CSV", f"{one['csv_bytes'] / 1e9:,.0f} GB"],
        ["reading, encoding and tokenising, a core", f"{one['rows_per_core_second']:,.0f} rows/s"],
        ["the billion", f"{one['reading_core_hours']:,.0f} core hours"],
        [
            "the billion in every process, with two cores",
            f"{one['reading_core_hours'] / 2:,.0f} hours until the first step",
        ],
        ["the attributes alone, one process", f"{one['attribute_rows_per_second']:,.0f} rows/s"],
        [
            "fitting the vocabulary, each value seen once, one process",
            f"{one['fit_seconds'] / 60:.1f} minutes, if ten times the values take ten times as long",
        ],
        ["a value in memory: vector, vocabulary", f"{one['bytes_of_value']:.0f} bytes"],
        ["a model's files", f"{one['file_bytes'] / 1e9:.1f} GB"],
        ["written by one process", f"{one['file_bytes'] / one['save_bytes_per_second'] / 60:.1f} minutes"],
        ["read by one process", f"{one['file_bytes'] / one['load_bytes_per_second'] / 60:.1f} minutes"],
    ]
    return table(["", ""], rows, words=2)


def skew() -> list[str]:
    """How unevenly the processes are asked, simulated and by formula."""
    head = ["process", "N", "exponent", "first", "asked of hot", "distinct", "contiguous", "hashed", "in turn"]
    rows = []
    for one in found()["cases"]:
        if one["profile"].startswith("minilm") and one["processes"] >= 64:
            ours, theirs = one["formula"], one["simulated"]
            rows.append(
                [
                    name_of(one["profile"]),
                    f"{one['processes']}",
                    f"{one['exponent']}",
                    f"{one['first_share']:.1%}",
                    f"{one['asked_of_hot']:.0%}",
                    f"{theirs['distinct']:,.0f} ({ours['distinct']:,.0f})",
                    *(f"{theirs['imbalance'][way]:.2f} ({ours['imbalance'][way]:.2f})" for way in ours["imbalance"]),
                ]
            )
    return table(head, rows)


def rare() -> list[str]:
    """How many values have how many rows."""
    found_rare = found()["rare"]
    least = sorted({one["least"] for one in found_rare})
    head = ["exponent", *(f"at least {number} rows: values" if number == least[0] else f"{number}" for number in least)]
    rows = []
    for exponent in sorted({one["exponent"] for one in found_rare}):
        mine = [one for one in found_rare if one["exponent"] == exponent]
        rows.append([f"{exponent}", *(f"{one['values']:,} ({one['share']:.0%})" for one in mine)])
    return table(head, rows, words=0)


def seconds_of_a_step() -> list[str]:
    """Simulated parts of a step."""
    head = [
        "process",
        "N",
        "compute, ms",
        "dense, ms",
        "gather, ms",
        "exchange, ms",
        "step, ms",
        "by formula",
        "efficiency",
    ]
    rows = []
    profiles = found()["profiles"]
    for one in cases(MIDDLE):
        step = one["simulated"]
        parts = (step["compute"], step["dense"], step["gather"], step["exchange"]["in turn"], step["whole_gather"])
        rows.append(
            [
                name_of(one["profile"]),
                f"{one['processes']}",
                *(f"{1e3 * part:,.1f}" for part in (*parts, one["formula"]["whole_gather"])),
                f"{profiles[one['profile']]['step'] / step['whole_gather']:.0%}",
            ]
        )
    return table(head, rows)


def hours() -> list[str]:
    """Of one pass over all rows."""
    result = found()
    head = ["process", "N", "rows a step", "rows/s", "hours", "core or GPU hours", "US dollars"]
    rows = []
    for one in cases(MIDDLE):
        profile, step = result["profiles"][one["profile"]], one["simulated"]
        at_once = one["processes"] * profile["rows"]
        network = step["whole_gather"] - step["compute"]
        ends = [network + step["compute"] * end / profile["step"] for end in profile["step_range"]]
        spans = [result["rows"] / at_once * end / 3600 for end in ends]
        units = [span * one["processes"] * (profile["cores"] or 1) for span in spans]
        costs = [span * one["processes"] * price for span, price in zip(spans, profile["price"], strict=True)]
        rows.append(
            [
                name_of(one["profile"]),
                f"{one['processes']}",
                f"{at_once:,}",
                _span([at_once / end for end in reversed(ends)]),
                _span(spans),
                _span(units),
                _span(costs),
            ]
        )
    return table(head, rows)


def _span(ends: list[float]) -> str:
    texts = [f"{end:,.0f}" if end >= 10 else f"{end:.1f}" for end in ends]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def differences() -> list[str]:
    """The simulation over the formulas."""
    head = ["simulated / by formula", "median", "furthest", "where"]
    rows = []
    for key, name in NAMES.items():
        one = found()["differences"][key]
        where = one["where"]
        place = f"{name_of(where['profile'])}, N = {where['processes']}, exponent {where['exponent']}"
        rows.append([name, f"{one['median']:.3f}", f"{one['worst']:.3f}", place])
    return table(head, rows)


def law() -> list[str]:
    """Draws against Zipf's law."""
    head = ["exponent", "chi squared of 1,000,000 draws", "degrees of freedom", "distinct values, formula / exact sum"]
    rows = [
        [exponent, f"{one['chi_squared']:.1f}", f"{one['degrees']}", f"{one['distinct_of_exact']:.9f}"]
        for exponent, one in found()["law"].items()
    ]
    return table(head, rows, words=0)


def two_processes() -> list[str]:
    """The case that was measured, beside its simulation."""
    one = found()["two_processes"]
    if "skipped" in one:
        return ["Not measured yet."]
    rows = [
        ["a step of one process, 32 rows", f"{1e3 * one['one_seconds']:,.0f} ms"],
        ["of two, 16 rows each, measured", f"{1e3 * one['two_seconds']:,.0f} ms"],
        ["of two that share nothing, the slower", f"{1e3 * one['alone_seconds']:,.0f} ms"],
        ["all-reduce between them", f"{one['bytes_per_second'] / 1e6:,.0f} MB/s"],
        ["dense, gather", f"{one['dense_bytes'] / 1e6:.1f} MB, {one['gather_bytes'] / 1e3:.0f} kB"],
        ["of two, on paper", f"{1e3 * one['paper_seconds']:,.0f} ms"],
        ["measured / on paper", f"{one['measured_over_paper']:.2f}"],
        ["less memory in each of two, half of the rows among it", f"{one['saved_megabytes']:,.0f} MB"],
        ["half of the table, on paper", f"{one['paper_saved_megabytes']:,.0f} MB"],
    ]
    return table(["", ""], rows, words=2)


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
