"""Every method on real data with real pretrained weights: the same splits and budget for all.

    python benchmarks/real_data.py sweep     # settings compared on validation rows; test rows are never read
    python benchmarks/real_data.py test      # the chosen settings on the test rows, all folds and seeds
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
from collections.abc import Iterator, Sequence
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

    def recipe(self, card: Card, fold: int, *, epochs: int) -> Recipe:
        return Recipe.from_dict(
            {
                "data": {
                    "train": card.file,
                    "text": card.text,
                    "label": card.label,
                    "attributes": [{"name": name} for name in card.attributes if self.attributes],
                    "max_length": 128,
                },
                "method": {"name": self.method, **self.options},
                "backbone": {"tuning": self.tuning},
                "training": {
                    "epochs": epochs,
                    "learning_rate": 5e-4,
                    **self.training,
                    "patience": epochs,
                    "seed": fold,
                },
            }
        )


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
    Setting(name="injector full", method="injector", tuning="full"),
    Setting(name="linear", method="linear"),
    Setting(name="linear, text alone", method="linear", attributes=False),
    Setting(name="attributes-only", method="attributes-only"),
)


def run_cell(card: Card, setting: Setting, fold: int, *, with_test: bool, work: Path) -> dict[str, Any]:
    """Train one cell in a scratch run folder, which a second call continues."""
    parts = card.parts(fold)
    if not with_test:
        del parts["test"]
    recipe = setting.recipe(card, fold, epochs=card.epochs if with_test else card.sweep_epochs)
    started = time.perf_counter()
    results = train(recipe, work, tables=parts, baselines=False, resume=True, reporter=ConsoleReporter())
    cell: dict[str, Any] = {
        "data": card.name,
        "setting": setting.name,
        "recipe": recipe.model_dump(mode="json", exclude={"data"}),
        "backbone_learning_rate": None if recipe.is_baseline else recipe.backbone_learning_rate,
        "fold": fold,
        "seconds": round(time.perf_counter() - started, 1),
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


def cells(stage: str, only: list[str] | None) -> Iterator[tuple[Card, Setting, int, Path]]:
    settings = SWEEP if stage == "sweep" else CHOSEN
    for card in CARDS.values():
        folds = card.sweep_folds if stage == "sweep" else range(card.folds)
        for fold in folds:
            for setting in settings:
                if only and not {card.name, f"{card.name} {setting.name}"} & set(only):
                    continue
                name = setting.name.replace(",", "").replace(" ", "_").replace("=", "-")
                yield card, setting, fold, RESULTS / stage / card.name / f"{name}.{fold}.json"


def run_stage(stage: str, only: list[str] | None) -> None:
    scratch = Path(tempfile.gettempdir()) / "attribune-real-data" / stage
    for card, setting, fold, path in cells(stage, only):
        work = scratch / card.name / path.stem
        lock = work.with_suffix(".lock")
        if path.is_file():
            continue
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # another worker has this cell
            cell = run_cell(card, setting, fold, with_test=stage == "test", work=work)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(cell) + "\n")
            shutil.rmtree(work)


def finished(stage: str, card: Card, name: str) -> dict[int, dict[str, Any]]:
    """The cells of a setting that are done, by fold."""
    return {
        fold: json.loads(path.read_text())
        for _, setting, fold, path in cells(stage, [card.name])
        if setting.name == name and path.is_file()
    }


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


def section(stage: str, part: str, card: Card, settings: Sequence[Setting]) -> list[str]:
    """The table of a data set and, against the first setting, the differences on the folds that both have."""
    done = {setting.name: finished(stage, card, setting.name) for setting in settings}
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
    lines = [f"### {TITLES[card.name]}, {part} rows", "", markdown_table(rows), ""]
    reference, *others = done
    for name in others:
        common = sorted(done[name].keys() & done[reference].keys())
        if common:
            ours, theirs = (pooled([done[one][fold] for fold in common], part) for one in (name, reference))
            pairs = [difference_text(key, paired(ours[key], theirs[key])) for key in ours if key in theirs]
            lines.append(f"- `{name}` against `{reference}`, {parts_text(card, len(common))}: {'; '.join(pairs)}.")
    return [*lines, ""]


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
    for stage, part, settings in (("test", "test", CHOSEN), ("sweep", "validation", SWEEP)):
        for card in CARDS.values():
            lines += section(stage, part, card, settings)
    text = "\n".join(lines)
    print(text)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("sweep", "test", "table"))
    parser.add_argument("--only", nargs="+", help="data sets (critics) or their cells ('critics adapter')")
    options = parser.parse_args()
    quiet_libraries()
    if options.stage == "table":
        write_tables()
    else:
        run_stage(options.stage, options.only)


if __name__ == "__main__":
    main()
