"""What it costs in accuracy to update rows alone, to hash values into fewer rows than there are, and other savings.

    python benchmarks/tables_accuracy.py [--epochs 2] [--splits 2] [--rows 6000]
    python benchmarks/tables_accuracy.py --settings "no attention dropout" --output FILE

An Injector over the packaged MiniLM on Rotten Tomatoes critics with critic, title and publication as attributes; the
same rows, budget and seed for every setting of a split. `all`: AdamW. `rows`:
`training.table_updates: rows` (RowAdamW). `hash 1` and `hash 1/4`: as many buckets as an attribute has values, and a
quarter as many. `adapter`: without attributes. `no attention dropout`: `backbone.attention_dropout: 0`, with which
torch's fused attention works in training; left out unless named. Trained on a part of the training rows, scored on all
test rows, all splits together, with paired bootstrap intervals of the differences to `all`. An interrupted run goes on:
each cell is a run in benchmarks/runs/. Writes benchmarks/results/tables_accuracy.json.
"""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
from datasets import Dataset
from harness import RUNS, arguments, write_result
from real_data import CARDS, Setting
from safetensors.numpy import load_file

from attribune import Categorical, Schema
from attribune.core.files import read_json_lines
from attribune.core.progress import quiet_libraries
from attribune.metrics.bootstrap import interval, paired
from attribune.metrics.formulas import accuracy
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.training.train import train

LAST = 20  # losses that are averaged, those of every tenth step
SETTINGS: dict[str, dict[str, Any]] = {
    "all": {"updates": "all"},
    "rows": {"updates": "rows"},
    "hash 1": {"updates": "all", "buckets": 1.0},
    "hash 1/4": {"updates": "all", "buckets": 0.25},
    "adapter": {"updates": "all", "method": "adapter"},
    "no attention dropout": {"updates": "all", "attention_dropout": 0.0},
}
CARD = CARDS["critics"]


def recipe_of(name: str, split: int, parts: dict[str, Dataset], epochs: int) -> tuple[Recipe, dict[str, float]]:
    """The recipe of a setting, and the share of each attribute's values that share a bucket."""
    setting = SETTINGS[name]
    recipe = Setting(
        name=name, method=setting.get("method", "injector"), training={"table_updates": setting["updates"]}
    ).recipe(CARD, split, budget={"epochs": epochs}, max_length=64)
    if "attention_dropout" in setting:
        backbone = recipe.backbone.model_dump() | {"attention_dropout": setting["attention_dropout"]}
        return Recipe.from_dict(recipe.model_dump() | {"backbone": backbone}), {}
    if "buckets" not in setting:
        return recipe, {}
    plain = Schema.fit(parts["train"], [Categorical(column) for column in CARD.attributes])
    kinds, shared = [], {}
    for attribute in plain:
        buckets = max(1, round(setting["buckets"] * len(attribute.values)))
        kinds.append({"name": attribute.name, "unseen": "hash", "buckets": buckets})
        report = Schema.fit(parts["train"], [Categorical(**kinds[-1])]).fit_report
        assert report is not None
        found = report.attributes[attribute.name]
        shared[attribute.name] = found.shared / found.found
    data = recipe.data.model_dump() | {"attributes": kinds}
    return Recipe.from_dict(recipe.model_dump() | {"data": data}), shared


def trained(name: str, split: int, epochs: int, rows: int) -> tuple[RunFolder, dict[str, float]]:
    """The run of a setting without its weights, which is trained unless it is there, and what shares a bucket."""
    parts = CARD.parts(split)
    for part, most in (("train", rows), ("validation", rows // 8)):
        parts[part] = parts[part].shuffle(seed=split).select(range(min(most, len(parts[part]))))
    recipe, shared = recipe_of(name, split, parts, epochs)
    run = RunFolder(RUNS / "tables_accuracy" / f"{name.replace('/', '_').replace(' ', '_')}-{split}-{epochs}-{rows}")
    if not run.is_finished:
        train(recipe, run.path, tables=parts, baselines=False, resume=True)
        shutil.rmtree(run.model)
    return run, shared


def main() -> None:
    parser = arguments(__doc__, "tables_accuracy")
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    parser.add_argument("--splits", type=int, default=2, metavar="N")
    parser.add_argument("--rows", type=int, default=6000, metavar="N", help="of training, at most")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["rows", "hash 1", "hash 1/4", "adapter"])
    options = parser.parse_args()
    quiet_libraries()
    metrics, rows = {}, {}
    for name in ("all", *options.settings):
        found = [trained(name, split, options.epochs, options.rows) for split in range(options.splits)]
        scores = [load_file(str(run.logits("test"))) for run, _ in found]
        losses = [[line["loss"] for line in read_json_lines(run.log) if "loss" in line][-LAST:] for run, _ in found]
        labels = np.concatenate([one["labels"] for one in scores])
        metrics[name] = accuracy(labels, np.concatenate([one["logits"].argmax(axis=1) for one in scores]))
        value, gap = interval(metrics[name]), paired(metrics[name], metrics["all"])
        rows[name] = {
            "accuracy": [value.value, value.low, value.high],
            "last_loss": float(np.mean([np.mean(one) for one in losses])),
            "shared": found[0][1],
            "rows": found[0][0].read_results().rows,
        }
        if name != "all":
            rows[name]["against_all"] = [gap.difference, gap.low, gap.high, gap.p_value]
    result = {"epochs": options.epochs, "splits": options.splits, "rows": options.rows, "settings": rows}
    write_result(options.output, result)


if __name__ == "__main__":
    main()
