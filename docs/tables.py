"""Write the tables of these pages that follow from the code and from result files.

    python docs/tables.py

replaces what stands between the marks of the pages; a test checks that nothing is out of date.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

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


def beside(name: str) -> dict[str, dict[str, Callable[[], list[str]]]]:
    """The tables that another file of this folder makes."""
    return dict(runpy.run_path(str(FOLDER / name))["TABLES"])


TABLES = {
    "methods.md": {"families": matrix, "counts": counts},
    "benchmark.md": {"data sets": data_sets},
    "results.md": {"every method": every_method, "longer": longer},
    **beside("performance_tables.py"),
    **beside("large_scale_tables.py"),
    **beside("generation_tables.py"),
    **beside("service_tables.py"),
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
