"""Whether a new value should have an intercept of its own beside its vector, with few of its rows.

    python benchmarks/value_intercept.py [--set politeness films] [--draws 20]

Frequent judges of politeness and critics of films are held out of the training of an Injector over MiniLM; of each, up
to 20 rows are there to be learned from and 40 others are scored, judges' on texts that nobody judged in training. The
logits of rows are taken as linear in the vector of their value, as `attribune enrol` does. `vector`: the most probable
vector, with the prior that makes the rows of known values likeliest. `both`: with an intercept for each output, whose
prior is chosen together with the vector's. `intercept`: it alone. The rows that are learned from are drawn several
times; scores are means of the proper loss over the draws, and intervals are over values. A training and the derivatives
are kept in benchmarks/runs/. Writes benchmarks/results/value_intercept.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from datasets import Dataset
from harness import RUNS, arguments, write_result
from ten_tables import Table, table_of
from torch import Tensor

from attribune.core.progress import ConsoleReporter, quiet_libraries
from attribune.metrics.bootstrap import paired
from attribune.metrics.formulas import mean_of
from attribune.metrics.metric import Metric
from attribune.models.config import TYPICAL_PRIOR_WEIGHT
from attribune.models.model import AttributeModel
from attribune.runs.loading import load_run
from attribune.tasks import Task
from attribune.training.train import train
from attribune.values import posterior

Array = npt.NDArray[Any]
FOLDER = RUNS / "value_intercept"
SETS: dict[str, tuple[str, int, int]] = {"politeness": ("judge", 9_000, 40), "films": ("critic", 6_000, 40)}
"""The attribute, the training rows, and the least rows of a value that is held out."""
SHOTS = (1, 3, 5, 10, 20)
LEARNED, SCORED, MOST_VALUES, MOST_VALIDATION = 20, 40, 60, 1_200
INTERCEPTS = (0.0, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0)  # deviations of the prior, in units of the logits


def split(table: Table, attribute: str, least: int, most: int) -> dict[str, Dataset]:
    """Rows by part; `learn` and `score` are of values that are held out."""
    rows = table.cleaned(None).shuffle(seed=0)
    values, texts = np.array([str(value) for value in rows[attribute]]), np.array(rows["text"])
    names, counts = np.unique(values, return_counts=True)
    frequent = np.random.default_rng(0).permutation(names[(counts >= least) & ~np.isin(names, ("None", "nan"))])
    is_new = np.isin(values, frequent[: min(MOST_VALUES, len(frequent) // (3 if table.judge is None else 5))])
    different, which = np.unique(texts, return_inverse=True)
    share = np.random.default_rng(1).permutation(len(different))[which] / len(different)
    train, validation = (share >= 0.12, share < 0.12) if table.judge is None else (share < 0.24, share < 0.27)
    is_open = is_new if table.judge is None else is_new & (share >= 0.27)
    place = np.zeros(len(rows), dtype=np.int64)
    for name in np.unique(values[is_open]):
        own = np.flatnonzero(is_open & (values == name))
        place[own] = np.arange(len(own))
    return {
        "train": rows.select(np.flatnonzero(~is_new & train)[:most]),
        "validation": rows.select(np.flatnonzero(~is_new & validation & ~train)[:MOST_VALIDATION]),
        "learn": rows.select(np.flatnonzero(is_open & (place < LEARNED))),
        "score": rows.select(np.flatnonzero(is_open & (place >= LEARNED) & (place < LEARNED + SCORED))),
    }


def derivatives(name: str) -> tuple[Task, dict[str, dict[str, Any]]]:
    """The task, and by part logits, their derivatives in a value's vector, labels and values."""
    attribute, most, least = SETS[name]
    table, run, file = table_of(name), FOLDER / name, FOLDER / f"{name}.pt"
    if file.is_file():
        return load_run(run)[1].task, torch.load(file, weights_only=False)["parts"]
    parts = split(table, attribute, least, most)
    options: dict[str, Any] = {"text": "text", "label": table.label, "attributes": [attribute], "task": table.task}
    options |= {"validation": parts["validation"], "epochs": 2, "max_length": 64, "baselines": False}
    blend = {"training.blend": "never"}
    train(parts["train"], run, resume=True, seed=0, settings=blend, reporter=ConsoleReporter(), **options)
    predictor = load_run(run)[1]
    model, found = predictor.model, {}
    assert isinstance(model, AttributeModel)
    (fitted,) = model.schema
    for part in ("validation", "learn", "score"):
        rows = predictor.encode_rows(parts[part])
        if rows.labels is None:
            rows = rows.with_labels(model.task.encode_labels([list(parts[part][one]) for one in table.label])[0])
        nobody = np.zeros(len(rows), dtype=np.int64)
        slopes = posterior.value_slopes(model, fitted, rows, nullcontext, own=nobody, described=nobody)
        assert slopes is not None
        values = np.array([str(value) for value in parts[part][attribute]])
        labels = torch.stack(slopes.labels)
        found[part] = {"logits": slopes.logits, "J": slopes.J, "labels": labels, "judge": values}
    torch.save({"parts": found}, file)
    return model.task, found


def priors(task: Task, known: Mapping[str, Any]) -> tuple[float, dict[str, tuple[float, float]], dict[str, float]]:
    """The dispersion; by name the deviations of vector and intercept that make rows of known values likeliest; how
    likely these are."""
    names, counts = np.unique(known["judge"], return_counts=True)
    C, numbers = known["J"].shape[1:]
    most = min(posterior._ROWS, posterior._PASSES // C, posterior.MOST_DERIVATIVES // (C * numbers))
    generator, chosen = np.random.default_rng(0), list[Array]()
    for name in generator.permutation(names[counts > 1]):
        if sum(map(len, chosen)) >= most:
            break
        chosen.append(generator.permutation(np.flatnonzero(known["judge"] == name))[: posterior._EACH])
    rows = np.sort(np.concatenate(chosen))
    slopes = posterior.ValueSlopes(
        logits=known["logits"][rows], J=known["J"][rows], labels=[known["labels"][row] for row in rows]
    )
    grouped = posterior._by_value(slopes, np.unique(known["judge"][rows], return_inverse=True)[1], task)
    dispersion = grouped._dispersion() if task.codec.has_free_dispersion else 1.0
    vectors = grouped.J @ grouped.J.transpose(1, 2)
    real = grouped.real.view(len(vectors), -1).repeat_interleave(C, dim=1)
    ones = torch.eye(C).double().repeat(vectors.shape[1] // C, vectors.shape[1] // C)
    ones = ones * real[:, :, None] * real[:, None, :]

    def evidence(scale: float, intercept: float) -> float:
        found = grouped._evidence(scale**2 * vectors + intercept**2 * ones, dispersion)
        unusual = np.log(dispersion / scale**2 / TYPICAL_PRIOR_WEIGHT) / posterior._WIDTH if scale else 0.0
        return float(found - unusual**2 / 2)

    pairs = [(float(scale), one) for scale in (0.0, *posterior._SCALES) for one in INTERCEPTS if scale or one]
    likely = {pair: evidence(*pair) for pair in pairs}
    among = {
        "vector": [pair for pair in pairs if not pair[1]],
        "both": pairs,
        "intercept": [pair for pair in pairs if not pair[0]],
    }
    best = {name: max(own, key=lambda pair: likely[pair]) for name, own in among.items()}
    return dispersion, best, {name: likely[pair] for name, pair in best.items()}


def features(scale: float, intercept: float, J: Tensor) -> Tensor:
    """The derivatives (n, C, ...) of logits in what is learned, in units of its prior."""
    C = J.shape[1]
    return torch.cat([scale * J, intercept * torch.eye(C).double().expand(len(J), C, C)], dim=2)


def losses(
    task: Task, parts: Mapping[str, Any], shots: int, draw: int, read: Callable[[Tensor], Tensor], weight: float
) -> Array:
    """The losses of the rows that are scored, after some rows of each value were learned from."""
    learn, score = parts["learn"], parts["score"]
    logits = score["logits"].clone()
    for name in np.unique(score["judge"]):
        known = np.random.default_rng(draw).permutation(np.flatnonzero(learn["judge"] == name))[:shots]
        if len(known):
            own = np.flatnonzero(score["judge"] == name)
            slopes = read(learn["J"][known])
            u = posterior.value_mode(task, learn["logits"][known], slopes, learn["labels"][known], weight=weight)
            logits[own] += read(score["J"][own]) @ u
    return np.asarray(task.row_losses(logits, score["labels"]).detach())


def measured(name: str, draws: int) -> dict[str, Any]:
    """The mean losses of a set by the number of rows that are learned from, with the differences to the vector."""
    task, parts = derivatives(name)
    dispersion, best, likely = priors(task, parts["validation"])
    score = parts["score"]
    clusters = (np.unique(score["judge"], return_inverse=True)[1],)

    def metric(values: Array) -> Metric:
        return replace(mean_of("loss", values), clusters=clusters)

    lines = []
    for shots in SHOTS:
        found = {
            way: np.mean(
                [
                    losses(task, parts, shots, draw, lambda J, pair=pair: features(*pair, J), dispersion)
                    for draw in range(draws)
                ],
                axis=0,
            )
            for way, pair in best.items()
        }
        gaps = {way: paired(metric(one), metric(found["vector"])) for way, one in found.items() if way != "vector"}
        line = {way: float(one.mean()) for way, one in found.items()}
        against = {way: [gap.difference, gap.low, gap.high] for way, gap in gaps.items()}
        lines.append({"shots": shots, "loss": line, "against_vector": against})
        print(name, lines[-1], flush=True)
    unknown = np.asarray(task.row_losses(score["logits"], score["labels"]).detach())
    return {
        "values": len(np.unique(score["judge"])),
        "scored_rows": len(score["judge"]),
        "deviations": best,
        "log_evidence": likely,
        "unknown": float(unknown.mean()),
        "lines": lines,
    }


def main() -> None:
    parser = arguments(__doc__, "value_intercept")
    parser.add_argument("--set", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--draws", type=int, default=20, metavar="N", help="of the rows that are learned from")
    options = parser.parse_args()
    quiet_libraries()
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_result(options.output, {name: measured(name, options.draws) for name in options.set})


if __name__ == "__main__":
    main()
