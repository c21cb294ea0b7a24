"""A panel of many members against a prediction for each member.

    python benchmarks/panel.py [--members 400] [--texts 1 32] [--methods injector pln plora] [--rounds 3]

MiniLM and a method whose vectors are drawn at random: what is timed does not depend on what was learned. `panel` is
`Panel.predict`; `members` predicts the texts once for each member, as a loop around `Predictor.predict` does. By turns,
in one process; the median of the rounds. Their answers are compared. Writes benchmarks/results/panel.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from harness import arguments, snippets, write_result

from attribune import AttributeModel, Categorical, Classification, Schema, TextInput, load_tokenizer
from attribune.backbones.loading import DEFAULT_BACKBONE
from attribune.core.console import quiet_libraries
from attribune.methods import METHODS
from attribune.models.panel import Panel
from attribune.models.predictor import Predictor


def predictor(method: str, members: int) -> Predictor:
    """An untrained model whose members differ."""
    schema = Schema.fit({"judge": [f"j{number}" for number in range(members)]}, [Categorical("judge")])
    torch.manual_seed(0)
    model = AttributeModel.build(
        DEFAULT_BACKBONE,
        schema,
        task=Classification(classes=("no", "yes")),
        method=METHODS[method](),
        tokenizer=load_tokenizer(DEFAULT_BACKBONE),
        text_input=TextInput(("text",)),
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("method.", "head.")) and float(parameter.abs().max()) == 0:
                parameter.normal_(std=0.02)
        for name in model.rows_of_values():
            model.get_parameter(name)[1:].normal_(std=0.1)
    return Predictor(model)


def measure(one: Predictor, texts: list[str], *, rounds: int) -> dict[str, float]:
    """Seconds of both ways by turns, and the largest difference of a probability."""
    panel = Panel.of(one, "judge")

    def ask_panel() -> Any:
        return panel.predict(one, {"text": texts})["probability_yes"]

    def ask_members() -> Any:
        each = [one.predict({"text": texts, "judge": [name] * len(texts)}) for name in panel.names]
        return np.mean([answers["probability_yes"] for answers in each], axis=0)

    ways: dict[str, Callable[[], Any]] = {"panel": ask_panel, "members": ask_members}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Any] = {}
    for _ in range(rounds):
        for name, ask in ways.items():
            begun = time.perf_counter()
            found[name] = ask()
            seconds[name].append(time.perf_counter() - begun)
    apart = float(np.abs(np.asarray(found["panel"]) - found["members"]).max())
    return {name: float(np.median(values)) for name, values in seconds.items()} | {"difference": apart}


def main() -> None:
    parser = arguments(__doc__, "panel", rounds=3)
    parser.add_argument("--members", type=int, default=400, metavar="N")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 32], metavar="N")
    parser.add_argument("--methods", nargs="+", default=["injector", "pln", "plora"], metavar="NAME")
    options = parser.parse_args()
    quiet_libraries()
    lines: list[dict[str, Any]] = []
    for method in options.methods:
        one = predictor(method, options.members)
        for count in options.texts:
            texts = [row["text"] for row in snippets()[:count]]
            lines.append({"method": method, "texts": count, **measure(one, texts, rounds=options.rounds)})
            print(lines[-1], flush=True)
    write_result(options.output, {"members": options.members, "lines": lines})


if __name__ == "__main__":
    main()
