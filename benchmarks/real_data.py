"""Settings on real data with real pretrained weights: the same splits and budget for all.

    python benchmarks/real_data.py sweep     # settings compared on validation rows; test rows are never read
    python benchmarks/real_data.py test      # the chosen settings on the test rows, all folds and seeds
    python benchmarks/real_data.py rates     # every method with several learning rates, on validation rows

Each cell (data set, setting, fold) is a run in benchmarks/runs/ without its weights; what is done is not done again, an
interrupted one goes on, and several calls at once share the cells. When all are done, their figures are written to
benchmarks/results/, from which `python docs/tables.py` makes the tables of docs/results.md. The data are looked for in
the folder that ATTRIBUNE_DATA names.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from datasets import Dataset
from harness import DATA, RUNS, arguments, write_result
from safetensors.numpy import load_file

from attribune.core.job_folder import locked
from attribune.core.progress import ConsoleReporter, quiet_libraries
from attribune.data.splits import split_table
from attribune.data.tables import read_table
from attribune.methods import METHODS
from attribune.metrics.bootstrap import Interval, PairedResult, interval, paired
from attribune.metrics.formulas import accuracy, log_loss, macro_f1
from attribune.metrics.metric import Metric
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.results import RunResults
from attribune.training.train import train


@dataclass(frozen=True, kw_only=True)
class Card:
    """One data set: where it is, what is read of it, and how it is split."""

    name: str
    title: str
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
            title="Rotten Tomatoes critics",
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
            title="PolMed",
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

    @property
    def is_baseline(self) -> bool:
        return self.method in ("linear", "attributes-only")

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


def with_rate(method: str, factor: float) -> Setting:
    """A method with both learning rates, that of what is new and that of pretrained matrices, times a factor."""
    recipe = Recipe.from_dict(
        {"data": {"train": "x", "text": "x", "label": "y", "attributes": [{"name": "z"}]}, "method": {"name": method}}
    )
    training = {"learning_rate": factor * RATE}
    if len(set(recipe.learner.rates.values())) > 1:
        training["backbone_learning_rate"] = factor * BACKBONE_RATE
    return Setting(name=f"{method} x{factor:g}", method=method, training=training)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A set of cells.

    Args:
        name: of its result file and of the folder of its runs.
        part: the rows that are scored; test rows are left out unless they are these.
        settings: what is compared on a data set.
        folds: of a data set.
        budget: settings of training that all have in common.
        max_length: tokens of a text.
        rows: training rows at most; a tenth of them for validation.
        pairs: further settings that are compared with each other.
    """

    name: str
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
            part="test",
            settings=lambda card: CHOSEN,
            folds=lambda card: range(card.folds),
            budget=lambda card: passes(card.epochs),
            pairs=(("injector", "adapter"), ("linear", "linear, text alone")),
        ),
        Stage(
            name="rates",
            part="validation",
            settings=lambda card: [with_rate(method, factor) for method in METHODS for factor in FACTORS[method]],
            folds=lambda card: (0,),
            budget=lambda card: SHORT,
            max_length=64,
            rows=8_000,
        ),
        Stage(
            name="sweep",
            part="validation",
            settings=lambda card: SWEEP,
            folds=lambda card: card.sweep_folds,
            budget=lambda card: passes(card.sweep_epochs),
        ),
    )
}


@dataclass(frozen=True)
class Cell:
    """One training."""

    stage: Stage
    card: Card
    setting: Setting
    fold: int

    @property
    def run(self) -> RunFolder:
        """Where it is."""
        name = self.setting.name.replace(",", "").replace(" ", "_").replace("=", "-")
        return RunFolder(RUNS / self.stage.name / self.card.name / f"{name}.{self.fold}")

    @property
    def is_done(self) -> bool:
        return self.run.is_finished

    @cached_property
    def results(self) -> RunResults:
        """The results of the run."""
        return self.run.read_results()

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Labels and logits of the rows that the stage scores."""
        return load_file(str(self.run.logits(self.stage.part)))

    def hidden(self) -> float | None:
        """The accuracy with the attributes hidden, where the setting has any."""
        hidden = [model for model in self.results.models if model.attributes_hidden]
        return hidden[0].parts[self.stage.part]["accuracy"].value if hidden else None

    def train(self) -> None:
        """Do it, unless it is done or another process is about it."""
        with locked(self.run.path.with_name(f"{self.run.path.name}.lock")) as is_free:
            if not is_free or self.is_done:
                return
            stage, parts = self.stage, self.stage.parts(self.card, self.fold)
            recipe = self.setting.recipe(
                self.card, self.fold, budget=stage.budget(self.card), max_length=stage.max_length
            )
            settings: dict[str, Any] = {"baselines": False, "resume": True, "reporter": ConsoleReporter()}
            train(recipe, self.run.path, tables=parts, **settings)
            shutil.rmtree(self.run.model)


def cells_of(stage: Stage, card: Card) -> dict[str, list[Cell]]:
    """The cells of a data set, by setting."""
    return {
        setting.name: [Cell(stage, card, setting, fold) for fold in stage.folds(card)]
        for setting in stage.settings(card)
    }


def pooled(cells: Sequence[Cell]) -> dict[str, Metric]:
    """Metrics over the rows of all cells."""
    true = np.concatenate([cell.scores["labels"] for cell in cells])
    logits = np.concatenate([cell.scores["logits"] for cell in cells])
    predicted, classes = logits.argmax(axis=1), len(cells[0].results.task["classes"])
    return {
        "accuracy": accuracy(true, predicted),
        "macro_f1": macro_f1(true, predicted, classes=classes),
        "log_loss": log_loss(true, logits),
    }


def figures(found: Interval | PairedResult) -> dict[str, float]:
    """Without the level, which is 95 %."""
    return {key: value for key, value in asdict(found).items() if key != "level"}


def summary(stage: Stage, card: Card) -> dict[str, Any]:
    """Every setting with its intervals, and paired differences: to the first one, and of further pairs."""
    cells = cells_of(stage, card)
    metrics = {name: pooled(mine) for name, mine in cells.items()}
    settings: dict[str, Any] = {}
    for name, mine in cells.items():
        settings[name] = {"metrics": {key: figures(interval(one)) for key, one in metrics[name].items()}}
        hidden = [value for value in (cell.hidden() for cell in mine) if value is not None]
        if hidden and not mine[0].setting.is_baseline:
            settings[name]["hidden"] = float(np.mean(hidden))
    reference, *others = cells
    pairs = [
        {"a": a, "b": b, **{key: figures(paired(metrics[a][key], metrics[b][key])) for key in metrics[a]}}
        for a, b in [*((name, reference) for name in others), *stage.pairs]
    ]
    unit = "fold" if card.cross_validation else "seed"
    return {"title": card.title, unit + "s": len(stage.folds(card)), "settings": settings, "differences": pairs}


def rates_summary(stage: Stage, card: Card) -> dict[str, Any]:
    """The log loss of every method with each factor of its learning rates."""
    losses: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    for name, mine in cells_of(stage, card).items():
        method, _, factor = name.partition(" x")
        losses[method][factor] = pooled(mine)["log_loss"].value()
    return {"title": card.title, "log_loss": losses}


def every_cell(stage: Stage, only: Sequence[str]) -> Iterator[Cell]:
    """In the order in which they are done; of some sets alone where they are named."""
    for card in CARDS.values():
        if card.name in (only or CARDS):
            by_setting = cells_of(stage, card).values()
            yield from (cell for same_fold in zip(*by_setting, strict=True) for cell in same_fold)


def main() -> None:
    parser = arguments(__doc__, "STAGE")
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--sets", nargs="+", choices=CARDS, default=[], help="train those alone")
    options = parser.parse_args()
    quiet_libraries()
    stage = STAGES[options.stage]
    for cell in every_cell(stage, options.sets):
        cell.train()
    left = [cell for cell in every_cell(stage, ()) if not cell.is_done]
    if left:
        print(f"{len(left)} cells are not done, the first being {left[0].run.path}: nothing is written yet")
        return
    of_set = rates_summary if stage.name == "rates" else summary
    found = {card.name: of_set(stage, card) for card in CARDS.values()}
    environments: list[dict[str, Any]] = []
    for cell in every_cell(stage, ()):
        if (environment := cell.results.environment.model_dump()) not in environments:
            environments.append(environment)
    output = options.output.with_stem(options.output.stem.replace("STAGE", stage.name))
    write_result(output, {"part": stage.part, "environments": environments, "sets": found})


if __name__ == "__main__":
    main()
