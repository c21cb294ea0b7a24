"""What it costs in accuracy to update rows alone, to hash values into fewer rows than there are, and other savings.

    python benchmarks/tables_accuracy.py [--epochs 2] [--splits 2] [--rows 6000]
    python benchmarks/tables_accuracy.py --settings "no attention dropout" --name attention_dropout

An Injector over the packaged MiniLM on Rotten Tomatoes critics with critic, title and publication as attributes; the
same rows, budget and seed for every setting of a split, the loss of every tenth step kept. `all`: AdamW. `rows`:
`training.table_updates: rows` (RowAdamW). `hash 1` and `hash 1/4`: as many buckets as an attribute has values, and a
quarter as many. `adapter`: without attributes. `no attention dropout`: `backbone.attention_dropout: 0`, with which
torch's fused attention works in training; left out unless named. Trained on a part of the training rows, scored on all
test rows, all splits together, with paired bootstrap intervals of the differences to `all`. An interrupted run goes on:
each cell is kept in a folder beside the result. Writes benchmarks/results/tables_accuracy.json, or the name given.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, machine, write_result
from datasets import Dataset
from real_data import CARDS, Setting
from safetensors.numpy import load_file, save_file

from attribune import Categorical, Schema
from attribune.cli.console import quiet_libraries
from attribune.evaluation.bootstrap import interval, paired
from attribune.metrics import accuracy
from attribune.recipe import Recipe
from attribune.training.folder import RunFolder
from attribune.training.run import train

CELLS = RESULTS / "tables_accuracy"
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


def cell(name: str, split: int, epochs: int, rows: int) -> Path:
    """Train and keep scores and losses, unless that is done."""
    place = CELLS / f"{name.replace('/', '_').replace(' ', '_')}-{split}"
    if place.with_suffix(".json").is_file():
        return place
    parts = CARD.parts(split)
    for part, most in (("train", rows), ("validation", rows // 8)):
        parts[part] = parts[part].shuffle(seed=split).select(range(min(most, len(parts[part]))))
    recipe, shared = recipe_of(name, split, parts, epochs)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        results = train(recipe, run.path, tables=parts, baselines=False)
        lines = [json.loads(line) for line in run.log.read_text().splitlines()]
        scores = load_file(str(run.logits("test")))
    CELLS.mkdir(parents=True, exist_ok=True)
    save_file({key: scores[key] for key in ("labels", "logits")}, str(place.with_suffix(".safetensors")))
    losses = [line["loss"] for line in lines if "loss" in line]
    record = {"losses": losses, "shared": shared, "steps": results["training"]["steps"], "rows": results["rows"]}
    place.with_suffix(".json").write_text(json.dumps(record) + "\n")
    print(name, split, results["training"]["best_value"], flush=True)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["rows", "hash 1", "hash 1/4", "adapter"])
    parser.add_argument("--name", default="tables_accuracy", help="of the result file")
    options = parser.parse_args()
    quiet_libraries()
    found: dict[str, list[Path]] = {name: [] for name in ("all", *options.settings)}
    for split in range(options.splits):
        for name, places in found.items():
            places.append(cell(name, split, options.epochs, options.rows))
    metrics, rows = {}, {}
    for name, places in found.items():
        scores = [load_file(str(place.with_suffix(".safetensors"))) for place in places]
        records = [json.loads(place.with_suffix(".json").read_text()) for place in places]
        labels = np.concatenate([one["labels"] for one in scores])
        metrics[name] = accuracy(labels, np.concatenate([one["logits"].argmax(axis=1) for one in scores]))
        value = interval(metrics[name])
        rows[name] = {
            "accuracy": [value.value, value.low, value.high],
            "last_loss": float(np.mean([np.mean(one["losses"][-20:]) for one in records])),
            "losses": records[0]["losses"],
            "shared": records[0]["shared"],
            "rows": records[0]["rows"],
        }
    for name, row in rows.items():
        if name != "all":
            difference = paired(metrics[name], metrics["all"])
            row["against_all"] = [difference.difference, difference.low, difference.high, difference.p_value]
    result = {
        "machine": machine(),
        "epochs": options.epochs,
        "splits": options.splits,
        "rows": options.rows,
        "settings": rows,
    }
    print(json.dumps({name: {k: v for k, v in row.items() if k != "losses"} for name, row in rows.items()}, indent=1))
    write_result(options.name, result)


if __name__ == "__main__":
    main()
