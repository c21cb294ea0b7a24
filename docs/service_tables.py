"""The tables of serving.md and people.md, made from the files in benchmarks/results/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
NOT_YET = "Not measured yet: `python benchmarks/{}.py` does it."


def serving() -> list[str]:
    """Throughput, times and memory under load, of every way it was measured."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("serving*.json"))]
    if not found:
        return [NOT_YET.format("serving")]
    machine = found[0]["machine"]
    lines = [
        f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}; MiniLM with an Injector and "
        "PLN, film snippets, half of the requests with one text, a fifth of the films unknown and a fifth missing.",
        "",
        "| run in, backbone in | minutes | requests | errors | texts/s | of bare | of bare in lots | "
        "p50 / p99, one text, ms | "
        "p50 / p99, several, ms | "
        "MB in the second fifth, in the last | largest difference to `predict` |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found:
        errors = sum(count for status, count in one["statuses"].items() if status != "200")
        lots = one.get("bare_in_lots")
        times = [one["milliseconds"][kind] for kind in ("one text", "several")]
        cells = [
            f"{one['precision']}, {one['dtype']}",
            f"{one['seconds'] / 60:.0f}",
            f"{one['requests']:,}",
            f"{errors:,}",
            f"{one['texts_per_second']:,.0f}",
            f"{one['of_bare']:.2f}",
            f"{one['texts_per_second'] / np.mean(lots['texts_per_second']):.2f}" if lots else "",
            *(f"{kind['p50']:,.0f} / {kind['p99']:,.0f}" for kind in times),
            f"{one['megabytes']['second_fifth']:,.0f}, {one['megabytes']['last_fifth']:,.0f}",
            f"{one['largest_difference']:.0e}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def enrolment() -> list[str]:
    """What a few rows teach of a critic."""
    path = RESULTS / "enrolment.json"
    if not path.is_file():
        return [NOT_YET.format("enrolment")]
    found = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        f"{found['held']} critics who were not among the {found['training_rows']:,} training rows "
        f"({found['epochs']} epochs), {found['scored_rows']:,} of their quotes. Differences are to *unknown*, with "
        "95 % intervals.",
        "",
        "| critic | accuracy | difference, points | log-loss | difference | seconds per critic |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in found["rows"].items():
        seconds = found["seconds_per_value"].get(name)
        cells = [name, *_figures(row["accuracy"], scale=100), *_figures(row["log_loss"], scale=1)]
        if name == "unknown":
            cells[2] = cells[4] = ""
        lines.append(f"| {' | '.join(cells)} | {'' if seconds is None else f'{seconds:.2f}'} |")
    return lines


def _figures(row: dict[str, Any], *, scale: float) -> list[str]:
    places = 1 if scale > 1 else 3
    change, low, high = (scale * value for value in row["against_unknown"])
    return [f"{scale * row['value'][0]:.{places}f}", f"{change:+.{places}f} [{low:+.{places}f}, {high:+.{places}f}]"]


TABLES = {"serving.md": {"serving": serving}, "people.md": {"enrolment": enrolment}}
