"""Write the tables of these pages that follow from the code and from result files.

    python docs/tables.py

replaces what stands between the marks of the pages; a test checks that nothing is out of date.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import BertConfig, BertModel

from attribune.backbone import build_backbone
from attribune.benchmark.rendering import render
from attribune.benchmark.results import BenchmarkFolder
from attribune.benchmark.sets import CARDS
from attribune.benchmark.tables import benchmark_tables
from attribune.condition import Slots
from attribune.methods import METHODS, Host, MethodConfig, method_from_dict
from attribune.placement import PLACEMENTS, Placement, placement_for
from attribune.tuning import tune_backbone

FOLDER = Path(__file__).parent
SMALL = FOLDER.parent / "benchmarks" / "results" / "small"
ATTRIBUTES = [Slots(name="user", start=0, count=1, size=2), Slots(name="product", start=1, count=1, size=2)]


class Count(NamedTuple):
    """A line of the table of counts."""

    method: str
    options: dict[str, object]
    tuning: str
    paper: str
    remark: str


COUNTS = [
    Count("none", {}, "full", "1.00 x", "the encoder itself"),
    Count("adapter", {}, "frozen", "0.02 x", "0.028, which the paper's table rounds down"),
    Count(
        "injector",
        {"vector_size": 768},
        "frozen",
        "19M, 18 %; 0.10 x",
        "19M of 105M is the paper's appendix, 0.10 x its table 2",
    ),
    Count("tokens", {}, "full", "1.00 x", ""),
    Count(
        "upa", {"vector_size": 768}, "full", "1.01 x", "with A = Z = H; half that size would give the paper's figure"
    ),
    Count("chim", {"vector_size": 768}, "full", "1.01 x", "of five classes, r = 16, since 15 does not divide 768"),
    Count("concat-text", {}, "full", "", ""),
    Count("concat-word", {}, "full", "", ""),
    Count("attention-bias", {}, "full", "", "as `maa`"),
    Count(
        "maa",
        {},
        "full",
        "1.50 x",
        "1.50 is six plain layers; each attribute has projections of its own, which the paper's equations say",
    ),
    Count("tiny-maa", {}, "full", "1.01 x", "sizes chosen to fit"),
    Count(
        "pln",
        {"vector_sizes": [768, 512]},
        "frozen",
        "0.02 %",
        "0.02 % is 12·2·768 personalised gains and biases; the linear maps that make them are 23.6M",
    ),
    Count("e2ln", {"vector_sizes": [768, 512]}, "full", "100 % + 0.02 %", "summaries and pooling have no parameters"),
    Count("plora", {}, "frozen", "", "r = 8"),
    Count("poly", {}, "frozen", "", "its router has four numbers more for each value and site"),
]

TUNINGS = [
    ("layernorm", "0.05", "24 norms; the paper adds 12·2·768 personalised gains and biases: 0.05 with them"),
    ("attention+layernorm", "25.94", ""),
    ("feed_forward+layernorm", "51.80", ""),
    ("bias+layernorm", "0.13", ""),
    (
        "lora:q,v:32+layernorm",
        "1.12",
        "the paper names no rank; its figures fit 32, of the model with its LoRA and the 12·2·768",
    ),
    ("lora:q,k,v,o:32+layernorm", "2.15", ""),
]


def family(row: Placement) -> str:
    """The model types of a row, as code."""
    return ", ".join(f"`{name}`" for name in row.model_types)


def matrix() -> list[str]:
    """Methods against families: yes, or the number of the reason why not."""
    reasons = list(dict.fromkeys(row.no_memory for row in PLACEMENTS if row.no_memory is not None))
    lines = ["| `--method` | acts at | " + " | ".join(family(row) for row in PLACEMENTS) + " |"]
    lines.append("|---" * (len(PLACEMENTS) + 2) + "|")
    for name, method in METHODS.items():
        cells = [
            "yes" if method().refusal(row) is None else f"({reasons.index(row.no_memory or '') + 1})"
            for row in PLACEMENTS
        ]
        lines.append(f"| `{name}` | {', '.join(method.points) or 'nowhere'} | " + " | ".join(cells) + " |")
    lines.append("")
    lines += [f"({number}) {reason}." for number, reason in enumerate(reasons, start=1)]
    return lines


def bert() -> torch.nn.Module:
    """The BERT-base shape without memory for weights."""
    with torch.device("meta"):
        return build_backbone(BertConfig())


def trained(config: MethodConfig, tuning: str) -> int:
    """Parameters that learn, without attribute tables and head, embeddings left out."""
    backbone = bert()
    with torch.device("meta"):
        method = config.build(Host.of(backbone, outputs=5, slots=ATTRIBUTES))
        tune_backbone(backbone, placement_for("bert"), tuning)
    mine = sum(p.numel() for name, p in method.named_parameters() if "tables" not in name)
    if isinstance(config, METHODS["poly"]):
        mine -= sum(p.numel() for name, p in method.named_parameters() if "router" in name)
    return mine + sum(
        p.numel() for name, p in backbone.named_parameters() if p.requires_grad and not name.startswith("embeddings")
    )


def counts() -> list[str]:
    """Methods, then tunings, with what they train."""
    encoder = trained(METHODS["none"](), "full")
    lines = [
        "| method | options | backbone | trained | of the encoder | paper | remark |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in COUNTS:
        number = trained(method_from_dict({"name": row.method, **row.options}), row.tuning)
        options = ", ".join(f"{key}={value}" for key, value in row.options.items()) or "defaults"
        lines.append(
            f"| `{row.method}` | {options} | {row.tuning} | {number:,} | {number / encoder:.3f} x | {row.paper} | "
            f"{row.remark} |"
        )
    with torch.device("meta"):
        whole = sum(p.numel() for p in BertModel(BertConfig()).parameters())
    lines += ["", "| tuning | trained | of the whole model (109.5M) | E2LN's paper | remark |", "|---|---|---|---|---|"]
    for tuning, paper, remark in TUNINGS:
        number = trained(METHODS["none"](), tuning)
        lines.append(
            f"| `{tuning}` | {number:,} | {100 * number / whole:.2f} % | {paper and paper + ' %'} | {remark} |"
        )
    return lines


def data_sets() -> list[str]:
    """The cards of the data sets."""
    lines = ["| name | attributes | classes | training rows | metric | citation |", "|---|---|---:|---:|---|---|"]
    for card in CARDS.values():
        classes = f"{card.classes}" if len(card.labels) == 1 else f"{len(card.labels)} x {card.classes}"
        rows = f"{card.published['train']:,.0f}" if "train" in card.published else ""
        cells = [f"`{card.name}`", ", ".join(card.names()), classes, rows, card.metric, card.citation]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def every_method() -> list[str]:
    """The tables of the preset `small`, and how long it took."""
    folder = BenchmarkFolder(SMALL)
    records = [result.record for result in folder.results(folder.experiment())]
    ended = sorted(datetime.fromisoformat(str(record["finished"])) for record in records)
    first = next(record for record in records if datetime.fromisoformat(str(record["finished"])) == ended[0])
    whole = (ended[-1] - ended[0]).total_seconds() + float(first["seconds"])
    threads = {record["environment"]["threads"] for record in records}
    took = (
        f"{len(records)} trainings in {whole / 60:.0f} minutes ({sum(r['seconds'] for r in records) / 60:.0f} minutes "
        f"of trainings, each with {' or '.join(map(str, sorted(threads)))} thread)."
    )
    return [took, "", *render(benchmark_tables(folder), "markdown").splitlines()]


def longer() -> list[str]:
    """The tables of the Injector and PLN with more steps."""
    return render(benchmark_tables(BenchmarkFolder(SMALL.with_name("longer"))), "markdown").splitlines()


def measured(name: str) -> dict[str, Any]:
    """A result file of a benchmark."""
    return dict(json.loads((SMALL.parent / f"{name}.json").read_text(encoding="utf-8")))


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


TABLES = {
    "methods.md": {"families": matrix, "counts": counts},
    "benchmark.md": {"data sets": data_sets},
    "results.md": {"every method": every_method, "longer": longer},
    "performance.md": {
        "training step": training_step,
        "generated weights": generated_weights,
        "prediction": prediction,
        "hit rates": hit_rates,
        "epoch": epoch,
        "large table": large_table,
    },
}


def written(page: str, text: str) -> str:
    """A page with its tables made anew."""
    for name, lines in TABLES[page].items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        text = before + start + "\n" + "\n".join(lines()) + "\n\n" + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    for page in TABLES:
        path = FOLDER / page
        path.write_text(written(page, path.read_text(encoding="utf-8")), encoding="utf-8")
