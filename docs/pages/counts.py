"""How many parameters methods and tunings train, on the shape of BERT-base, beside the figures of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from transformers import BertConfig, BertModel

from attribune.backbones.families import placement_for
from attribune.backbones.loading import build_backbone
from attribune.backbones.tuning import tune_backbone
from attribune.methods import METHODS, Host, MethodConfig, method_from_dict
from attribune.methods.condition import Slots
from pages.cells import table

_WIDTH, _LAYERS = 768, 12
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

BACKBONES = {"full": "the backbone among them", "frozen": "on a frozen backbone"}

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


PLACES = [
    ("norms after the attention", {"name": "pln", "vector_size": 768}, 2 * _WIDTH),
    (
        "bias terms of the attention",
        {"name": "e2ln", "norms": "none", "bias_terms": "attention", "vector_size": 768},
        4 * _WIDTH**2,
    ),
    (
        "bias terms of the feed-forward part",
        {"name": "e2ln", "norms": "none", "bias_terms": "feed_forward", "vector_size": 768},
        8 * _WIDTH**2,
    ),
]


def bert() -> torch.nn.Module:
    """The BERT-base shape without memory for weights."""
    with torch.device("meta"):
        return build_backbone(BertConfig())


def trained(config: MethodConfig, tuning: str, slots: Sequence[Slots] = ATTRIBUTES) -> int:
    """Parameters that learn, without attribute tables and head, embeddings left out."""
    backbone = bert()
    with torch.device("meta"):
        method = config.build(Host.of(backbone, outputs=5, slots=slots))
        tune_backbone(backbone, placement_for("bert"), tuning)
    mine = sum(p.numel() for name, p in method.named_parameters() if "tables" not in name)
    if isinstance(config, METHODS["poly"]):
        mine -= sum(p.numel() for name, p in method.named_parameters() if "router" in name)
    return mine + sum(
        p.numel() for name, p in backbone.named_parameters() if p.requires_grad and not name.startswith("embeddings")
    )


@cache
def encoder() -> int:
    """Parameters of the encoder."""
    return trained(METHODS["none"](), "full")


def _trained_by(row: Count) -> tuple[str, str]:
    """The number of parameters, and their share of the encoder's."""
    number = trained(method_from_dict({"name": row.method, **row.options}), row.tuning)
    return f"{number:,}", f"{number / encoder():.3f} x"


def count_of(method: str) -> str | None:
    """What a method trains, with which options, and what its paper says; None if it is not counted."""
    row = next((row for row in COUNTS if row.method == method), None)
    if row is None:
        return None
    number, share = _trained_by(row)
    options = "".join(f", with `{name}={value}`" for name, value in row.options.items())
    paper = "; ".join(part for part in (row.paper and f"the paper: {row.paper}", row.remark) if part)
    return f"{number}, or {share} the encoder{options}, {BACKBONES[row.tuning]}{f' ({paper})' if paper else ''}"


def places() -> list[str]:
    """What is learned for users at each place of the twelve layers: millions of shared parameters, and per user."""
    rows = []
    for name, options, matrices in PLACES:
        shared = trained(method_from_dict(options), "frozen", slots=ATTRIBUTES[:1])
        rows.append([name, f"{_LAYERS * matrices:,}", f"{shared / 1e6:.1f}", f"{_WIDTH}"])
    return table(["place", "per user with terms of its own", "shared here, million", "per user here"], rows)


def tunings() -> list[str]:
    """What a plain model trains with each."""
    with torch.device("meta"):
        whole = sum(p.numel() for p in BertModel(BertConfig()).parameters())
    rows = []
    for tuning, paper, remark in TUNINGS:
        number = trained(METHODS["none"](), tuning)
        notes = f"{paper} %{f': {remark}' if remark else ''}"
        rows.append([f"`{tuning}`", f"{number:,} ({100 * number / whole:.2f} %)", notes])
    return table(["tuning", "trained (share of 109.5M)", "E2LN's paper"], rows, words=range(3))
