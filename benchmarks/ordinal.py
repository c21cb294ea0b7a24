"""Ordered answers as `rating`, as `ordinal`, and as `ordinal` with cut points of each person's own.

    python benchmarks/ordinal.py --prepared data [--work FOLDER] [--seeds 1] [--steps 100] [--rows 2000]

The folder holds `studemo`, `amazon-instruments` and `politeness`, as `attribune data prepare` writes them: valence in
seven levels, one to five stars, and politeness in twenty-five levels. An Injector in MiniLM reads the judge, or the
user and the product, on the same training rows and for as many steps; only the task differs. Each task is trained with
the same learning rates, and the one whose log loss is lowest on the validation rows is shown. Each set is a benchmark
of its own in the folder of the work, which `attribune benchmark table` shows; finished cells are not trained again.
Shown are the log loss, the RMSE of the expected number, and kappa with quadratic weights of the most probable one.
Writes benchmarks/results/ordinal.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from harness import RUNS, arguments, write_result
from scipy.special import log_softmax

from attribune.core.progress import ConsoleReporter, quiet_libraries
from attribune.metrics.bootstrap import Interval, PairedResult
from attribune_lab.benchmark.experiment import Experiment
from attribune_lab.benchmark.results import BenchmarkFolder
from attribune_lab.benchmark.runner import check_experiment, run_cell
from attribune_lab.benchmark.tables import Line, benchmark_tables

METRICS, RATES = ("log_loss", "rmse", "kappa"), (1e-3, 3e-3)
SETS = {
    "studemo": ("StudEmo, valence", "annotator", {}),
    "amazon-instruments": ("Amazon instruments, stars", "user", {}),
    "politeness": ("Politeness of requests", "judge", {"classes": [str(number) for number in range(1, 26)]}),
}


def experiment(name: str, prepared: Path, *, seeds: int, steps: int, rows: int) -> Experiment:
    """The three tasks on one set, each with every learning rate."""
    title, person, task = SETS[name]
    tasks: dict[str, dict[str, Any]] = {
        "rating": {},
        "ordinal": {"kind": "ordinal"},
        "ordinal, personal cut points": {"kind": "ordinal", "personal_cut_points": person},
    }
    plan = {
        "name": name,
        "title": title,
        "prepared": str(prepared / name),
        "folds": list(range(seeds)),
        "rows": rows,
        "test_rows": 600,
        "task": {"kind": "rating", "expected": True, "score_by": ["rmse", "kappa"], **task},
    }
    settings = [
        {"name": f"{of} {rate:g}", "method": "injector", "task": change, "training": {"learning_rate": rate}}
        for of, change in tasks.items()
        for rate in RATES
    ]
    return Experiment.from_dict(
        {
            "name": f"ordinal-{name}",
            "title": f"Ordered answers: {title}",
            "sets": [plan],
            "settings": settings,
            "choices": [{"name": of, "of": [f"{of} {rate:g}" for rate in RATES]} for of in tasks],
            "data": {"max_length": 24},
            "training": {"steps": steps, "evaluate_every": steps, "batch_size": 16, "precision": "bf16"},
        }
    )


def train(folder: BenchmarkFolder, asked: Experiment) -> None:
    """Train the cells that are missing, one after the other."""
    check_experiment(asked)
    folder.begin(asked)
    for cell in asked.cells():
        if not folder.is_done(cell):
            outcome = run_cell(asked, cell, folder, reporter=ConsoleReporter())
            print(f"{cell.path}: {outcome.word}", flush=True)


def figures(found: Interval | PairedResult) -> list[float]:
    """A figure or a difference with its interval."""
    value = found.value if isinstance(found, Interval) else found.difference
    return [value, found.low, found.high]


def loss_by_answer(line: Line) -> dict[str, list[float]]:
    """How many scored rows have each answer, and the mean of `-log P` over them."""
    scores = [result.scores("test") for result in line.group.results]
    answers = line.group.results[0].metrics.task["classes"]
    logits, labels = (np.concatenate([one[name] for one in scores]) for name in ("logits", "labels"))
    losses = -log_softmax(logits.astype(np.float64), axis=1)[np.arange(len(labels)), labels]
    which = {name: labels == number for number, name in enumerate(answers)}
    return {name: [int(rows.sum()), float(losses[rows].mean())] for name, rows in which.items() if rows.any()}


def summary(line: Line, reference: Line) -> dict[str, Any]:
    """A task on a set with the rate that was chosen, and how far it is from the first task on the same rows."""
    pairs = {} if line is reference else line.group.against(reference.group)
    return {
        "name": line.name,
        "learning_rate": line.group.results[0].record.learning_rate,
        **{name: figures(line.metrics[name]) for name in METRICS},
        "loss_by_answer": loss_by_answer(line),
        "against": {name: figures(pairs[name]) for name in METRICS if pairs},
    }


def main() -> None:
    parser = arguments(__doc__, "ordinal")
    parser.add_argument("--prepared", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--work", type=Path, default=RUNS / "ordinal", metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="of rows and trainings")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="of each training")
    parser.add_argument("--rows", type=int, default=2000, metavar="N", help="training rows of each set")
    options = parser.parse_args()
    quiet_libraries()
    found = []
    for seeds in range(1, options.seeds + 1):  # all sets with the first seed, then those with the next
        for name in SETS:
            asked = experiment(name, options.prepared, seeds=seeds, steps=options.steps, rows=options.rows)
            train(BenchmarkFolder(options.work / name), asked)
    for name in SETS:
        (table,) = benchmark_tables(BenchmarkFolder(options.work / name))
        chosen = [line for line in table.lines if line.chosen is not None]
        found.append(
            {
                "name": name,
                "title": table.plan.heading,
                "scored_rows": chosen[0].rows,
                "clusters": chosen[0].clusters,
                "tasks": [summary(line, chosen[0]) for line in chosen],
            }
        )
    write_result(options.output, {"steps": options.steps, "rows": options.rows, "seeds": options.seeds, "sets": found})


if __name__ == "__main__":
    main()
