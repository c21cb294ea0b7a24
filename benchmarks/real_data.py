"""Settings on real data with real pretrained weights: the same splits and budget for all.

    python benchmarks/real_data.py sweep     # settings compared on validation rows; test rows are never read
    python benchmarks/real_data.py test      # the chosen settings on the test rows, all folds and seeds
    python benchmarks/real_data.py rates     # every method with several learning rates, on validation rows
    python benchmarks/real_data.py table     # write the tables of docs/results.md from the JSON files

Each cell (data set, method, fold) is written to benchmarks/results/ as soon as it is done, so that a run can be
interrupted at any time and goes on. The data are looked for in the folder that ATTRIBUNE_DATA names.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from safetensors.numpy import load_file

from attribune.cli.console import ConsoleReporter, quiet_libraries
from attribune.data.splits import split_table
from attribune.data.tables import read_table
from attribune.evaluation.bootstrap import PairedResult, interval, paired
from attribune.evaluation.report import ResultRow, markdown_table
from attribune.methods import METHODS
from attribune.metrics import Metric, accuracy, log_loss, macro_f1
from attribune.recipe import Recipe
from attribune.training.run import train

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
PAGE = ROOT.parent / "docs" / "results.md"
BEGIN, END = "<!-- tables of benchmarks/real_data.py: begin -->", "<!-- end -->"
TITLES = {"critics": "Rotten Tomatoes critics", "polmed": "PolMed"}
DATA = Path(os.environ.get("ATTRIBUNE_DATA", ROOT.parent.parent / "shared" / "data"))


@dataclass(frozen=True, kw_only=True)
class Card:
    """One data set: where it is, what is read of it, and how it is split."""

    name: str
    file: str
    text: str
    label: str
    attributes: tuple[str, ...]
    epochs: int
    sweep_epochs: int
    folds: int
    cross_validation: bool
    sweep_folds: tuple[int, ...]
    drop_label: str | None = None

    def table(self) -> Dataset:
        table = read_table(DATA / self.file)
        labels, texts = table[self.label], table[self.text]
        kept = [
            i for i in range(len(table)) if texts[i] and texts[i].strip() and labels[i] and labels[i] != self.drop_label
        ]
        return table.select(kept)

    def parts(self, fold: int) -> dict[str, Dataset]:
        """Training, validation and test rows of a fold (PolMed) or of a seed's random split (critics)."""
        table = self.table()
        if not self.cross_validation:
            split = split_table(table, text=[self.text], seed=fold)
            return {"train": split.train, "validation": split.validation, "test": split.test}
        order = np.random.default_rng(0).permutation(len(table))
        folds = np.array_split(order, self.folds)
        rest = np.concatenate([part for number, part in enumerate(folds) if number != fold])
        cut = len(folds[fold])
        chosen = {"train": rest[cut:], "validation": rest[:cut], "test": folds[fold]}
        return {name: table.select(np.sort(rows)) for name, rows in chosen.items()}


CARDS = {
    card.name: card
    for card in (
        Card(
            name="critics",
            file="rt_critics/critics.csv",
            text="quote",
            label="fresh",
            attributes=("critic", "title", "publication"),
            epochs=4,
            sweep_epochs=2,
            folds=3,
            cross_validation=False,
            sweep_folds=(0,),
            drop_label="none",
        ),
        Card(
            name="polmed",
            file="polmed/political_social_media.csv",
            text="text",
            label="message",
            attributes=("label", "source", "audience", "bias"),
            epochs=5,
            sweep_epochs=5,
            folds=10,
            cross_validation=True,
            sweep_folds=(0,),
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A method with everything in which it may differ from the common recipe."""

    name: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    tuning: str | None = None
    training: dict[str, Any] = field(default_factory=dict)
    attributes: bool = True

    def recipe(self, card: Card, fold: int, *, budget: dict[str, Any], max_length: int) -> Recipe:
        return Recipe.from_dict(
            {
                "data": {
                    "train": card.file,
                    "text": card.text,
                    "label": card.label,
                    "attributes": [{"name": name} for name in card.attributes if self.attributes],
                    "max_length": max_length,
                },
                "method": {"name": self.method, **self.options},
                "backbone": {"tuning": self.tuning},
                "training": {**budget, "learning_rate": RATE, **self.training, "seed": fold},
            }
        )


RATE, BACKBONE_RATE = 5e-4, 5e-5
SWEEP = (
    Setting(name="none", method="none"),
    Setting(name="injector", method="injector"),
    Setting(name="adapter", method="adapter"),
    Setting(name="injector full", method="injector", tuning="full"),
    Setting(name="injector lr=1e-3", method="injector", training={"learning_rate": 1e-3}),
    Setting(name="injector layernorm", method="injector", tuning="layernorm"),
    Setting(
        name="injector large vectors",
        method="injector",
        options={"initial_vector": 1.0, "initial_projection": 0.125},
    ),
    Setting(name="injector weight=0.2", method="injector", options={"initial_weight": 0.2}),
    Setting(name="injector dropout=0.5", method="injector", options={"attribute_dropout": 0.5}),
    Setting(name="injector Z=16", method="injector", options={"vector_size": 16}),
    Setting(name="injector Z=256", method="injector", options={"vector_size": 256}),
    Setting(name="none lr=1e-4", method="none", training={"backbone_learning_rate": 1e-4}),
    Setting(name="adapter lr=1e-3", method="adapter", training={"learning_rate": 1e-3}),
)
CHOSEN = (
    Setting(name="none", method="none"),
    Setting(name="adapter", method="adapter"),
    Setting(name="injector", method="injector"),
    Setting(name="linear", method="linear"),
    Setting(name="linear, text alone", method="linear", attributes=False),
    Setting(name="attributes-only", method="attributes-only"),
)
FACTORS = dict.fromkeys(METHODS, (0.5, 1.0, 2.0))
# Wider where the best of three was at an end, as far as there was time.
FACTORS["attention-bias"] = (0.25, *FACTORS["attention-bias"])
for name in ("none", "adapter", "injector", "chim", "pln", "e2ln", "plora", "poly"):
    FACTORS[name] = (*FACTORS[name], 4.0)
BASELINES = CHOSEN[-3:]


def with_rate(method: str, factor: float) -> Setting:
    """A method with both learning rates, that of what is new and that of pretrained matrices, times a factor."""
    recipe = Recipe.from_dict(
        {"data": {"train": "x", "text": "x", "label": "y", "attributes": [{"name": "z"}]}, "method": {"name": method}}
    )
    training = {"learning_rate": factor * RATE}
    if recipe.backbone_learning_rate != recipe.training.learning_rate:
        training["backbone_learning_rate"] = factor * BACKBONE_RATE
    return Setting(name=f"{method} x{factor:g}", method=method, training=training)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A set of cells.

    Args:
        name: folder of its results.
        title: of its tables.
        part: the rows that are scored; test rows are left out unless they are these.
        settings: what is compared on a data set.
        folds: of a data set.
        budget: settings of training that all have in common.
        max_length: tokens of a text.
        rows: training rows at most; a tenth of them for validation.
        pairs: further settings that are compared with each other.
    """

    name: str
    title: str
    part: str
    settings: Callable[[Card], Sequence[Setting]]
    folds: Callable[[Card], Sequence[int]]
    budget: Callable[[Card], dict[str, Any]]
    max_length: int = 128
    rows: int | None = None
    pairs: tuple[tuple[str, str], ...] = ()

    def parts(self, card: Card, fold: int) -> dict[str, Dataset]:
        parts = card.parts(fold)
        if self.part != "test":
            del parts["test"]
        if self.rows is not None:
            for name, rows in (("train", self.rows), ("validation", self.rows // 10)):
                order = np.random.default_rng(fold).permutation(len(parts[name]))[:rows]
                parts[name] = parts[name].select(np.sort(order))
        return parts


def passes(number: int) -> dict[str, Any]:
    return {"epochs": number, "patience": number}


SHORT = {"steps": 250, "evaluate_every": 50, "patience": 5}
STAGES = {
    stage.name: stage
    for stage in (
        Stage(
            name="test",
            title="test rows",
            part="test",
            settings=lambda card: CHOSEN,
            folds=lambda card: range(card.folds),
            budget=lambda card: passes(card.epochs),
            pairs=(("injector", "adapter"), ("linear", "linear, text alone")),
        ),
        Stage(
            name="rates",
            title="learning rates, validation rows",
            part="validation",
            settings=lambda card: [with_rate(method, factor) for method in METHODS for factor in FACTORS[method]],
            folds=lambda card: (0,),
            budget=lambda card: SHORT,
            max_length=64,
            rows=8_000,
        ),
        Stage(
            name="sweep",
            title="validation rows",
            part="validation",
            settings=lambda card: SWEEP,
            folds=lambda card: card.sweep_folds,
            budget=lambda card: passes(card.sweep_epochs),
        ),
    )
}


class Peak:
    """Memory of this process beyond what it held before, in MB; nothing where the kernel does not say."""

    def __init__(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        except OSError:
            self.before = None
        else:
            self.before = self._status("VmRSS")

    def grown(self) -> float | None:
        return None if self.before is None else round(self._status("VmHWM") - self.before, 1)

    @staticmethod
    def _status(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(name))) / 1024


def history(log: Path) -> list[dict[str, float]]:
    """The checks on validation rows, in their order; none for a baseline."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
    kept = ("step", "epoch", "eval_loss", "eval_accuracy")
    return [{key: line[key] for key in kept} for line in lines if "eval_loss" in line]


def run_cell(stage: Stage, card: Card, setting: Setting, fold: int, *, work: Path) -> dict[str, Any]:
    """Train one cell in a scratch run folder, which a second call continues."""
    parts = stage.parts(card, fold)
    recipe = setting.recipe(card, fold, budget=stage.budget(card), max_length=stage.max_length)
    started, peak = time.perf_counter(), Peak()
    results = train(recipe, work, tables=parts, baselines=False, resume=True, reporter=ConsoleReporter())
    cell: dict[str, Any] = {
        "data": card.name,
        "setting": setting.name,
        "recipe": recipe.model_dump(mode="json", exclude={"data"}),
        "backbone_learning_rate": None if recipe.is_baseline else recipe.backbone_learning_rate,
        "fold": fold,
        "seconds": round(time.perf_counter() - started, 1),
        "peak_mb": peak.grown(),
        "history": history(work / "log.jsonl"),
        "classes": results["task"]["classes"],
        "training": results["training"],
        "environment": results["environment"],
        "hidden": [scored["parts"] for scored in results["results"] if scored["name"].endswith("attributes hidden")],
    }
    for part in ("validation", "test"):
        if part in parts:
            scores = load_file(str(work / f"{part}_logits.safetensors"))
            cell[part] = {
                "true": scores["labels"].tolist(),
                "predicted": scores["logits"].argmax(axis=1).tolist(),
                "logits": scores["logits"].astype(float).round(4).tolist(),
            }
    return cell


def cells(stage: Stage, only: list[str] | None) -> Iterator[tuple[Card, Setting, int, Path]]:
    for card in CARDS.values():
        for fold in stage.folds(card):
            for setting in stage.settings(card):
                if only and not {card.name, f"{card.name} {setting.name}"} & set(only):
                    continue
                yield card, setting, fold, file_of(stage, card, setting.name, fold)


def file_of(stage: Stage, card: Card, setting: str, fold: int) -> Path:
    name = setting.replace(",", "").replace(" ", "_").replace("=", "-")
    return RESULTS / stage.name / card.name / f"{name}.{fold}.json"


def run_stage(stage: Stage, only: list[str] | None) -> None:
    scratch = Path(tempfile.gettempdir()) / "attribune-real-data" / stage.name
    for card, setting, fold, path in cells(stage, only):
        work = scratch / card.name / path.stem
        lock = work.parent / f"{work.name}.lock"
        if path.is_file():
            continue
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # another worker has this cell
            cell = run_cell(stage, card, setting, fold, work=work)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(cell) + "\n")
            shutil.rmtree(work)


def finished(stage: Stage, card: Card, name: str) -> dict[int, dict[str, Any]]:
    """The cells of a setting that are done, by fold."""
    files = {fold: file_of(stage, card, name, fold) for fold in stage.folds(card)}
    return {fold: json.loads(path.read_text()) for fold, path in files.items() if path.is_file()}


def pooled(found: Sequence[dict[str, Any]], part: str) -> dict[str, Metric]:
    """Metrics over the rows of all these cells."""
    true = np.concatenate([cell[part]["true"] for cell in found])
    predicted = np.concatenate([cell[part]["predicted"] for cell in found])
    metrics = {
        "accuracy": accuracy(true, predicted),
        "macro_f1": macro_f1(true, predicted, classes=len(found[0]["classes"])),
    }
    if all("logits" in cell[part] for cell in found):
        metrics["log_loss"] = log_loss(true, np.concatenate([cell[part]["logits"] for cell in found]))
    return metrics


def section(stage: Stage, card: Card) -> list[str]:
    """The table of a data set and, against the first setting, the differences on the folds that both have."""
    part = stage.part
    done = {setting.name: finished(stage, card, setting.name) for setting in stage.settings(card)}
    done = {name: found for name, found in done.items() if found}
    if not done:
        return []
    rows = [
        ResultRow(
            name=f"{name} ({parts_text(card, len(found))})",
            metrics={key: interval(metric) for key, metric in pooled(list(found.values()), part).items()},
        )
        for name, found in done.items()
    ]
    lines = [f"### {TITLES[card.name]}, {stage.title}", "", markdown_table(rows), ""]
    if stage.name == "rates":
        return [lines[0], "", *rates_matrix(card)]
    reference, *others = done
    for name, other in [*((name, reference) for name in others), *stage.pairs]:
        common = sorted(done.get(name, {}).keys() & done.get(other, {}).keys())
        if common:
            ours, theirs = (pooled([done[one][fold] for fold in common], part) for one in (name, other))
            pairs = [difference_text(key, paired(ours[key], theirs[key])) for key in ours if key in theirs]
            lines.append(f"- `{name}` against `{other}`, {parts_text(card, len(common))}: {'; '.join(pairs)}.")
    return [*lines, *hidden_lines(card, part, done), ""]


def rates_matrix(card: Card) -> list[str]:
    """Log loss of every method with each factor of its learning rates."""
    factors = sorted({factor for tried in FACTORS.values() for factor in tried})
    lines = ["| log loss | " + " | ".join(f"x{factor:g}" for factor in factors) + " |"]
    lines.append("|---|" + "---:|" * len(factors))
    for method in METHODS:
        cells = (finished(STAGES["rates"], card, f"{method} x{factor:g}") for factor in factors)
        losses = [
            f"{pooled(list(found.values()), 'validation')['log_loss'].value():.3f}" if found else "" for found in cells
        ]
        best = min(loss for loss in losses if loss)
        shown = (f"**{loss}**" if loss == best else loss for loss in losses)
        lines.append(f"| {method} | {' | '.join(shown)} |")
    return [*lines, ""]


def hidden_lines(card: Card, part: str, done: dict[str, dict[int, dict[str, Any]]]) -> Iterator[str]:
    """The accuracy of models whose attributes are hidden from them, averaged over the folds."""
    for name, found in done.items():
        scored = [cell for cell in found.values() if cell.get("hidden")]
        if scored and name not in {baseline.name for baseline in BASELINES} and part in scored[0]["hidden"][0]:
            hidden = 100 * float(np.mean([cell["hidden"][0][part]["accuracy"]["value"] for cell in scored]))
            given = 100 * pooled(scored, part)["accuracy"].value()
            yield (
                f"- `{name}` with its attributes hidden, {parts_text(card, len(scored))}: accuracy {hidden:.2f} "
                f"({given:.2f} with them)."
            )


def parts_text(card: Card, number: int) -> str:
    word = "fold" if card.cross_validation else "seed"
    return f"{number} {word}{'' if number == 1 else 's'}"


def difference_text(metric: str, pair: PairedResult) -> str:
    scale, places = (1, 4) if metric == "log_loss" else (100, 2)
    values = (f"{scale * value:+.{places}f}" for value in (pair.difference, pair.low, pair.high))
    return "{} {} [{}, {}] (p = {:.4f})".format(metric, *values, pair.p_value)


def write_tables() -> None:
    """Print the tables, and put them between the marks of the page of results."""
    lines = []
    for stage in STAGES.values():
        for card in CARDS.values():
            lines += section(stage, card)
    text = "\n".join(lines)
    print(text)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=(*STAGES, "table"))
    parser.add_argument("--only", nargs="+", help="data sets (critics) or their cells ('critics adapter')")
    options = parser.parse_args()
    quiet_libraries()
    if options.stage == "table":
        write_tables()
    else:
        run_stage(STAGES[options.stage], options.only)


if __name__ == "__main__":
    main()
