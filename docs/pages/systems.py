"""The tables of systems.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from attribune.metrics.tables import format_difference, format_value
from attribune_lab.benchmark.tables import Line, Summary
from pages import forests
from pages.cells import machine_line, measured, table
from pages.experiments import difference, record, score, scores

FAMILIES = {
    "MiniLM": "",
    "BiLSTM": "_bilstm",
    "NSC": "_nsc",
}  # plain systems, and records of differences to them


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


def with_and_without() -> list[str]:
    """All systems on all sets."""
    return scores("ma-bert_small")


def losses() -> list[str]:
    """The log loss of every system, its difference to the reference, and the RMSE where labels are numbers."""
    tables = record("ma-bert_small").tables
    lines = [
        [
            line.name,
            one.plan.heading,
            format_value("log_loss", line.metrics["log_loss"].value),
            loss_difference(line),
            format_value("rmse", line.metrics["rmse"].value) if "rmse" in line.metrics else "",
        ]
        for one in tables
        for line in one.lines
    ]
    return table(["", "", "log loss", f"difference from {tables[0].reference}", "RMSE"], lines, words=(0, 1))


def loss_difference(line: Line | None) -> str:
    """The difference of a setting to the reference in log loss."""
    return "" if line is None or line.loss is None else format_difference("log_loss", line.loss)


def attributes_alone() -> list[str]:
    """What the attributes add to each plain system, in the main metric and in log loss."""
    scored, lost, heads = [], [], list[str]()
    for base, suffix in FAMILIES.items():
        tables = record(f"ma-bert_small{suffix}").tables
        heads = [one.plan.heading for one in tables]
        found = [{line.name: line for line in one.lines} for one in tables]
        for name in (line.name for line in tables[0].lines if line.name.startswith((f"{base},", f"{base}+"))):
            lines = [known.get(name) for known in found]
            scored.append([name, base, *(difference(one, line) for one, line in zip(tables, lines, strict=True))])
            lost.append([name, base, *map(loss_difference, lines)])
    return [
        *table(["accuracy", "against", *heads], scored, words=(0, 1)),
        "",
        *table(["log loss, lower is better", "against", *heads], lost, words=(0, 1)),
    ]


def time_and_memory() -> list[str]:
    """What a forward pass and a training step of each system cost, beside MiniLM."""
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
    head = ["", "million parameters", "predict, ms", "x MiniLM", "training step, ms", "x MiniLM", "peak MB per step"]
    return [machine_line(found), "", *table(head, lines)]


def longer() -> list[str]:
    """Four times the steps on one set, and what attributes add to NSC."""
    against_nsc = {line.name: line for line in record("systems_longer_nsc").tables[0].lines}
    added = difference(record("systems_longer_nsc").tables[0], against_nsc["NSC+UPA"])
    return [*scores("systems_longer"), "", f"NSC+UPA against NSC: {added}."]


def by_length() -> list[str]:
    """Accuracy by how many tokens of long posts are read."""
    (found,) = Summary.from_dict(measured("long_documents")["accuracy"], source="accuracy").tables
    lines = {tuple(line.name.rsplit(" ", 1)): line for line in found.lines}
    lengths = sorted({int(tokens) for _, tokens in lines})
    ways = list(dict.fromkeys(way for way, _ in lines))
    head = [f"{tokens:,}" for tokens in lengths]
    shown = [[way, *(score(found, lines.get((way, str(tokens)))) for tokens in lengths)] for way in ways]
    apart = [[way, *(difference(found, lines.get((way, str(tokens)))) for tokens in lengths)] for way in ways]
    return [
        *table([f"{found.metric} by tokens", *head], shown),
        "",
        f"Paired differences from `{found.reference}`:",
        "",
        *table(["", *head], apart),
    ]


DRAWINGS = {"images/systems.svg": lambda: forests.loss_differences(record("ma-bert_small").tables[0])}
TABLES = {
    "systems.md": {
        "takeaways": takeaways,
        "with and without": with_and_without,
        "losses": losses,
        "attributes": attributes_alone,
        "time and memory": time_and_memory,
        "longer": longer,
        "by length": by_length,
    }
}
