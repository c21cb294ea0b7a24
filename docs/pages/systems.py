"""The tables of systems.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from attribune_lab.benchmark.tables import Line, Summary
from pages import forests
from pages.cells import between, machine_line, measured, table
from pages.experiments import record, score

FAMILIES = {
    "BiLSTM": "_bilstm",
    "NSC": "_nsc",
}  # plain systems, and records of differences to them


HEADS = ("critics", "Amazon", "StudEmo")
WORD_VECTORS = ("CNN", "UPNN", "BiLSTM", "HCSC", "NSC", "HUAPA")


def takeaways() -> list[str]:
    """What the systems show, in sentences."""
    tables = record("ma-bert_small").tables
    older = [[line for line in one.lines if line.name.startswith(WORD_VECTORS)] for one in tables]
    worse = [sum(line.loss is not None and line.loss.low > 0 for line in lines) for lines in older]
    injectors = [line for one in tables for line in one.lines if line.name == "MiniLM, injector"]
    lower = sum(line.loss is not None and line.loss.high < 0 for line in injectors)
    linear = [one.plan.heading for one in tables for line in one.lines if line.name == "linear" and line.better]
    counted = "; ".join(
        f"{count} of {len(lines)} on {one.plan.heading}" for count, lines, one in zip(worse, older, tables, strict=True)
    )
    return [
        "- Although it does not read the attributes, the pretrained MiniLM is shown to have a lower log loss than "
        f"these numbers of systems over word vectors: {counted}.",
        f"- The Injector lowers the log loss of MiniLM on {lower} of {len(tables)} data sets: by "
        f"{', '.join(f'{-line.loss.difference:.3f}' for line in injectors if line.loss is not None)}.",
        f"- A linear model of words and attributes is shown to be more accurate than MiniLM on {' and '.join(linear)}.",
    ]


def losses() -> list[str]:
    """The difference of every system to the reference in log loss."""
    tables = record("ma-bert_small").tables
    found = [{line.name: line for line in one.lines} for one in tables]
    names = [name for name in found[0] if name != tables[0].reference]
    rows = [[name, *(loss_difference(known[name]) for known in found)] for name in names]
    return table(["", *HEADS], rows)


def loss_difference(line: Line | None) -> str:
    """The difference of a setting to the reference in thousandths of log loss."""
    if line is None or line.loss is None:
        return ""
    return between(line.loss.difference, line.loss.low, line.loss.high, scale=1000, places=0, sign="+")


def attributes_alone() -> list[str]:
    """What the attributes add to each plain system, in log loss."""
    rows: list[list[str]] = []
    for base, suffix in FAMILIES.items():
        found = [{line.name: line for line in one.lines} for one in record(f"ma-bert_small{suffix}").tables]
        names = (name for name in found[0] if name.startswith((f"{base},", f"{base}+")))
        rows += [[name, *(loss_difference(known.get(name)) for known in found)] for name in names]
    return table(["", *HEADS], rows)


def time_and_memory() -> list[str]:
    """What a forward pass and a training step of each system cost, as multiples of MiniLM's."""
    found = measured("systems")
    lines = [
        [
            name,
            f"{one['parameters'] / 1e6:.1f}",
            f"{one['predict_ratio']:.2f}",
            f"{one['step_ratio']:.2f}",
            f"{one['step_peak']:,.0f}",
        ]
        for name, one in found["systems"].items()
    ]
    return [machine_line(found), "", *table(["", "million", "predict", "step", "MB"], lines)]


def by_length() -> list[str]:
    """Accuracy by how many tokens of long posts are read."""
    (found,) = Summary.from_dict(measured("long_documents")["accuracy"], source="accuracy").tables
    lines = {tuple(line.name.rsplit(" ", 1)): line for line in found.lines}
    lengths = sorted({int(tokens) for _, tokens in lines})
    ways = list(dict.fromkeys(way for way, _ in lines))
    head = [f"{tokens:,}" for tokens in lengths]
    shown = [[way, *(score(found, lines.get((way, str(tokens)))) for tokens in lengths)] for way in ways]
    return table(["tokens", *head], shown)


DRAWINGS = {"images/systems.svg": lambda: forests.loss_differences(record("ma-bert_small").tables[0])}
TABLES = {
    "systems.md": {
        "takeaways": takeaways,
        "losses": losses,
        "attributes": attributes_alone,
        "time and memory": time_and_memory,
        "by length": by_length,
    }
}
