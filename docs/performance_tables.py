"""The tables of performance.md, made from the files in benchmarks/results/."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"


def measured(name: str) -> dict[str, Any]:
    """A result file of a benchmark."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def machine_line(found: dict[str, Any]) -> str:
    """What the figures were measured on."""
    machine = found["machine"]
    return f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}."


def training_step() -> list[str]:
    """Ratios of the Injector to the other cases, beside their floors."""
    found = measured("training_step")
    lines = [machine_line(found)]
    for one in found["measured"]:
        distinct = ", ".join(map(str, one["distinct"]))
        lines += [
            "",
            f"### {one['shape']}, {one['precision']}",
            "",
            f"{one['rows']} rows of {one['tokens']} tokens; distinct values of each attribute: {distinct}.",
            "",
            "| case | ms | floor, ms | MB | Injector / case: time | arithmetic floor of that | memory |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        for case, figures in one["cases"].items():
            against = one["injector_against"].get(case)
            ratios = ["", "", ""]
            if against is not None:
                memory = f"{against['memory']:.2f}" if "memory" in against else ""
                ratios = [f"{against['time']:.2f}", f"{against['floor']:.2f}", memory]
            megabytes = f"{figures['step_megabytes']:,.0f}" if "step_megabytes" in figures else ""
            cells = [
                case,
                f"{figures['milliseconds']:,.0f}",
                f"{figures['floor_milliseconds']:,.0f}",
                megabytes,
                *ratios,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def generated_weights() -> list[str]:
    """Generated weights alone against the eager ways."""
    found = measured("generated_weights")
    ways = ("ours", "chunks", "sigmoid", "tanh")
    lines = [
        machine_line(found),
        "",
        "| shape | values | rows | arguments up to | "
        + " | ".join(f"{way}, ms" for way in ways)
        + " | eager / ours | ours / tangents | kept, results: ours | eager |",
        "| --- |" + " ---: |" * 11,
    ]
    for one in found["measured"]:
        cells = [
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
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def prediction() -> list[str]:
    """Times of a batch against the chain."""
    found = measured("prediction")
    names = ("kept", "made anew", "eager")
    lines = [
        machine_line(found),
        "",
        "| shape | precision | rows x tokens | distinct | chain, ms | "
        + " | ".join(names)
        + " | eager / kept | kept, MB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found["measured"]:
        cells = [
            one["shape"],
            one["precision"],
            f"{one['rows']} x {one['tokens']}",
            ", ".join(map(str, one["distinct"])),
            f"{one['milliseconds']['chain']:.0f}",
            *(f"{one['of_chain'][name]:.2f}" for name in names),
            f"{one['eager_of_kept']:.2f}",
            f"{one['kept_megabytes']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def hit_rates() -> list[str]:
    """Share of a batch's distinct users that are kept."""
    rates = measured("prediction")["hit_rates"]
    sizes = sorted({one["megabytes"] for found in rates.values() for one in found})
    lines = ["| shape | exponent | " + " | ".join(f"{size:,} MB" for size in sizes) + " |"]
    lines.append("| --- | ---: |" + " ---: |" * len(sizes))
    for shape, found in rates.items():
        for exponent in sorted({one["exponent"] for one in found}):
            cells = [
                f"{one['hit_rate']:.0%} ({one['values']:,} values)"
                for one in sorted(found, key=lambda one: one["megabytes"])
                if one["exponent"] == exponent
            ]
            lines.append(f"| {shape} | {exponent} | {' | '.join(cells)} |")
    return lines


def epoch() -> list[str]:
    """One epoch end to end, both ways."""
    found = measured("epoch")
    lines = [
        machine_line(found),
        "",
        "| data | rows | padding | way | seconds | MB | accuracy | faster |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, one in found["sets"].items():
        for way, figures in one["ways"].items():
            accuracy = f"{100 * figures['accuracy']:.1f} [{100 * figures['low']:.1f}, {100 * figures['high']:.1f}]"
            faster = f"{one['faster']:.1f} x" if way == "attribune" and "faster" in one else ""
            padding = f"{one['padding_share']:.1%}" if way == "attribune" else ""
            lines.append(
                f"| {name} | {one['rows']:,} | {padding} | {way} | {figures['seconds']:,.0f} | "
                f"{figures['peak_megabytes']:,.0f} | {accuracy} | {faster} |"
            )
    return lines


def large_table() -> list[str]:
    """Step, memory, saving and loading of a table of many values."""
    found = measured("large_table")
    small, large = found["step_milliseconds"].values()
    held_small, held = found["resident_megabytes"].values()
    rows = [
        ("values", f"{found['values']:,}, a table of {found['table_megabytes']:,.0f} MB"),
        (
            "vocabulary",
            f"fitted in {found['fit_seconds']:.0f} s, {found['peak_of_fitting_megabytes']:,.0f} MB at most",
        ),
        ("one step", f"{large:.0f} ms; with 1,000 values {small:.0f} ms; ratio {found['step_ratio']:.2f}"),
        (
            "resident memory",
            f"{held:,.0f} MB; with 1,000 values {held_small:,.0f} MB; beyond that "
            f"{found['beyond_small_of_table']:.2f} x the table",
        ),
        ("saving", f"{found['save_seconds']:.1f} s, {found['peak_of_saving_megabytes']:,.0f} MB at most"),
        ("loading", f"{found['load']['seconds']:.1f} s, {found['load']['peak_megabytes']:,.0f} MB at most"),
    ]
    return [machine_line(found), "", "| | |", "| --- | --- |", *(f"| {name} | {figure} |" for name, figure in rows)]


def reading() -> list[str]:
    """Rows per second of a CSV file, and memory."""
    found = measured("reading")
    seconds, peaks = found["seconds"], found["peak_megabytes"]
    sizes = [f"{int(size):,}" for size in peaks["whole"]]
    lines = [
        machine_line(found),
        "",
        "| | |",
        "| --- | --- |",
        f"| read, fit, encode {found['rows']:,} rows | {seconds['read']:.1f} + {seconds['fit']:.1f} + "
        f"{seconds['encode']:.1f} s: {found['rows_per_second']:,.0f} rows/s |",
        f"| with the texts' ids | {found['rows_per_second_whole']:,.0f} rows/s |",
        f"| the tokenizer alone | {found['rows_per_second_tokenizer']:,.0f} rows/s; ratio "
        f"{found['of_tokenizer']:.2f} |",
        "",
        f"| peak memory, MB | {' | '.join(f'{size} rows' for size in sizes)} |",
        f"| --- |{' ---: |' * len(sizes)}",
    ]
    names = {"attributes": "read, fit, encode", "whole": "with the texts' ids"}
    return lines + [f"| {names[job]} | {' | '.join(f'{peak:,.0f}' for peak in peaks[job].values())} |" for job in names]


def two_processes() -> list[str]:
    """One process with one core against two."""
    found = measured("two_processes")
    lines = [
        machine_line(found),
        "",
        "| | one process | two processes | |",
        "| --- | ---: | ---: | ---: |",
    ]
    for precision, one in found["epoch"].items():
        seconds = [statistics.median(one["seconds"][count]) for count in ("1", "2")]
        lines.append(
            f"| an epoch of {found['rows']:,} rows, {precision} | {seconds[0]:.0f} s | {seconds[1]:.0f} s | "
            f"{one['faster']:.2f} x faster |"
        )
    one, two = (found["table"][count] for count in ("1", "2"))
    lines += [
        f"| a step with {found['values']:,} values, bf16 | {1e3 * one['seconds']:,.0f} ms | "
        f"{1e3 * two['seconds']:,.0f} ms | {one['seconds'] / two['seconds']:.2f} x faster |",
        f"| held by a process, the table being {found['table_megabytes']:,.0f} MB | "
        f"{one['resident_megabytes']:,.0f} MB | {two['resident_megabytes']:,.0f} MB | |",
    ]
    return lines


def tables_accuracy() -> list[str]:
    """Accuracy with rows updated alone and with hashed values."""
    found = measured("tables_accuracy")
    lines = [
        machine_line(found),
        "",
        "| setting | values that share a bucket | accuracy | against `all` | last training losses |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for name, row in found["settings"].items():
        shared = ", ".join(f"{attribute} {share:.0%}" for attribute, share in row["shared"].items())
        low, middle, high = (100 * row["accuracy"][place] for place in (1, 0, 2))
        against = ""
        if "against_all" in row:
            difference, below, above, _ = row["against_all"]
            against = f"{100 * difference:+.1f} [{100 * below:.1f}, {100 * above:.1f}]"
        accuracy = f"{middle:.1f} [{low:.1f}, {high:.1f}]"
        lines.append(f"| `{name}` | {shared} | {accuracy} | {against} | {row['last_loss']:.3f} |")
    return lines


def engines() -> list[str]:
    """Prediction into a folder by one process and on Ray."""
    found = measured("predict_engines")
    lines = [
        machine_line(found),
        "",
        "| | rows/s | seconds before the first row | |",
        "| --- | ---: | ---: | --- |",
    ]
    names = {
        "ray 1": "Ray, one worker of one thread",
        "ray 2": "Ray, two workers",
        "local 1": "one process, one thread",
        "local 2": "one process, two threads",
    }
    remarks = {
        "ray 2": f"{found['two_workers_of_one']:.2f} x one worker",
        "ray 1": f"{found['one_worker_of_local']:.2f} x the process with one thread",
    }
    for case, name in names.items():
        one = found["median"][case]
        lines.append(f"| {name} | {one['rows_per_second']:.0f} | {one['begin']:.1f} | {remarks.get(case, '')} |")
    return lines


def scaling() -> list[str]:
    """Time and memory of a step along each axis, with exponents."""
    found = measured("scaling")
    lines = [machine_line(found)]
    for name, axis in found["axes"].items():
        points = axis["points"]
        sizes = [f"{point['size']:,}" for point in points]
        lines += ["", f"| {name} | {' | '.join(sizes)} | exponent | of the last two |"]
        lines.append(f"| --- |{' ---: |' * (len(sizes) + 2)}")
        figures = {"ms": "milliseconds", "ms, chain": "chain_milliseconds", "MB": "megabytes"}
        for title, figure in figures.items():
            if figure in points[0]:
                slopes = axis["exponents"][figure]
                cells = [f"{point[figure]:,.0f}" for point in points]
                lines.append(f"| {title} | {' | '.join(cells)} | {slopes['whole']:.2f} | {slopes['last']:.2f} |")
    return lines


TABLES = {
    "performance.md": {
        "training step": training_step,
        "generated weights": generated_weights,
        "prediction": prediction,
        "hit rates": hit_rates,
        "epoch": epoch,
        "large table": large_table,
        "reading": reading,
        "two processes": two_processes,
        "tables accuracy": tables_accuracy,
        "engines": engines,
        "scaling": scaling,
    },
}
