"""The tables of judges.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from functools import partial
from typing import Any

from attribune.apps.report.plots import Estimate, forest_plot
from pages.cells import between, machine_line, measured, table
from pages.experiments import difference, record, scores

_UNAWARE = ("text alone", "shuffled")  # what does not know the judge
_FIRST = {
    "injector": "language model and judge",
    "linear": "words and judge",
    "text alone": "language model",
    "linear, text alone": "words",
}


def new_judges() -> list[str]:
    """What a few judgements teach of a new judge."""
    found = measured("new_judges")
    lines = found["lines"]
    shots = sorted({line["shots"] for line in lines if line["shots"]})
    by_name = {(line["name"], line["shots"]): line for line in lines}
    names = list(dict.fromkeys(line["name"] for line in lines if line["shots"]))
    none, linear = by_name["none", 0], by_name["linear", 0]
    rows = [
        [name, f"{(linear if name.startswith('linear') else none)['rmse'][0]:.3f}"]
        + [f"{by_name[name, count]['rmse'][0]:.3f}" for count in shots]
        for name in names
    ]

    def gaps(reference: str, places: int) -> list[list[str]]:
        found = {name: [by_name[name, count].get(reference) for count in shots] for name in names}
        return [
            [name, *(between(*gap, sign="+", places=places) for gap in line)]
            for name, line in found.items()
            if all(line)
        ]

    head = [str(count) for count in shots]
    return [
        f"RMSE on {found['scored_rows']:,} judgements by {found['new_judges']} judges who were not "
        f"among the {found['training_rows']:,} training rows ({found['epochs']} epochs), of texts that nobody judged "
        "in training. The columns give the number of other judgements that are known of each judge, drawn "
        f"{found['draws']} times:",
        "",
        *table(["", "0", *head], rows),
        "",
        f"Differences from the model that knows nothing about the judge ({none['rmse'][0]:.3f}), with 95 % intervals "
        "over judges:",
        "",
        *table(["", *head], gaps("against_none", 2)),
        "",
        "Differences from `intercept`:",
        "",
        *table(["", *head], gaps("against_intercept", 3)),
    ]


def single_judgements() -> list[str]:
    """What it brings to know who judges: every method on single judgements."""
    return scores("judges_small")


def larger() -> list[str]:
    """All judgements of politeness, and a backbone of base size."""
    lines: list[str] = []
    for name, title in (
        ("politeness_whole", "43,825 training rows, MiniLM"),
        ("politeness_base", "9,600 training rows, MPNet-base"),
    ):
        rows = [
            [
                line.name,
                between(line.metrics["r2"].value, line.metrics["r2"].low, line.metrics["r2"].high, places=3),
                difference(one, line),
            ]
            for one in record(name).tables
            for line in one.lines
        ]
        lines += ["", *table([title, "R²", "difference from text alone"], rows)]
    return lines[1:]


def drawing(data: str) -> str:
    """The share of the variance of single judgements that each method explains, the most first."""
    lines = next(one.lines for one in record("judges_small").tables if one.plan.name == data)
    estimates = [
        Estimate(
            name=line.name,
            value=100 * line.metrics["r2"].value,
            low=100 * line.metrics["r2"].low,
            high=100 * line.metrics["r2"].high,
            highlighted=not line.name.endswith(_UNAWARE),
        )
        for line in sorted(lines, key=lambda line: line.metrics["r2"].value, reverse=True)
    ]
    return forest_plot(estimates, label="variance of single judgements explained (%)")


def first_screen() -> str:
    """What a language model and a linear model of words explain with the judge and without."""
    lines = {line.name: line for line in record("judges_small").tables[0].lines}
    estimates = [
        Estimate.of(name, lines[method].metrics["r2"], scale=100, highlighted=not method.endswith(_UNAWARE))
        for method, name in _FIRST.items()
    ]
    return forest_plot(estimates, label="variance of single answers explained (%)", bars=True)


def panel() -> list[str]:
    """What a panel takes."""
    found = measured("panel")
    rows = [
        [
            _with_first_layer(line["method"]),
            f"{line['texts']} x {line['members']}",
            f"{line['shared']:.2f}",
            f"{line['ms a member and text']:.2f}",
            f"{line['apart to shared']:.1f} x",
            f"{line['one by one to shared']:.1f} x",
        ]
        for line in found["lines"]
    ]
    return [
        machine_line(found) + " MiniLM with 6 layers; the probabilities differ by at most "
        f"{max(line['difference'] for line in found['lines']):.0e}. The last two columns show how many times as long "
        "it takes to read each row separately, and to predict for each member separately "
        "(`python benchmarks/panel.py --members-apart`):",
        "",
        *table(["method", "texts x members", "seconds", "ms per row", "separate rows", "separate members"], rows),
    ]


def _with_first_layer(case: str) -> str:
    name, _, first = case.partition(":")
    return f"{name}, first_layer={first}" if first else name


def ordinal() -> list[str]:
    """Ordered answers as a rating and as ordinal."""
    found = measured("ordinal")
    rows = [
        [
            one["title"] if task is one["tasks"][0] else "",
            task["name"],
            f"{task['learning_rate']:g}",
            *(cell for name in ("log_loss", "rmse", "kappa") for cell in _with_difference(task, name)),
        ]
        for one in found["sets"]
        for task in one["tasks"]
    ]
    head = ["", "task", "learning rate", "log loss", "difference", "RMSE", "difference", "kappa", "difference"]
    scored = min(one["scored_rows"] for one in found["sets"])
    return [
        f"{found['rows']:,} training rows, {found['steps']} steps and {scored:,} test rows of each set. Differences "
        "are from `rating`, with 95 % intervals, in bold where the interval excludes zero. Where several people judge "
        "a text, the intervals are over texts and people:",
        "",
        *table(head, rows, words=(0, 1)),
    ]


def _with_difference(task: dict[str, Any], name: str) -> tuple[str, str]:
    """A figure of a task, and its difference to the first task."""
    value, gap = f"{task[name][0]:.3f}", task["against"].get(name)
    if gap is None:
        return value, ""
    text = between(*gap, places=3, sign="+")
    return value, f"**{text}**" if gap[1] > 0 or gap[2] < 0 else text


DRAWINGS = {
    "images/first.svg": first_screen,
    "images/judges.svg": partial(drawing, "politeness"),
    "images/judges-arousal.svg": partial(drawing, "studemo-arousal"),
}
TABLES = {
    "judges.md": {
        "single judgements": single_judgements,
        "larger": larger,
        "panel": panel,
        "ordinal or rating": ordinal,
        "new judges": new_judges,
    }
}
