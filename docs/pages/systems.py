"""The tables of systems.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from pages.cells import table
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


def longer() -> list[str]:
    """Four times the steps on one set."""
    return scores("systems_longer")


TABLES = {
    "systems.md": {
        "with and without": with_and_without,
        "attributes": attributes_alone,
        "longer": longer,
    }
}
