"""The tables of systems.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from pages.cells import machine_line, measured, table
from pages.experiments import difference, record, scores

FAMILIES = {
    "MiniLM": "",
    "BiLSTM": "_bilstm",
    "NSC": "_nsc",
}  # plain systems, and records of differences to them


def with_and_without() -> list[str]:
    """All systems on all sets."""
    return scores("ma-bert_small")


def attributes_alone() -> list[str]:
    """What the attributes add to each plain system."""
    lines, head = [], [""]
    for base, suffix in FAMILIES.items():
        tables = record(f"ma-bert_small{suffix}").tables
        head = ["", "against", *(f"{one.plan.heading}, {one.metric}" for one in tables)]
        found = [{line.name: line for line in one.lines} for one in tables]
        names = [line.name for line in tables[0].lines if line.name.startswith((f"{base},", f"{base}+"))]
        lines += [
            [name, base, *(difference(one, known.get(name)) for one, known in zip(tables, found, strict=True))]
            for name in names
        ]
    return table(head, lines, words=(0, 1))


def time_and_memory() -> list[str]:
    """What a pass of each system takes beside MiniLM."""
    found = measured("systems")
    lines = [
        [
            name,
            f"{one['parameters'] / 1e6:.1f}",
            f"{one['predict_ms']:,.0f}",
            f"{one['predict_ratio']:.2f}",
            f"{one['step_ms']:,.0f}",
            f"{one['step_ratio']:.2f}",
            f"{one['step_peak']:,.0f}",
        ]
        for name, one in found["systems"].items()
    ]
    head = ["", "million parameters", "predict, ms", "of MiniLM's", "training step, ms", "of MiniLM's", "MB of a step"]
    return [machine_line(found), "", *table(head, lines)]


def longer() -> list[str]:
    """Four times the steps on one set."""
    return scores("systems_longer")


TABLES = {
    "systems.md": {
        "with and without": with_and_without,
        "attributes": attributes_alone,
        "time and memory": time_and_memory,
        "longer": longer,
    }
}
