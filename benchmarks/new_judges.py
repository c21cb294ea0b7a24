"""What a few judgements teach of people who were not there in training, beside a shrunken intercept.

    python benchmarks/new_judges.py --prepared data/politeness [--work FOLDER] [--shots 1 3 5 10 20] [--epochs 2]
        [--draws 5]

The politeness of requests (`attribune data prepare politeness`), MiniLM and an Injector with the judge as attribute. A
fifth of the judges with 40 judgements or more is taken out, and three quarters of the texts. Of each new judge up to 20
judgements of these texts are there to be learned from, and up to 60 others are scored. Those that are learned from are
drawn several times, and squared errors are means over the draws. `enrolled`: after `attribune enrol` with so many
judgements of each, with the weight of the prior that was learned at the end of the training, and with 1; `texts
chosen`: the same with the judgements that `attribune next` would have asked for, in one order; `by the encoder`: in one
pass, by what was trained with the model. `intercept`: a number for each judge on top of what the same model says
without one, and on top of a linear model of the text: the mean of what is left over, shrunk by variances that are
estimated on the validation rows. Intervals are over judges. What is done is not done again.
Writes benchmarks/results/new_judges.json.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset, concatenate_datasets
from harness import RUNS, arguments, write_result

from attribune.core.progress import quiet_libraries
from attribune.data.clusters import ClusterSettings, find_clusters
from attribune.data.tables import read_table
from attribune.data.texts import TextInput
from attribune.metrics.bootstrap import interval, paired
from attribune.metrics.formulas import rmse
from attribune.metrics.metric import Metric
from attribune.models.linear import choose_c
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.schema import Schema
from attribune.training.train import train
from attribune.values.enrol import enrol
from attribune.values.next_texts import next_texts

Array = npt.NDArray[Any]
LEAST, LEARNED, SCORED = 40, 20, 60  # judgements of a new judge, of these to be learned from, and to be scored


def split(folder: Path) -> dict[str, Dataset]:
    """Rows by part; ``learn`` and ``score`` are of new judges on texts that nobody judged in training."""
    parts = [read_table(folder / f"{name}.parquet") for name in ("train", "validation", "test")]
    rows = concatenate_datasets(parts).shuffle(seed=0)
    judges, texts = np.array(rows["judge"]), np.array(rows["text"])
    names, counts = np.unique(judges, return_counts=True)
    frequent = np.random.default_rng(0).permutation(names[counts >= LEAST])
    is_new = np.isin(judges, frequent[: len(frequent) // 5])
    found, which = np.unique(texts, return_inverse=True)
    share = np.random.default_rng(1).permutation(len(found))[which] / len(found)
    place = np.zeros(len(rows), dtype=np.int64)
    open_rows = is_new & (share >= 0.27)
    for name in np.unique(judges[open_rows]):
        mine = np.flatnonzero(open_rows & (judges == name))
        place[mine] = np.arange(len(mine))
    return {
        "train": rows.select(np.flatnonzero(~is_new & (share < 0.24))),
        "validation": rows.select(np.flatnonzero(~is_new & (share >= 0.24) & (share < 0.27))),
        "learn": rows.select(np.flatnonzero(open_rows & (place < LEARNED))),
        "score": rows.select(np.flatnonzero(open_rows & (place >= LEARNED) & (place < LEARNED + SCORED))),
    }


def numbers(rows: Dataset) -> Array:
    return np.array(rows["score"], dtype=np.float64)


def told(run: Path, rows: Dataset, *, hide: bool = False) -> Array:
    """What a run says of rows."""
    predictor = load_run(run)[1]
    logits, _ = predictor.logits(rows, hide_attributes=hide)
    return np.array(predictor.task.decode(logits).predictions["prediction"], dtype=np.float64)


def linear(parts: dict[str, Dataset], run: Path) -> dict[str, Array]:
    """What a linear model of the text alone says."""
    task, empty = load_run(run)[1].task, Schema([])
    labels = {name: task.encode_labels([parts[name]["score"]])[0] for name in ("train", "validation")}
    ids = {name: np.zeros((len(rows), 0), np.int64) for name, rows in parts.items()}
    model, _ = choose_c(
        list(parts["train"]["text"]),
        ids["train"],
        schema=empty,
        labels=labels["train"],
        task=task,
        validation_texts=list(parts["validation"]["text"]),
        validation_ids=ids["validation"],
        validation_labels=labels["validation"],
    )
    predictor = Predictor(model, text_input=TextInput(("text",)))
    found = {}
    for name, rows in parts.items():
        logits, _ = predictor.logits(rows)
        found[name] = np.array(task.decode(logits).predictions["prediction"], dtype=np.float64)
    return found


def intercepts(parts: dict[str, Dataset], text: dict[str, Array], learned: Array) -> Array:
    """Predictions for the scored rows with an intercept for each judge, learned from the rows of a mask."""
    left = {name: numbers(parts[name]) - text[name] for name in ("validation", "learn")}
    groups = by_judge(parts["validation"])
    several = [left["validation"][rows] for rows in groups.values() if len(rows) > 1]
    within = sum(float(np.square(one - one.mean()).sum()) for one in several) / sum(len(one) - 1 for one in several)
    pairs = [(one.sum() ** 2 - np.square(one).sum(), len(one) * (len(one) - 1)) for one in several]
    between = max(0.0, sum(product for product, _ in pairs) / sum(count for _, count in pairs))
    found, scored = text["score"].copy(), by_judge(parts["score"])
    for name, rows in by_judge(parts["learn"]).items():
        one = left["learn"][rows[learned[rows]]]
        found[scored.get(name, [])] += between * one.sum() / (between * len(one) + within)
    return found


def drawn(parts: dict[str, Dataset], draws: int) -> list[Array]:
    """The place of each judgement that is there to be learned from among its judge's, in several orders."""
    orders = [np.zeros(len(parts["learn"]), dtype=np.int64) for _ in range(draws)]
    for rows in by_judge(parts["learn"]).values():
        for draw, places in enumerate(orders):
            places[rows] = np.random.default_rng(draw).permutation(len(rows)) if draw else np.arange(len(rows))
    return orders


def chosen(parts: dict[str, Dataset], run: Path) -> Array:
    """The place of each judgement that is there to be learned from, in the order in which `next` asks for them."""
    places = np.zeros(len(parts["learn"]), dtype=np.int64)
    for name, rows in by_judge(parts["learn"]).items():
        texts = parts["learn"].select(rows).select_columns(["text"])
        order = next_texts(run, texts, attribute="judge", value=name, count=len(rows))
        places[rows[[text.row - 1 for text in order]]] = np.arange(len(rows))
    return places


def by_judge(rows: Dataset) -> dict[str, Array]:
    judges = np.array(rows["judge"])
    return {str(name): np.flatnonzero(judges == name) for name in np.unique(judges)}


def recipe(epochs: int) -> Recipe:
    return Recipe.from_dict(
        {
            "data": {
                "train": "given",
                "validation": "given",
                "text": ["text"],
                "label": ["score"],
                "attributes": [{"kind": "categorical", "name": "judge"}],
                "max_length": 64,
            },
            "task": {"kind": "regression"},
            "method": {"name": "injector"},
            "training": {"epochs": epochs, "learning_rate": 1e-3, "precision": "float32"},
        }
    )


def main() -> None:
    parser = arguments(__doc__, "new_judges")
    parser.add_argument("--prepared", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--work", type=Path, default=RUNS / "new-judges", metavar="FOLDER")
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    parser.add_argument("--draws", type=int, default=5, metavar="N", help="of the judgements that are learned from")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 3, 5, 10, 20], metavar="N")
    options = parser.parse_args()
    quiet_libraries()
    parts, run = split(options.prepared), options.work / "run"
    given = {name: parts[name] for name in ("train", "validation")}
    train(recipe(options.epochs), run, tables=given, baselines=False, resume=True)
    settings = ClusterSettings(cluster="judge", texts=("text",), judges=("judge",))
    clusters = tuple(find_clusters(parts["score"], settings).values())
    true, orders = numbers(parts["score"]), drawn(parts, options.draws)

    def metric(predicted: list[Array]) -> Metric:
        """The errors of all draws; what is the same for each is given once."""
        predicted = predicted if len(predicted) > 1 else predicted * len(orders)
        each = rmse(np.tile(true, len(orders)), np.concatenate(predicted))
        return replace(each, clusters=tuple(np.tile(one, len(orders)) for one in clusters))

    hidden = {name: told(run, rows, hide=True) for name, rows in parts.items() if name != "train"}
    texts = {"intercept": hidden, "linear, intercept": linear(parts, run)}
    base = metric([hidden["score"]])
    learned = (load_run(run)[1].model.config.value_priors or {}).get("judge")  # type: ignore[attr-defined]
    lines: list[dict[str, Any]] = []

    def line(name: str, shots: int, predicted: list[Array], **more: Any) -> None:
        found = metric(predicted)
        value, gap = interval(found), paired(found, base)
        lines.append(
            {
                "name": name,
                "shots": shots,
                "rmse": [value.value, value.low, value.high],
                "against_none": [gap.difference, gap.low, gap.high],
                **more,
            }
        )

    line("none", 0, [hidden["score"]])
    line("linear", 0, [texts["linear, intercept"]["score"]])
    asked = [chosen(parts, run)]
    ways: dict[str, tuple[dict[str, Any], Any]] = {
        "enrolled": ({}, orders),
        "enrolled, prior of 1": ({"prior": 1.0 / (learned or 1.0)}, orders),
        "enrolled, texts chosen": ({}, asked),
    }

    def enrolled(name: str, shots: int, draw: int) -> dict[str, Any]:
        """Seconds a value and predictions, once they are computed, from the file that has them."""
        done = options.work / f"{name.replace(', ', '-').replace(' ', '-')}-{shots}-{draw}.json"
        if not done.is_file():
            way, places = ways[name]
            copy = options.work / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run, copy)
            rows = parts["learn"].select(np.flatnonzero(places[draw] < shots))
            result = enrol(copy, rows, **way)
            seconds = result.seconds / len(result.values)
            stored = {"seconds": seconds, "predicted": told(copy, parts["score"]).tolist()}
            done.write_text(json.dumps(stored), encoding="utf-8")
        found: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
        return found

    for shots in options.shots:
        shifted: dict[str, list[Array]] = {}
        for name, text in texts.items():
            shifted[name] = [intercepts(parts, text, places < shots) for places in orders]
            line(name, shots, shifted[name])
        for name, (_, places) in ways.items():
            found = [enrolled(name, shots, draw) for draw in range(len(places))]
            predicted = [np.array(one["predicted"]) for one in found]
            gap = paired(metric(predicted), metric(shifted["intercept"]))
            line(
                name,
                shots,
                predicted,
                seconds=float(np.mean([one["seconds"] for one in found])),
                against_intercept=[gap.difference, gap.low, gap.high],
            )
        print(shots, [(one["name"], round(one["rmse"][0], 3)) for one in lines if one["shots"] == shots], flush=True)
    write_result(
        options.output,
        {
            "training_rows": len(parts["train"]),
            "new_judges": len(by_judge(parts["score"])),
            "scored_rows": len(true),
            "epochs": options.epochs,
            "draws": options.draws,
            "prior_weight": learned,
            "lines": lines,
        },
    )


if __name__ == "__main__":
    main()
