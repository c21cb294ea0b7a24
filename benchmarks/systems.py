"""Time and memory of a pass: systems without pretraining beside the packaged MiniLM, with the same attributes.

    python benchmarks/systems.py --prepared data/amazon-instruments [--rows 32] [--rounds 11]

The systems are the settings of the experiment `ma-bert --small`, read from there, untrained, on one batch of the set's
training rows. All take turns in one process: `predict` is a forward pass, `step` a forward and a backward pass. `peak`
is what a process of its own took at most for one step beyond what the model itself has, gradients included. Texts are
cut where the experiment cuts them: at 64 tokens of MiniLM, or 96 words. Writes benchmarks/results/systems.json.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from harness import arguments, by_turns, child, milliseconds, ratio, seconds, write_result

from attribune.core.process import peak_megabytes
from attribune.core.progress import Reporter
from attribune.runs.recipe import Recipe
from attribune.training.neural import build_model
from attribune.training.plan import TrainingPlan
from attribune.training.preparation import encode_split, prepare
from attribune_lab.benchmark.experiment import Cell, Experiment, SetPlan, read_experiment
from attribune_lab.benchmark.source import SetSource

MIB = 2**20 / 1e6  # in MB
REFERENCE = "MiniLM"


def experiment_on(prepared: str) -> Experiment:
    """The experiment, on one set and without the baselines that train no network."""
    found = read_experiment("ma-bert", small=True)
    settings = []
    for setting in (one for one in found.settings if not one.is_baseline):
        backbone = {name: value for name, value in setting.backbone.items() if name != "word_vectors"}
        settings.append(setting.model_copy(update={"backbone": backbone}))
    sets = (SetPlan(name="set", prepared=prepared, rows=2000),)
    return found.model_copy(update={"settings": tuple(settings), "sets": sets})


def model_and_batch(prepared: str, name: str, rows: int) -> tuple[Any, dict[str, torch.Tensor]]:
    """The untrained model of a setting, and its first training rows."""
    torch.manual_seed(0)
    experiment = experiment_on(prepared)
    plan = experiment.sets[0]
    source = SetSource(plan)
    data, task = source.recipe_parts()
    cell = Cell(set=plan, setting=experiment.setting(name), fold=0)
    recipe, tables = source.tables(Recipe.from_dict(experiment.recipe(cell, data=data, task=task)), 0, trial=True)
    training = TrainingPlan.of(recipe)
    ready = prepare(training.data, tables)
    model = build_model(training.model, training.data, ready, Reporter())
    encoded = encode_split("train", ready, training.data, model)
    return model, model.collator()([encoded[row] for row in range(rows)])


def step(model: Any, batch: dict[str, torch.Tensor]) -> float:
    """Seconds of a forward and a backward pass."""
    model.train()
    took = seconds(lambda: model(**batch).loss.backward())
    model.zero_grad()
    return took


def predict(model: Any, batch: dict[str, torch.Tensor]) -> float:
    """Seconds of a forward pass."""
    model.eval()
    with torch.inference_mode():
        return seconds(lambda: model(**batch))


def peak(prepared: str, name: str, rows: int) -> float:
    """MB that a step takes beyond the model."""
    model, batch = model_and_batch(prepared, name, rows)
    before = peak_megabytes()
    step(model, batch)
    return (peak_megabytes() - before) * MIB


def measure(prepared: str, *, rows: int, rounds: int) -> dict[str, Any]:
    """Every system: parameters, milliseconds, ratios to MiniLM, MB."""
    names = [setting.name for setting in experiment_on(prepared).settings]
    built = {name: model_and_batch(prepared, name, rows) for name in names}
    jobs = {(name, job.__name__): (lambda job=job, one=one: job(*one)) for name, one in built.items() for job in JOBS}
    times = by_turns(jobs, rounds)
    took = milliseconds(times)
    found: dict[str, Any] = {}
    for name, (model, batch) in built.items():
        found[name] = {
            "parameters": sum(p.numel() for p in model.parameters()),
            "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "ids": batch["input_ids"].numel(),
            "step_peak": round(child(peak, prepared, name, rows), 1),
        }
        for job in JOBS:
            key = job.__name__
            found[name][f"{key}_ms"] = round(took[name, key], 2)
            found[name][f"{key}_ratio"] = round(ratio(times[name, key], times[REFERENCE, key]), 4)
    return found


JOBS = (predict, step)

if __name__ == "__main__":
    parser = arguments(__doc__, "systems", rounds=11)
    parser.add_argument("--prepared", required=True, metavar="DIR", help="prepared data set")
    parser.add_argument("--rows", type=int, default=32, metavar="N", help="of the batch; 32")
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    systems = measure(str(Path(words.prepared).resolve()), rows=words.rows, rounds=words.rounds)
    write_result(words.output, {"rows": words.rows, "systems": systems})
