"""The table of judges.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from pages.cells import between, machine_line, measured, table


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
    gaps = [[name, *(between(*by_name[name, count]["against_none"], sign="+") for count in shots)] for name in names]
    head = [str(count) for count in shots]
    return [
        f"{found['new_judges']} judges who were not among the {found['training_rows']:,} training rows "
        f"({found['epochs']} epochs), {found['scored_rows']:,} of their other judgements, of texts that nobody judged "
        "in training. RMSE by the number of judgements that are known of a judge:",
        "",
        *table(["", "0", *head], rows),
        "",
        "Differences to none, with 95 % intervals over judges:",
        "",
        *table(["", *head], gaps),
    ]


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
        machine_line(found) + " MiniLM, 6 layers; the largest difference of a probability is "
        f"{max(line['difference'] for line in found['lines']):.0e}. How much longer it takes when each row is read for "
        "itself, and with a prediction for each member (`python benchmarks/panel.py --members-apart`):",
        "",
        *table(["method", "texts x members", "seconds", "ms a row", "rows apart", "one by one"], rows),
    ]


def _with_first_layer(case: str) -> str:
    name, _, first = case.partition(":")
    return f"{name}, first_layer={first}" if first else name


TABLES = {"judges.md": {"panel": panel, "new judges": new_judges}}
