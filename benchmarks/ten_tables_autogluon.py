"""AutoGluon Tabular on the rows of the ten tables, beside what `ten_tables.py` measured.

    python benchmarks/ten_tables_autogluon.py [--table news] [--seeds 0]

Of medium quality, with the text and the attributes as columns, on the training and validation rows of each cell of
`linear` that is done, with its arguments: see there. It predicts one column of labels; of several aspects each is
learned alone. Adds cells of the setting `autogluon` to the file of results. What is done is not done again.
"""

from __future__ import annotations

import argparse
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import arguments
from ten_tables import REFERENCE, Cell, add_result, compare, options_of, read_results, table_of, values_of

from attribune.runs.stored_scores import StoredScores
from attribune.tasks.base import scored_metrics

SETTING, LABEL = "autogluon", "label of the task"
SMALLEST = 1e-6  # probability of a class that AutoGluon leaves out


def predicted(rows: dict[str, pd.DataFrame], classes: int | None, path: Path) -> dict[str, np.ndarray]:
    """The logits (n, classes) of validation and test rows, or their numbers (n, 1) where there are no classes."""
    from autogluon.tabular import TabularPredictor

    given = {name: rows[name] for name in ("train", "validation")}
    if classes is None:
        settings = {"problem_type": "regression", "eval_metric": "root_mean_squared_error"}
    else:
        given = {name: part[part[LABEL] >= 0] for name, part in given.items()}  # others are of classes not in training
        settings = {"problem_type": "binary" if classes == 2 else "multiclass", "eval_metric": "log_loss"}
    predictor = TabularPredictor(label=LABEL, path=str(path), verbosity=1, **settings)
    predictor.fit(given["train"], tuning_data=given["validation"], presets="medium_quality")
    found = {}
    for name in ("validation", "test"):
        features = rows[name].drop(columns=LABEL)
        if classes is None:
            found[name] = predictor.predict(features).to_numpy()[:, None]
        else:
            shares = predictor.predict_proba(features).reindex(columns=range(classes), fill_value=0.0)
            found[name] = np.log(np.maximum(shares.to_numpy(), SMALLEST))
    return found


def measured(cell: Cell, known: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """What is found on the rows of the reference, of which `known` is already written."""
    started, table = time.perf_counter(), table_of(cell.table)
    scores = StoredScores.read(cell.beside(REFERENCE).run(options.folder).path)
    task, path = scores.task, cell.run(options.folder).path
    parts = {name: rows.to_pandas() for name, rows in table.parts(cell.seed, options.rows).items()}
    labels = {name: task.encode_labels([list(rows[one]) for one in table.label])[0] for name, rows in parts.items()}
    features = {name: rows[["text", *table.attributes]] for name, rows in parts.items()}
    logits = []
    for choice in task.codec.choices:
        given = {name: rows.assign(**{LABEL: choice.labels(labels[name])}) for name, rows in features.items()}
        logits.append(predicted(given, len(choice.codec.classes), path / (choice.name.replace("/", "_") or "label")))
    if not logits:
        given = {name: rows.assign(**{LABEL: labels[name]}) for name, rows in features.items()}
        logits.append(predicted(given, None, path))
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    joined = {part: np.concatenate([one[part] for one in logits], axis=1) for part in logits[0]}
    np.save(cell.own_logits(options.folder), joined["test"])
    return {
        **{name: known[name] for name in ("proper", "main", "rows")},
        "seconds": round(time.perf_counter() - started, 1),
        **{
            part: values_of(scored_metrics(task, found, scores.parts[part]["labels"])) for part, found in joined.items()
        },
    }


def main() -> None:
    options = options_of(arguments(__doc__, "ten_tables"))
    if find_spec("autogluon") is None:
        print("AutoGluon is not installed, so nothing is measured: pip install autogluon.tabular[all]")
        return
    for cell in [Cell(table=table, setting=SETTING, seed=seed) for seed in options.seeds for table in options.table]:
        done, reference = read_results(options.output)["cells"], cell.beside(REFERENCE)
        if reference.key not in done:
            print(f"{cell.key}: {reference.key} is not done yet")
        elif cell.key not in done:
            found = measured(cell, done[reference.key], options)
            add_result(options.output, options.folder, "cells", cell.key, found)
            compare(options.output, options.folder, cell.table, options.rows)
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
