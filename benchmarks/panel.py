"""A panel of many members: texts that are read once, against rows that are read one by one.

    python benchmarks/panel.py [--members 400] [--texts 1 8x50] [--methods injector plora:3] [--rounds 3]
        [--members-apart]

MiniLM and a method whose vectors are drawn at random: what is timed does not depend on what was learned. `plora:3` is
`plora` with `first_layer=3`. `shared` is `Panel.predict`; `apart` the same without what tells that rows share a text,
so that each row goes through the whole backbone; `one by one`, with `--members-apart`, predicts the texts once for each
member, as a loop around `Predictor.predict` does. By turns, in one process; the ratios are medians over the rounds.
`8x50` in `--texts` is eight texts for the first fifty members. The answers are compared.
Writes benchmarks/results/panel.json.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from harness import arguments, by_turns, ratio, seconds, snippets, write_result

from attribune import AttributeModel, Categorical, Classification, Schema, TextInput, load_tokenizer
from attribune.backbones.loading import DEFAULT_BACKBONE
from attribune.core.progress import quiet_libraries
from attribune.methods import METHODS
from attribune.models.predictor import Predictor
from attribune.values.panel import Panel


def predictor(method: str, members: int) -> Predictor:
    """An untrained model whose members differ, of a method such as `plora` or `plora:3`."""
    schema = Schema.fit({"judge": [f"j{number}" for number in range(members)]}, [Categorical("judge")])
    name, _, first = method.partition(":")
    torch.manual_seed(0)
    model = AttributeModel.build(
        DEFAULT_BACKBONE,
        schema,
        task=Classification(classes=("no", "yes")),
        method=METHODS[name](**({"first_layer": int(first)} if first else {})),
        tokenizer=load_tokenizer(DEFAULT_BACKBONE),
        text_input=TextInput(("text",)),
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("method.", "head.")) and float(parameter.abs().max()) == 0:
                parameter.normal_(std=0.02)
        for name in model.values.owners():
            model.get_parameter(name)[1:].normal_(std=0.1)
    return Predictor(model)


def unshared(one: Predictor) -> AbstractContextManager[Any]:
    """A block in which every row is a text of its own."""
    return patch.object(one.model, "shared_depth", 0)


def measure(one: Predictor, texts: list[str], *, members: int, rounds: int, singly: bool) -> dict[str, float]:
    """Ratios of the ways by turns, milliseconds a member and text, and the largest difference of a probability."""
    everyone = Panel.of(one, "judge")
    panel = replace(everyone, names=everyone.names[:members], ids=everyone.ids[:members])
    found: dict[str, Any] = {}

    def ask_panel(name: str) -> Callable[[], float]:
        def ask() -> None:
            with unshared(one) if name == "apart" else nullcontext():
                found[name] = panel.predict(one, {"text": texts})["probability_yes"]

        return lambda: seconds(ask)

    def ask_members() -> None:
        each = [one.predict({"text": texts, "judge": [name] * len(texts)}) for name in panel.names]
        found["one by one"] = np.mean([answers["probability_yes"] for answers in each], axis=0)

    ways = {name: ask_panel(name) for name in ("shared", "apart")}
    if singly:
        ways["one by one"] = lambda: seconds(ask_members)
    times = by_turns(ways, rounds, warm=1)
    apart = max(float(np.abs(np.asarray(found["shared"]) - other).max()) for other in found.values())
    figures = {name: statistics.median(each) for name, each in times.items()}
    ratios = {f"{name} to shared": ratio(each, times["shared"]) for name, each in times.items() if name != "shared"}
    rate = 1e3 * figures["shared"] / (members * len(texts))
    return figures | ratios | {"ms a member and text": rate, "difference": apart}


def main() -> None:
    parser = arguments(__doc__, "panel", rounds=3)
    parser.add_argument("--members", type=int, default=400, metavar="N")
    parser.add_argument("--texts", nargs="+", default=["1", "8x50"], metavar="N[xMEMBERS]")
    cases = ["upa", "chim", "plora:3", "injector:3", "injector", "pln", "plora"]
    parser.add_argument("--methods", nargs="+", default=cases, metavar="NAME[:FIRST LAYER]")
    parser.add_argument("--members-apart", action="store_true", help="time predictions for each member, too")
    options = parser.parse_args()
    quiet_libraries()
    lines: list[dict[str, Any]] = []
    for method in options.methods:
        one = predictor(method, options.members)
        for case in options.texts:
            count, _, some = case.partition("x")
            members = int(some or options.members)
            texts = [row["text"] for row in snippets()[: int(count)]]
            figures = measure(one, texts, members=members, rounds=options.rounds, singly=options.members_apart)
            lines.append({"method": method, "texts": int(count), "members": members, **figures})
            print(lines[-1], flush=True)
    write_result(options.output, {"members": options.members, "lines": lines})


if __name__ == "__main__":
    main()
