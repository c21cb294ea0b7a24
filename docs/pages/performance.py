"""The tables of performance.md, made from the files in benchmarks/results/."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pages.cells import between, facts, machine_line, measured, table


def training_step() -> list[str]:
    """Ratios of the Injector to the other cases, beside their floors."""
    found = measured("training_step")
    head = ["case", "ms", "floor, ms", "MB", "Injector / case: time", "floor", "memory"]
    lines = [machine_line(found)]
    for one in found["measured"]:
        rows = []
        for case, figures in one["cases"].items():
            against = one["injector_against"].get(case, {})
            cells = [f"{figures['milliseconds']:,.0f}", f"{figures['floor_milliseconds']:,.0f}"]
            cells.append(f"{figures['step_megabytes']:,.0f}")
            ratios = (f"{against[name]:.2f}" if name in against else "" for name in ("time", "floor", "memory"))
            rows.append([case, *cells, *ratios])
        distinct = ", ".join(map(str, one["distinct"]))
        lines += [
            "",
            f"### {one['shape']}, {one['precision']}",
            "",
            f"{one['rows']} rows of {one['tokens']} tokens; distinct values of each attribute: {distinct}.",
            "",
            *table(head, rows),
        ]
    return lines


def generated_weights() -> list[str]:
    """Generated weights alone against the eager ways."""
    found = measured("generated_weights")
    ways = ("ours", "chunks", "sigmoid", "tanh")
    head = ["shape", "values", "rows", "largest argument", *(f"{way}, ms" for way in ways)]
    rows = [
        [
            one["shape"],
            f"{one['values']:,}",
            f"{one['rows']}",
            f"{one['reach']:.2f}",
            *(f"{one['milliseconds'][way]:.2f}" for way in ways),
            f"{one['faster_than_eager']:.1f}",
            f"{one['of_tangents']:.2f}",
            f"{one['kept_in_results']['ours']:.2f}",
            f"{min(one['kept_in_results'][way] for way in ('sigmoid', 'tanh')):.1f}",
        ]
        for one in found["measured"]
    ]
    head += ["eager / ours", "ours / torch.tanh", "saved: ours", "saved: eager"]
    return [machine_line(found), "", *table(head, rows)]


def prediction() -> list[str]:
    """Times of a batch against the chain."""
    found = measured("prediction")
    names = {"cached": "kept", "generated": "made anew", "eager": "eager"}
    rows = [
        [
            one["shape"],
            one["precision"],
            f"{one['rows']} x {one['tokens']}",
            ", ".join(map(str, one["distinct"])),
            f"{one['milliseconds']['chain']:.0f}",
            *(f"{one['of_chain'][name]:.2f}" for name in names.values()),
            f"{one['eager_of_kept']:.2f}",
            f"{one['kept_megabytes']:.0f}",
        ]
        for one in found["measured"]
    ]
    head = ["shape", "precision", "rows x tokens", "distinct", "chain, ms", *names, "eager / cached", "cache, MB"]
    return [machine_line(found), "", *table(head, rows, words=(0, 1)), *shares_of_bare(found["measured"])]


def shares_of_bare(measured: Sequence[Mapping[str, Any]]) -> list[str]:
    """The share of the bare model's throughput that each case keeps, of shapes where the two took turns."""
    both = [one for one in measured if "of_bare" in one]
    if not both:
        return []
    cases = list(both[0]["of_bare"])
    rows = []
    for one in both:
        floors = one["floor_of_bare"]
        shares = (
            f"{share:.2f} ({floors[case]:.2f})" if case in floors else f"{share:.2f}"
            for case, share in one["of_bare"].items()
        )
        rows.append([one["shape"], one["precision"], f"{one['milliseconds']['bare']:.0f}", *shares])
    return [
        "",
        "Throughput relative to the bare transformers model. In brackets: the share that would remain if only the "
        "multiplications and additions of all matrix products counted.",
        "",
        *table(["shape", "precision", "bare, ms", *cases], rows, words=(0, 1)),
    ]


def hit_rates() -> list[str]:
    """Share of a batch's distinct users whose weights are in the cache."""
    rates = measured("prediction")["hit_rates"]
    sizes = sorted({one["megabytes"] for found in rates.values() for one in found})
    rows = []
    for shape, found in rates.items():
        for exponent in sorted({one["exponent"] for one in found}):
            mine = sorted((one for one in found if one["exponent"] == exponent), key=lambda one: one["megabytes"])
            cells = (f"{one['hit_rate']:.0%} ({one['values']:,} values)" for one in mine)
            rows.append([shape, f"{exponent}", *cells])
    return table(["shape", "exponent", *(f"{size:,} MB" for size in sizes)], rows)


def epoch() -> list[str]:
    """One epoch end to end, both ways."""
    found = measured("epoch")
    rows = []
    for name, one in found["sets"].items():
        for way, figures in one["ways"].items():
            ours = way == "attribune"
            accuracy = between(figures["accuracy"], figures["low"], figures["high"], scale=100, places=1)
            padding = f"{one['padding_share']:.1%}" if ours else ""
            took = [f"{figures['seconds']:,.0f}", f"{figures['peak_megabytes']:,.0f}"]
            rows.append(
                [name, f"{one['rows']:,}", padding, way, *took, accuracy, f"{one['faster']:.1f} x" if ours else ""]
            )
    head = ["data", "rows", "padding", "pipeline", "seconds", "MB", "accuracy", "speed-up"]
    return [machine_line(found), "", *table(head, rows, words=(0, 3))]


def large_table() -> list[str]:
    """Step, memory, saving and loading of a table of many values."""
    found = measured("large_table")
    small, large = found["step_milliseconds"].values()
    held_small, held = found["resident_megabytes"].values()
    rows = [
        ("values", f"{found['values']:,}, a table of {found['table_megabytes']:,.0f} MB"),
        (
            "vocabulary",
            f"fitted in {found['fit_seconds']:.0f} s, {found['peak_of_fitting_megabytes']:,.0f} MB at peak",
        ),
        ("one step", f"{large:.0f} ms, against {small:.0f} ms with 1,000 values; ratio {found['step_ratio']:.2f}"),
        (
            "resident memory",
            f"{held:,.0f} MB, against {held_small:,.0f} MB with 1,000 values; "
            f"the difference is {found['beyond_small_of_table']:.2f} x the table",
        ),
        ("saving", f"{found['save_seconds']:.1f} s, {found['peak_of_saving_megabytes']:,.0f} MB at peak"),
        ("loading", f"{found['load']['seconds']:.1f} s, {found['load']['peak_megabytes']:,.0f} MB at peak"),
    ]
    return [machine_line(found), "", *facts(rows)]


def reading() -> list[str]:
    """Rows per second of a CSV file, and memory."""
    found = measured("reading")
    seconds, peaks = found["seconds"], found["peak_megabytes"]
    steps = " + ".join(f"{seconds[step]:.1f}" for step in ("read", "fit", "encode"))
    rates = [
        (f"read, fit, encode {found['rows']:,} rows", f"{steps} s: {found['rows_per_second']:,.0f} rows/s"),
        ("with the texts' ids", f"{found['rows_per_second_whole']:,.0f} rows/s"),
        (
            "the tokenizer alone",
            f"{found['rows_per_second_tokenizer']:,.0f} rows/s; ratio {found['of_tokenizer']:.2f}",
        ),
    ]
    names = {"attributes": "read, fit, encode", "whole": "with the texts' ids"}
    rows = [[name, *(f"{peak:,.0f}" for peak in peaks[job].values())] for job, name in names.items()]
    head = ["peak memory, MB", *(f"{int(size):,} rows" for size in peaks["whole"])]
    return [machine_line(found), "", *facts(rates), "", *table(head, rows)]


def two_processes() -> list[str]:
    """One process with one core against two."""
    found = measured("two_processes")
    rows = []
    for precision, epoch in found["epoch"].items():
        seconds = (f"{statistics.median(epoch['seconds'][count]):.0f} s" for count in ("1", "2"))
        rows.append([f"an epoch of {found['rows']:,} rows, {precision}", *seconds, f"{epoch['faster']:.2f} x faster"])
    both = [found["table"][count] for count in ("1", "2")]
    steps = [one["seconds"] for one in both]
    rows += [
        [
            f"a step with {found['values']:,} values, bf16",
            *(f"{1e3 * step:,.0f} ms" for step in steps),
            f"{steps[0] / steps[1]:.2f} x faster",
        ],
        [
            f"memory of a process, with a table of {found['table_megabytes']:,.0f} MB",
            *(f"{one['resident_megabytes']:,.0f} MB" for one in both),
            "",
        ],
    ]
    return [machine_line(found), "", *table(["", "one process", "two processes", ""], rows)]


def tables_accuracy() -> list[str]:
    """Accuracy with rows updated alone and with hashed values."""
    found = measured("tables_accuracy")
    rows = []
    for name, row in found["settings"].items():
        shared = ", ".join(f"{attribute} {share:.0%}" for attribute, share in row["shared"].items())
        accuracy = between(*row["accuracy"], scale=100, places=1)
        against = ""
        if "against_all" in row:
            difference, low, high, _ = row["against_all"]
            against = f"{100 * difference:+.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        rows.append([f"`{name}`", shared, accuracy, against, f"{row['last_loss']:.3f}"])
    head = ["setting", "values that share a bucket", "accuracy", "against `all`", "final training loss"]
    return [machine_line(found), "", *table(head, rows, words=(0, 1))]


def scaling() -> list[str]:
    """Time and memory of a step along each axis, with exponents."""
    found = measured("scaling")
    titles = {"ms": "milliseconds", "ms, chain": "chain_milliseconds", "MB": "megabytes"}
    lines = [machine_line(found)]
    for name, axis in found["axes"].items():
        points, rows = axis["points"], []
        for title, figure in titles.items():
            if figure in points[0]:
                slopes = axis["exponents"][figure]
                cells = (f"{point[figure]:,.0f}" for point in points)
                rows.append([title, *cells, f"{slopes['whole']:.2f}", f"{slopes['last']:.2f}"])
        head = [name, *(f"{point['size']:,}" for point in points), "exponent", "last two sizes"]
        lines += ["", *table(head, rows)]
    return lines


def gpu() -> list[str]:
    """What a GPU gave: agreement, prediction beside the bare model, training steps, CUDA graphs."""
    found = measured("gpu")
    parts = found["parts"]
    tests = parts["agreement"]["tests"]
    passed, failed = tests.get("passed", 0), tests.get("failed", 0)
    names = [re.findall(r"\[(.+?)\]", line)[0] for line in parts["agreement"]["not passed"]]
    lines = [f"{found['device']}; {machine_line(found)}", ""]
    others = f"; not {', '.join(names)}" if names else ""
    lines += [f"{passed} of {passed + failed} comparisons with the CPU agree{others}.", ""]
    return [*lines, *_gpu_prediction(parts), "", *_gpu_steps(parts), "", *_gpu_graphs(parts)]


def _gpu_prediction(parts: Mapping[str, Any]) -> list[str]:
    shapes = parts["prediction"]["shapes"]
    cases = list(dict.fromkeys(case for one in shapes.values() for case in one["of_bare"]))
    rows = []
    for name, one in shapes.items():
        shares = (
            f"{one['of_bare'][case]:.2f}"
            + (f" ({one['floor_of_bare'][case]:.2f})" if case in one["floor_of_bare"] else "")
            for case in cases
        )
        rows.append([name, f"{one['milliseconds']['bare']:.1f}", *shares])
    return table(["prediction, rows x tokens", "bare, ms", *cases], rows)


def _gpu_steps(parts: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            name if number == 0 else "",
            case,
            f"{one['milliseconds']:.0f}",
            f"{one['of_full']:.2f}" if "of_full" in one else "",
            f"{one['rows_per_second']:,.0f}",
            f"{one['peak_megabytes']:,.0f}",
            f"{one['mfu']:.1%}",
        ]
        for name, cases in parts["steps"]["shapes"].items()
        for number, (case, one) in enumerate((case, one) for case, one in cases.items() if case != "bare")
    ]
    head = ["training step, rows x tokens", "case", "ms", "time / full", "rows/s", "MB", "of the peak rate"]
    return table(head, rows, words=(0, 1))


def _gpu_graphs(parts: Mapping[str, Any]) -> list[str]:
    rows = [
        [case, f"{one['launched']:.1f}", f"{one['graph']:.2f}", f"{one['speed_up']:.1f}"]
        for case, one in parts["graphs"].items()
        if isinstance(one, dict) and "graph" in one
    ]
    return table(["8 texts of 32 tokens, MiniLM", "launched, ms", "CUDA graph, ms", "faster"], rows)


def quantised() -> list[str]:
    """Predictions in int8 beside those without attributes, and what rounding changes."""
    found = measured("quantised")
    head = [
        "case",
        "ms",
        "of no attributes, int8",
        "of no attributes, ONNX Runtime",
        "of no attributes, float32",
    ]
    lines = [f"{machine_line(found)} The last three columns are fractions of the throughput of a reference."]
    for one in found["measured"]:
        rows = [
            [
                quantised_case(case),
                f"{milliseconds:,.0f}",
                *(
                    f"{one[f'of_{key}'][case]:.2f}" if case in one[f"of_{key}"] else ""
                    for key in ("plain", "onnx", "float32")
                ),
            ]
            for case, milliseconds in one["milliseconds"].items()
        ]
        distinct = ", ".join(map(str, one["distinct"]))
        lines += [
            "",
            f"### {one['shape']}, int8",
            "",
            f"{one['rows']} rows of {one['tokens']} tokens; distinct values of each attribute: {distinct}.",
            "",
            *table(head, rows),
        ]
    agreement = found["agreement"]
    rows = [["float32", f"{100 * agreement['accuracy']['float32']:.2f}", "", "", "", "", ""]]
    for name, one in agreement["changes"].items():
        rows.append(
            [
                name,
                f"{100 * agreement['accuracy'][name]:.2f}",
                between(*one["accuracy_difference"], scale=100, places=2, sign="+"),
                f"{one['largest']:.3f}",
                f"{one['mean']:.4f}",
                f"{one['within_0.02']:.1%}",
                f"{one['changed_predictions']}",
            ]
        )
    head = [
        "precision",
        "accuracy, %",
        "difference, points",
        "largest change of a probability",
        "mean",
        "rows within 0.02",
    ]
    return [
        *lines,
        "",
        f"What rounding changes, for a trained Injector on {agreement['rows']:,} test rows of the critics data:",
        "",
        *table([*head, "changed predictions"], rows),
    ]


def quantised_case(case: str) -> str:
    """A case of benchmarks/quantised.py in words: the method, or none, and its precision."""
    name, _, precision = case.partition(", ")
    words = {"": "int8", "onnx": "int8, ONNX Runtime", "the rest in bf16": "int8, the rest in bf16"}
    return f"{'no attributes' if name == 'plain' else name}, {words.get(precision, precision)}"


def compiled() -> list[str]:
    """Steps and predictions by `torch.compile` on a processor."""
    found = measured("compiled")
    rows = [
        [
            case,
            {"step": "training step", "prediction": "prediction"}[job],
            *(f"{figures['milliseconds'][way]:,.0f}" for way in ("eager", "compiled")),
            f"{figures['milliseconds']['eager'] / figures['milliseconds']['compiled']:.2f}",
            f"{figures['seconds_to_compile']:.0f}",
        ]
        for case, jobs in found["cases"].items()
        for job, figures in jobs.items()
    ]
    head = ["case", "", "eager, ms", "compiled, ms", "eager / compiled", "seconds to compile"]
    return [machine_line(found), "", *table(head, rows, words=(0, 1))]


TABLES = {
    "performance.md": {
        "training step": training_step,
        "generated weights": generated_weights,
        "prediction": prediction,
        "hit rates": hit_rates,
        "quantised": quantised,
        "compiled": compiled,
        "epoch": epoch,
        "large table": large_table,
        "reading": reading,
        "two processes": two_processes,
        "tables accuracy": tables_accuracy,
        "scaling": scaling,
        "gpu": gpu,
    },
}
