"""The tables of performance.md, made from the files in benchmarks/results/."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pages.cells import between, machine_line, measured, table

SHAPES = {
    "bert-base": "BERT-base, 2",
    "minilm, one attribute": "MiniLM, 1",
    "minilm, two attributes": "MiniLM, 2",
    "minilm, all distinct": "MiniLM, 4",
    "minilm, one text": "one text, 2",
    "launches": "launches, 2",
}  # of predictions: shapes of the model, with the number of attributes


def training_step() -> list[str]:
    """Time of an Injector's step over that of each other case, with the share that arithmetic alone allows."""
    found = measured("training_step")
    shapes = [one["injector_against"] for one in found["measured"][:2]]
    rows = [
        [case, *(f"{one[case]['time']:.2f} ({one[case]['floor']:.2f})" for one in shapes), f"{figures['memory']:.2f}"]
        for case, figures in shapes[1].items()
    ]
    return [machine_line(found), "", *table(["", "BERT-base, 2", "MiniLM, 4", "memory"], rows)]


def prediction() -> list[str]:
    """The share of the bare model's throughput that each case keeps."""
    found = measured("prediction")
    shares = {one["shape"]: one["of_bare"] for one in found["measured"]}
    shapes = [shape for shape in SHAPES if shape in shares]
    rows = [[case, *(f"{shares[shape][case]:.2f}" for shape in shapes)] for case in shares[shapes[0]]]
    return [machine_line(found), "", *table(["", *map(SHAPES.__getitem__, shapes)], rows)]


def large_table() -> list[str]:
    """Step, memory, saving and loading of a table of many values, in a sentence."""
    found = measured("large_table")
    small, large = found["step_milliseconds"].values()
    return [
        f"With {found['values']:,} values, the table takes {found['table_megabytes']:,.0f} MB and the process "
        f"{found['beyond_small_of_table']:.2f} times as much as the table beyond what it takes with 1,000 values. A "
        f"step takes {large:.0f} ms, against {small:.0f} ms with 1,000 values. Fitting the vocabulary takes "
        f"{found['fit_seconds']:.0f} s, saving {found['save_seconds']:.1f} s and loading "
        f"{found['load']['seconds']:.1f} s ({machine_line(found)[:-1]})."
    ]


def tables_accuracy() -> list[str]:
    """Accuracy with rows updated alone and with hashed values."""
    rows = []
    for name, row in measured("tables_accuracy")["settings"].items():
        against = ""
        if "against_all" in row:
            against = between(*row["against_all"][:3], scale=100, places=1, sign="+")
        rows.append([f"`{name}`", f"{100 * row['accuracy'][0]:.1f}", against])
    return table(["", "accuracy, %", "difference, points"], rows)


def scaling() -> list[str]:
    """Exponents of the time and memory of a step along each axis."""
    found = measured("scaling")
    rows = []
    for name, axis in found["axes"].items():
        sizes = [point["size"] for point in axis["points"]]
        slopes = (axis["exponents"][figure]["whole"] for figure in ("milliseconds", "megabytes"))
        rows.append([name, f"{sizes[0]:,} to {sizes[-1]:,}", *(f"{slope:.2f}" for slope in slopes)])
    return [machine_line(found), "", *table(["", "sizes", "time", "memory"], rows, words=(0, 1))]


def gpu() -> list[str]:
    """What a GPU gave: agreement, prediction beside the bare model, training steps."""
    found = measured("gpu")
    parts = found["parts"]
    tests = parts["agreement"]["tests"]
    passed, failed = tests.get("passed", 0), tests.get("failed", 0)
    names = [re.findall(r"\[(.+?)\]", line)[0] for line in parts["agreement"]["not passed"]]
    others = f"; not {', '.join(names)}" if names else ""
    return [
        f"{found['device']}; {machine_line(found)} {passed} of {passed + failed} comparisons with the CPU agree"
        f"{others}.",
        "",
        *_gpu_prediction(parts),
        "",
        *_gpu_steps(parts),
    ]


def _gpu_prediction(parts: Mapping[str, Any]) -> list[str]:
    shapes = parts["prediction"]["shapes"]
    cases = [case for case in next(iter(shapes.values()))["of_bare"] if "fused" not in case]
    rows = [[case, *(f"{one['of_bare'][case]:.2f}" for one in shapes.values())] for case in cases]
    return table(
        ["prediction", *(name.replace("bert-base", "BERT").replace("minilm", "MiniLM") for name in shapes)], rows
    )


def _gpu_steps(parts: Mapping[str, Any]) -> list[str]:
    shapes = [cases for cases in parts["steps"]["shapes"].values() if "full" in cases]
    rows = [
        [
            case,
            *(f"{one[case]['of_full']:.2f}" for one in shapes),
            *(f"{one[case]['peak_megabytes']:,.0f}" for one in shapes),
        ]
        for case in ("adapter", "chain", "injector", "full")
    ]
    return table(["training step", "BERT", "MiniLM", "BERT, MB", "MiniLM, MB"], rows)


def quantised() -> list[str]:
    """The throughput of predictions beside those without attributes in int8, and what rounding changes."""
    found = measured("quantised")
    shapes = found["measured"]
    cases = [case for case in shapes[0]["milliseconds"] if "the rest" not in case and case != "plain"]
    rows = [[_quantised_case(case), *(f"{one['of_plain'][case]:.2f}" for one in shapes)] for case in cases]
    changes = [
        [name, between(*one["accuracy_difference"], scale=100, places=2, sign="+"), f"{one['within_0.02']:.1%}"]
        for name, one in found["agreement"]["changes"].items()
    ]
    return [
        machine_line(found),
        "",
        *table(["", "MiniLM, 1", "MiniLM, 2", "BERT-base, 2"], rows),
        "",
        f"What rounding changes, for a trained Injector on {found['agreement']['rows']:,} test rows of the critics: "
        "points of accuracy, and rows whose probabilities stay within 0.02:",
        "",
        *table(["", "difference, points", "within 0.02"], changes),
    ]


def _quantised_case(case: str) -> str:
    """A case of benchmarks/quantised.py in words: the method, or none, and its precision."""
    name, _, precision = case.partition(", ")
    words = {"": "int8", "onnx": "ONNX Runtime"}
    return f"{'none' if name == 'plain' else name}, {words.get(precision, precision)}"


TABLES = {
    "performance.md": {
        "training step": training_step,
        "prediction": prediction,
        "quantised": quantised,
        "large table": large_table,
        "tables accuracy": tables_accuracy,
        "scaling": scaling,
        "gpu": gpu,
    },
}
