"""What a few rows teach of critics who were not there in training, beside a training that had these rows.

    python benchmarks/enrolment.py [--held 60] [--rows 8000] [--epochs 2] [--shots 1 5 20]

Rotten Tomatoes critics, an Injector over the packaged MiniLM with the critic as attribute. As many critics with 30 rows
or more as ``--held`` says are taken out of the training rows; of each, up to 20 rows are there to be learned from, and
the others are scored. `unknown`: before. `enrolled`: after `attribune enrol` with so many rows of each critic. `mean`:
every held-out critic has the mean of the trained vectors. `trained`: an Injector trained with these rows among the
others from the beginning. Differences are paired over the scored rows, with bootstrap intervals. Writes
benchmarks/results/enrolment.json.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset, concatenate_datasets
from harness import arguments, write_result
from real_data import CARDS, Setting

from attribune.core.progress import quiet_libraries
from attribune.metrics.bootstrap import interval, paired
from attribune.metrics.formulas import accuracy, log_loss
from attribune.metrics.metric import Metric
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.training.train import train
from attribune.values.enrol import enrol

CARD = CARDS["critics"]
COLUMN = "critic"
LEAST, MOST = 30, 20  # rows of a critic who is held out, and those of them to be learned from


def split(held: int, rows: int) -> tuple[dict[str, Dataset], Dataset, Dataset]:
    """Parts without the critics who are held out, and of these the rows to be learned from and those to be scored."""
    parts = CARD.parts(0)
    everything = concatenate_datasets([parts[name] for name in ("train", "validation", "test")]).shuffle(seed=0)
    names = np.array(everything[COLUMN])
    found, counts = np.unique(names.astype(str), return_counts=True)
    frequent = found[(counts >= LEAST) & (found != "None") & (found != "")]
    chosen = set(np.random.default_rng(0).permutation(frequent)[:held].tolist())
    inside = np.array([name in chosen for name in names])
    place = np.zeros(len(names), dtype=np.int64)  # of each row among its critic's
    for name in chosen:
        mine = np.flatnonzero(names == name)
        place[mine] = np.arange(len(mine))
    others = everything.select(np.flatnonzero(~inside))
    cut = min(rows, len(others) - 800)
    kept = {"train": others.select(range(cut)), "validation": others.select(range(cut, cut + 800))}
    learn = everything.select(np.flatnonzero(inside & (place < MOST)))
    learn = learn.add_column("place", place[inside & (place < MOST)])
    return kept, learn, everything.select(np.flatnonzero(inside & (place >= MOST)))


def recipe(epochs: int) -> Recipe:
    """An Injector with the critic alone."""
    made = Setting(name="injector", method="injector").recipe(CARD, 0, budget={"epochs": epochs}, max_length=64)
    data = made.data.model_dump() | {"attributes": [{"kind": "categorical", "name": COLUMN}], "test": None}
    return Recipe.from_dict(made.model_dump() | {"data": data})


def scores(run: Path, rows: Dataset) -> npt.NDArray[Any]:
    return load_run(run)[1].logits(rows)[0]


def labels_of(run: Path, rows: Dataset) -> npt.NDArray[Any]:
    loaded, predictor = load_run(run)
    return predictor.task.encode_labels([list(rows[column]) for column in loaded.data.label])[0]


def with_mean(run: Path, rows: Dataset) -> npt.NDArray[Any]:
    """Scores of critics of whom no more is known than what critics are like."""
    predictor = load_run(run)[1]
    model: Any = predictor.model
    ids = predictor.encode_rows(rows)
    with torch.no_grad():
        for name in model.attribute_tables():
            table = model.get_parameter(name)
            table[0] = table[1:].mean(dim=0)
            table[1] = table[0]  # id 0 adds nothing: another one stands for the unknown
    return predictor.score(ids.with_attribute_ids(np.ones_like(ids.attribute_ids)))


def metrics(logits: npt.NDArray[Any], labels: npt.NDArray[Any]) -> dict[str, Metric]:
    return {"accuracy": accuracy(labels, logits.argmax(axis=1)), "log_loss": log_loss(labels, logits)}


def shown(found: dict[str, Metric], base: dict[str, Metric]) -> dict[str, Any]:
    values = {name: interval(metric) for name, metric in found.items()}
    gaps = {name: paired(metric, base[name]) for name, metric in found.items()}
    return {
        name: {
            "value": [values[name].value, values[name].low, values[name].high],
            "against_unknown": [gaps[name].difference, gaps[name].low, gaps[name].high],
        }
        for name in found
    }


def main() -> None:
    parser = arguments(__doc__, "enrolment")
    parser.add_argument("--held", type=int, default=60, metavar="N", help="critics who are taken out")
    parser.add_argument("--rows", type=int, default=8000, metavar="N", help="of training, at most")
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5, 20], metavar="N", help="rows of each critic")
    options = parser.parse_args()
    quiet_libraries()
    parts, learn, scored = split(options.held, options.rows)
    place = np.array(learn["place"])
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "without"
        train(recipe(options.epochs), run, tables=parts, baselines=False)
        labels = labels_of(run, scored)
        base = metrics(scores(run, scored), labels)
        rows: dict[str, Any] = {
            "unknown": shown(base, base),
            "mean": shown(metrics(with_mean(run, scored), labels), base),
        }
        seconds: dict[str, float] = {}
        for shots in options.shots:
            given = learn.select(np.flatnonzero(place < shots)).remove_columns("place")
            copy = Path(shutil.copytree(run, Path(name) / f"enrolled-{shots}"))
            done = enrol(copy, given)
            enrolled = f"enrolled, {shots} rows"
            seconds[enrolled] = done.seconds / len(done.values)
            rows[enrolled] = shown(metrics(scores(copy, scored), labels), base)
            with_them = {**parts, "train": concatenate_datasets([parts["train"], given]).shuffle(seed=1)}
            trained = Path(name) / f"trained-{shots}"
            train(recipe(options.epochs), trained, tables=with_them, baselines=False)
            rows[f"trained, {shots} rows"] = shown(metrics(scores(trained, scored), labels), base)
            print(shots, json.dumps({name: row["accuracy"] for name, row in rows.items()}), flush=True)
    result = {
        "held": options.held,
        "training_rows": len(parts["train"]),
        "scored_rows": len(scored),
        "epochs": options.epochs,
        "seconds_per_value": seconds,
        "rows": rows,
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()
