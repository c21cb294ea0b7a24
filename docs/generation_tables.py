"""The tables of generation.md, made from the file of benchmarks/generation.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent.parent / "benchmarks" / "results" / "generation.json"


def ends(found: dict[str, Any], scale: float = 1.0, places: int = 2) -> str:
    """A figure with its interval."""
    value, low, high = (f"{scale * found[name]:.{places}f}" for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def quotes() -> list[str]:
    """Perplexity and recognised verdicts of every seed."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    rows, cool = found["rows"], found["temperatures"]["cool"]
    lines = [
        f"{rows['train']:,} quotes to learn from, {rows['validation']:,} to validate. The judge learned from "
        f"{rows['rest']:,} others,",
        f"and is right about {ends(found['judge'], 100, 1)} % of the real ones to validate.",
        "",
        "| seed | perplexity | attributes hidden | difference | verdict recognised, temperature 1, % | "
        f"temperature {cool}, % |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found["seeds"]:
        given, hidden = one["perplexity"].values()
        (pair,) = one["comparisons"]
        difference = ends({"value": pair["difference"], **{end: pair[end] for end in ("low", "high")}})
        shares = [ends(one["recognised"][key], 100, 1) for key in ("warm", "cool")]
        lines.append(f"| {one['seed']} | {ends(given)} | {ends(hidden)} | {difference} | {' | '.join(shares)} |")
    pooled = [ends(found["recognised"][key], 100, 1) for key in ("warm", "cool")]
    lines.append(f"| all | | | | {' | '.join(pooled)} |")
    lines += [
        "",
        "Drawn at the lower temperature, by the first seed:",
        "",
        "| verdict | critic | quote |",
        "|---|---|---|",
    ]
    for row in found["seeds"][0]["quotes"]:
        lines.append(f"| {row['fresh']} | {row['critic']} | {row['quote'].replace('|', '/')} |")
    return lines


TABLES = {"generation.md": {"quotes": quotes}}
