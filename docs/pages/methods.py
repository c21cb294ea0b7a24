"""The tables of methods.md, made from the code: families of backbones, and numbers of parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from transformers import BertConfig, BertModel

from attribune.backbones.families import PLACEMENTS, placement_for
from attribune.backbones.loading import build_backbone
from attribune.backbones.placement import Placement
from attribune.backbones.tuning import tune_backbone
from attribune.methods import METHODS, Host, MethodConfig, method_from_dict
from attribune.methods.condition import Slots
from attribune.methods.recommended import RECOMMENDED
from attribune_lab.benchmark.tables import Line, SetTable
from pages.cells import between, measured, table
from pages.experiments import difference, record, score

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
        "the paper's appendix gives 19M of 105M, its table 2 gives 0.10 x",
    ),
    Count("tokens", {}, "full", "1.00 x", ""),
    Count("la", {}, "full", "", ""),
    Count(
        "upa", {"vector_size": 768}, "full", "1.01 x", "with A = Z = H; half that size would give the paper's figure"
    ),
    Count("chim", {"vector_size": 768}, "full", "1.01 x", "five classes; r = 16, because 15 does not divide 768"),
    Count("concat-text", {}, "full", "", ""),
    Count("concat-word", {}, "full", "", ""),
    Count("attention-bias", {}, "full", "", "same as `maa`"),
    Count(
        "maa",
        {},
        "full",
        "1.50 x",
        "1.50 x is the size of six plain layers; in the paper's equations, each attribute has its own projections",
    ),
    Count("tiny-maa", {}, "full", "1.01 x", "sizes chosen to fit"),
    Count(
        "pln",
        {"vector_sizes": [768, 512]},
        "frozen",
        "0.02 %",
        "0.02 % counts 12·2·768 personalised gains and biases; the linear maps that generate them have 23.6M",
    ),
    Count("e2ln", {"vector_sizes": [768, 512]}, "full", "100 % + 0.02 %", "summaries and pooling add no parameters"),
    Count("plora", {}, "frozen", "", "r = 8"),
    Count("modulated", {}, "frozen", "", "r = 8"),
    Count("prefix", {}, "frozen", "", "one vector"),
    Count("basis", {}, "full", "", "five classes, place `linear`"),
    Count("hcsc", {}, "full", "", "with A = Z = H"),
    Count("poly", {}, "frozen", "", "the router, not counted here, adds four numbers per value and site"),
]

TUNINGS = [
    ("layernorm", "0.05", "24 norms; the paper's 0.05 % includes 12·2·768 personalised gains and biases"),
    ("attention+layernorm", "25.94", ""),
    ("feed_forward+layernorm", "51.80", ""),
    ("bias+layernorm", "0.13", ""),
    (
        "lora:q,v:32+layernorm",
        "1.12",
        "the paper gives no rank; its figures match rank 32, as a share of the model with LoRA and the 12·2·768",
    ),
    ("lora:q,k,v,o:32+layernorm", "2.15", ""),
]


def matrix() -> list[str]:
    """Methods against families, those with the same answers in one column: yes, or the number of the reason why not."""
    reasons: list[str] = []
    columns: dict[tuple[str, ...], list[str]] = {}
    for row in PLACEMENTS:
        answers = tuple(_answer(method(), row, reasons) for method in METHODS.values())
        columns.setdefault(answers, []).extend(f"`{name}`" for name in row.model_types)
    rows = [
        [f"`{name}`", ", ".join(method.points) or "nowhere", *cells]
        for (name, method), *cells in zip(METHODS.items(), *columns, strict=True)
    ]
    head = ["`--method`", "acts at", *(", ".join(names) for names in columns.values())]
    notes = "<br>\n".join(f"({number}) {reason}." for number, reason in enumerate(reasons, start=1))
    return [*table(head, rows, words=range(len(head))), "", *notes.splitlines()]


def _answer(method: MethodConfig, row: Placement, reasons: list[str]) -> str:
    """Whether a method can act in a family; new reasons why it cannot are added."""
    refusal = method.refusal(row)
    if refusal is None:
        return "yes"
    reason = refusal.partition(": ")[2].rpartition(": ")[0]  # between the method and the cure
    if row.no_extra_attention is not None and row.no_extra_attention in reason:
        reason = row.no_extra_attention
    reason = re.sub(r"backbones of type [\w-]+(?: or [\w-]+)*", "these backbones", reason)
    if reason not in reasons:
        reasons.append(reason)
    return f"({reasons.index(reason) + 1})"


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
    rows = []
    for row in COUNTS:
        number = trained(method_from_dict({"name": row.method, **row.options}), row.tuning)
        options = ", ".join(f"{key}={value}" for key, value in row.options.items()) or "defaults"
        share = f"{number / encoder:.3f} x"
        rows.append([f"`{row.method}`", options, row.tuning, f"{number:,}", share, row.paper, row.remark])
    head = ["method", "options", "backbone", "trained", "share of encoder", "paper", "remark"]
    return [*table(head, rows, words=range(len(head))), "", *tunings()]


def tunings() -> list[str]:
    """What a plain model trains with each."""
    with torch.device("meta"):
        whole = sum(p.numel() for p in BertModel(BertConfig()).parameters())
    rows = []
    for tuning, paper, remark in TUNINGS:
        number = trained(METHODS["none"](), tuning)
        rows.append([f"`{tuning}`", f"{number:,}", f"{100 * number / whole:.2f} %", paper and f"{paper} %", remark])
    head = ["tuning", "trained", "share of whole model (109.5M)", "E2LN's paper", "remark"]
    return table(head, rows, words=range(len(head)))


def recommended() -> list[str]:
    """What to take for which need, with what it keeps of the bare model's throughput and what it explains."""
    shares = next((one["of_bare"] for one in measured("prediction")["measured"] if _is_short(one)), {})
    tables = record("judges_small").tables
    explained = [{line.name: line for line in each.lines} for each in tables]
    rows = [
        [
            f"`{method}`",
            when,
            "" if (share := shares.get("made anew" if method == "injector" else method)) is None else f"{share:.2f}",
            *(between(*_ends(lines[method]), places=3) if method in lines else "" for lines in explained),
        ]
        for method, when in RECOMMENDED
    ]
    alone = [between(*_ends(lines["text alone"]), places=3) for lines in explained]
    rows.append(["`none`", "a reference: the same backbone, fine-tuned on the text alone", "1.00", *alone])
    head = ["`--method`", "use it when", "speed", *(f"R², {each.plan.title}" for each in tables)]
    return table(head, rows, words=(0, 1))


_CHEAP = {
    "injector": "made anew",
    "injector, parallel": "parallel",
    "prefix at the input": "prefix",
    **{name: name for name in ("pln", "plora", "modulated")},
}


def cheap() -> list[str]:
    """What cheap methods keep of the Injector's accuracy, beside what they keep of the bare model's throughput."""
    shares = next((one["of_bare"] for one in measured("prediction")["measured"] if _is_short(one)), {})
    tables = record("cheap").tables
    found = [{line.name: line for line in one.lines} for one in tables]
    rows = [
        [
            name,
            "" if (share := shares.get(_CHEAP.get(name))) is None else f"{share:.2f}",
            *(cell for one, lines in zip(tables, found, strict=True) for cell in _against(one, lines[name])),
        ]
        for name in found[0]
    ]
    head = ["", "speed", *(cell for one in tables for cell in (f"{one.plan.heading}, {one.metric}", "difference"))]
    return table(head, rows)


def _against(one: SetTable, line: Line) -> tuple[str, str]:
    return score(one, line), difference(one, line)


def _is_short(one: Mapping[str, Any]) -> bool:
    return one["shape"] == "minilm, two attributes" and one["precision"] == "bf16" and "of_bare" in one


def _ends(line: Line) -> tuple[float, float, float]:
    found = line.metrics["r2"]
    return found.value, found.low, found.high


TABLES = {
    "methods.md": {"families": matrix, "counts": counts, "recommended": recommended, "cheap": cheap},
    "../README.md": {"recommended": recommended},
}
