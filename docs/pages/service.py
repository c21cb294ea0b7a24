"""The tables of serving.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pages.cells import RESULTS, machine_line, measured, table


def serving() -> list[str]:
    """Throughput, latency and memory under load, for every setting that was measured."""
    found = [measured(path.stem) for path in sorted(RESULTS.glob("serving*.json"))]
    machine = found[0]["machine"]
    head = ["precision of run, of backbone", "minutes", "requests", "errors", "texts/s"]
    head += ["fraction of `predict`", "fraction of `predict` in small batches"]
    shares = {"fraction of the bare model": "of_bare", "`predict`: fraction of the bare model": "predict_of_bare"}
    shares = {name: key for name, key in shares.items() if any(key in one for one in found)}
    head += [*shares]
    head += ["p50 / p99 for one text, ms", "p50 / p99 for several, ms", "MB in second fifth, in last fifth"]
    rows = []
    for one in found:
        errors = sum(count for status, count in one["statuses"].items() if status != "200")
        times = [one["milliseconds"][kind] for kind in ("one text", "several")]
        users = f", {one['users']:,} users" if one.get("users") else ""
        if one["machine"] != machine:
            users += f" (on {one['machine']['processor']})"
        rows.append(
            [
                f"{one['precision']}, {one['dtype']}{users}",
                f"{one['seconds'] / 60:.0f}",
                f"{one['requests']:,}",
                f"{errors:,}",
                f"{one['texts_per_second']:,.0f}",
                f"{one['of_predict']:.2f}",
                f"{in_lots(one):.2f}",
                *(f"{one[key]:.2f}" if key in one else "" for key in shares.values()),
                *(f"{kind['p50']:,.0f} / {kind['p99']:,.0f}" for kind in times),
                f"{one['megabytes']['second_fifth']:,.0f}, {one['megabytes']['last_fifth']:,.0f}",
                f"{one['largest_difference']:.0e}",
            ]
        )
    return [
        f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}; MiniLM with an Injector and "
        "PLN, film snippets. Half of the requests contain one text; a fifth of the films are unknown and a fifth "
        "missing.",
        "",
        *table([*head, "largest difference from `predict`"], rows),
        *first_and_later(found),
    ]


def in_lots(one: Mapping[str, Any]) -> float:
    """The share of the throughput of `predict` in batches like the service's, of older records too."""
    if "of_predict_in_lots" in one:
        return float(one["of_predict_in_lots"])
    rates = one["predict_in_lots"]["texts_per_second"]
    return float(one["texts_per_second"]) * len(rates) / sum(rates)


def first_and_later(measured: Sequence[Mapping[str, Any]]) -> list[str]:
    """Times of texts whose user is asked for once and the first time, and of those that follow Zipf's law."""
    rows = []
    for one in measured:
        for phase, figures in (("first", one.get("cold")), ("later", one)) if "cold" in one else ():
            times = (figures["milliseconds"][kind] for kind in ("one text", "several"))
            cells = (" / ".join(f"{kind[place]:,.0f}" for place in ("p50", "p95", "p99")) for kind in times)
            name = f"{one['precision']}, {one['dtype']}, {one['users']:,} users, {phase}"
            rows.append([name, f"{figures['texts_per_second']:,.0f}", *cells])
    if not rows:
        return []
    head = ["precision of run, of backbone", "texts/s", "p50 / p95 / p99 for one text, ms", "for several, ms"]
    return [
        "",
        "In settings with users, each text belongs to one of them: *first*, each user occurs once; *later*, users "
        "follow Zipf's law.",
        "",
        *table(head, rows),
    ]


def many_tasks() -> list[str]:
    """Throughput and memory of nine runs over one backbone."""
    found = measured("many_tasks")
    cases = {"mixed": "shared batches", "one run": "all texts for one run", "apart": "run by run"}
    cases |= {"plain": "backbone alone", "bare": "the bare transformers model"}
    kinds = ("all texts", f"{found['lot']} texts at a time")
    rows = []
    for case, name in cases.items():
        if case not in found[kinds[0]]["texts_per_second"]:
            continue
        rates = (f"{found[kind]['texts_per_second'][case]:,.0f}" for kind in kinds)
        ratios = (f"{found[kind]['mixed_by'][case]:.2f}" if case != "mixed" else "" for kind in kinds)
        rows.append([name, *(cell for pair in zip(rates, ratios, strict=True) for cell in pair)])
    head = ["texts/s", *(word for kind in kinds for word in (kind, "speed of shared batches relative to it"))]
    return [
        f"{machine_line(found)} MiniLM, {found['runs']} adapters of size 64 with their own layer norms, "
        f"{found['texts']:,} film snippets. The largest difference from `predict` "
        f"is {found['difference']:.0e}.",
        "",
        *table(head, rows),
        "",
        *table(["memory", "MB"], [[name, f"{size:,.0f}"] for name, size in found["megabytes"].items()]),
    ]


TABLES = {"serving.md": {"serving": serving, "many tasks": many_tasks}}
