"""Run the missing cells of an experiment, each in its own folder."""

from __future__ import annotations

import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import datasets
import numpy as np
import torch
from safetensors.numpy import load_file, save

from attribune.backbones.loading import check_backbone
from attribune.core.arrays import Array
from attribune.core.checksums import CheckedFiles
from attribune.core.files import write_json
from attribune.core.job_folder import locked
from attribune.core.process import peak_megabytes
from attribune.core.processes import refuse_processes
from attribune.core.progress import Reporter
from attribune.errors import AttribuneError, ConfigError, DataError
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe, TransferRecipe
from attribune.schema import Schema
from attribune.schema.attributes import counts_of_rows
from attribune.training.train import train
from attribune_lab.benchmark.experiment import Cell, Experiment
from attribune_lab.benchmark.results import CELL, IDENTITY, BenchmarkFolder, best_factor
from attribune_lab.benchmark.source import SetSource, value_files
from attribune_lab.datasets.row_log import words

# Files that are removed from a finished cell; the predictions follow from the logits.
_NOT_KEPT = ("checkpoints", "rows.json", "validation_predictions.parquet", "test_predictions.parquet")
_PAUSE = 2.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a cell, with a word for the user; `done` is None if another process has or had the cell."""

    path: str
    done: bool | None
    word: str


class Engine(Protocol):
    """Runs cells, some at a time."""

    def has_room(self) -> bool:
        """Whether another cell may be started."""

    def start(self, path: str) -> None:
        """Start a cell."""

    def wait(self) -> Sequence[Outcome]:
        """Wait until a cell has ended."""

    def close(self) -> None:
        """Stop the running cells; they resume from their checkpoints when they are started again."""


def check_experiment(experiment: Experiment) -> None:
    """Check files, recipes and backbones before anything is trained; AttribuneError for the first problem."""
    backbones: dict[tuple[str, str | None], None] = {}
    for plan in experiment.sets:
        source = SetSource(plan)
        source.check_files()
        number = 0 if source.prepared is None else source.prepared.folds
        for fold in sorted({cell.fold for cell in experiment.cells() if cell.set is plan}):
            if number and fold >= number:
                raise ConfigError(f"{plan.name} has the folds 0 to {number - 1}, not {fold}")
        for setting in experiment.settings:
            cell = Cell(set=plan, setting=setting, fold=plan.folds[0])
            backbone = recipe_of(experiment, cell, source).backbone
            if not setting.is_baseline and backbone.is_pretrained:
                backbones.setdefault((backbone.name, backbone.revision))
            if backbone.word_vectors is not None and not Path(backbone.word_vectors).is_file():
                raise ConfigError(
                    f"the setting {setting.name!r} begins with word vectors of {backbone.word_vectors}, and there is "
                    "no such file: write them there, a word and its numbers on each line, as GloVe has them"
                )
    for name, revision in backbones:
        check_backbone(name, revision=revision)


def run_cells(
    experiment: Experiment, folder: BenchmarkFolder, engine: Engine, *, tell: Callable[[Cell, str], None]
) -> list[Cell]:
    """Run every cell that is not done; returns the failed cells.

    Several machines may work on one folder at the same time: each locks the cells that it runs, and waits for those
    of the others.

    Args:
        experiment: with the requested sets.
        engine: runs the cells, and is closed at the end.
        tell: is called with a cell and a message about it.
    """
    refuse_processes("benchmark")
    cells = {cell.path: cell for cell in experiment.cells()}
    running: set[str] = set()
    failed: list[Cell] = []
    waited: list[Cell] = []
    try:
        while True:
            elsewhere: list[Cell] = []
            others = [cell for path, cell in cells.items() if not (path in running or cell in failed)]
            for cell in _startable(experiment, folder, others):
                if not engine.has_room():
                    break
                if _is_held(folder.lock(cell)):
                    elsewhere.append(cell)
                    continue
                tell(cell, "begins")
                engine.start(cell.path)
                running.add(cell.path)
            if running:
                for outcome in engine.wait():
                    running.discard(outcome.path)
                    if outcome.done is False:
                        failed.append(cells[outcome.path])
                    tell(cells[outcome.path], outcome.word)
            elif elsewhere:
                for cell in (cell for cell in elsewhere if cell not in waited):
                    tell(cell, "is being trained by another process; waiting for it")
                waited = elsewhere
                time.sleep(_PAUSE)
            else:
                return failed
    finally:
        engine.close()


def _startable(experiment: Experiment, folder: BenchmarkFolder, cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield the cells that are not done, but whose required cells are."""
    for cell in cells:
        needed = experiment.needs(cell)
        if not _is_done(experiment, cell, folder) and all(_is_done(experiment, other, folder) for other in needed):
            yield cell


def run_cell(experiment: Experiment, cell: Cell, folder: BenchmarkFolder, *, reporter: Reporter) -> Outcome:
    """Run one cell in this process, resuming it in its folder under ``work``, and move the results to their place."""
    record = folder.lock(cell).with_suffix(".error")
    with locked(folder.lock(cell), timeout=0.25) as ours:  # longer than `_is_held` holds it
        if not ours or _is_done(experiment, cell, folder):
            return Outcome(path=cell.path, done=None, word="done elsewhere")
        try:
            _train_cell(experiment, cell, folder, reporter)
        except AttribuneError as error:
            return Outcome(path=cell.path, done=False, word=f"failed: {error}")
        except Exception as error:  # one cell must not stop the others
            record.write_text(traceback.format_exc(), encoding="utf-8")
            word = f"failed: {type(error).__name__}: {error} (see {record})"
            return Outcome(path=cell.path, done=False, word=word)
        record.unlink(missing_ok=True)
        return Outcome(path=cell.path, done=True, word="done")


def _is_done(experiment: Experiment, cell: Cell, folder: BenchmarkFolder) -> bool:
    """Whether a cell has its results, and its model if other cells still need it."""
    if not folder.is_done(cell):
        return False
    has_model = not experiment.is_source(cell) or (folder.place(cell) / "model").is_dir()
    return has_model or all(folder.is_done(other) for other in experiment.cells() if experiment.source(other) == cell)


def _is_held(lock: Path) -> bool:
    """Whether a process is training the cell."""
    if not lock.is_file():
        return False
    with locked(lock) as free:
        return not free


def recipe_of(experiment: Experiment, cell: Cell, source: SetSource, *, factor: float | None = None) -> Recipe:
    """Return the recipe of a cell, with its learning rates multiplied by a factor."""
    data, task = source.recipe_parts()
    tree = experiment.recipe(cell, data=data, task=task)
    if source.prepared is None:
        tree["data"] = {**tree["data"], "split": {**tree["data"].get("split", {}), "seed": cell.fold}}
    recipe = Recipe.from_dict(tree, source=f"the recipe of {cell.path}")
    if factor is None:
        return recipe
    rates = {name: factor * rate for name, rate in recipe.learner.rates.items()}
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=rates)})


def _train_cell(experiment: Experiment, cell: Cell, folder: BenchmarkFolder, reporter: Reporter) -> None:
    work = folder.work(cell)
    source = SetSource(cell.set)
    trials = experiment.trials(cell)
    factor = best_factor(folder, trials, by=experiment.select_by) if trials else cell.factor
    recipe = recipe_of(experiment, cell, source, factor=factor)
    begun = experiment.source(cell)
    if begun is not None and recipe.learner.can_take_over(full_model=False):
        model = (folder.place(begun) / "model").resolve()
        recipe = recipe.model_copy(update={"transfer": TransferRecipe(run=str(model), frozen=True)})
    recipe, tables = source.tables(recipe, cell.fold, trial=cell.factor is not None)
    data = data_checksum(experiment, source)
    _check_same_data(folder, experiment, cell, data)
    started, failure = time.perf_counter(), None
    results: dict[str, Any] = {}
    try:
        results = train(recipe, work, tables=tables, baselines=False, resume=True, reporter=reporter)
    except DataError as error:
        if cell.factor is None:
            raise
        failure = str(error)  # a rate with an infinite loss is a result of the search
    training = results.get("training", {}).get("seconds", 0.0)
    record = {
        "set": cell.set.name,
        "setting": cell.setting.name,
        "fold": cell.fold,
        "factor": factor,
        "trial": cell.factor is not None,
        "learning_rate": recipe.learner.rates.get("learning_rate"),
        "backbone_learning_rate": recipe.learner.rates.get("backbone_learning_rate"),
        "seconds": round(max(time.perf_counter() - started, training), 1),
        **_peak_memory(),
        "data": data,
        "environment": results.get("environment"),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "failure": failure,
    }
    if "test" in tables and source.test_rows is not None:
        _write_row_facts(RunFolder(work), tables, recipe, identity=source.test_rows)
    for name in (*_NOT_KEPT, *(() if experiment.is_source(cell) else ("model",))):
        path = work / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    write_json(work / CELL, record, what="record of the cell", indent=1)
    place = folder.place(cell)
    shutil.rmtree(place, ignore_errors=True)  # without its record it is an incomplete folder
    place.parent.mkdir(parents=True, exist_ok=True)
    os.replace(work, place)


def data_checksum(experiment: Experiment, source: SetSource) -> str:
    """Return a checksum of all that the cells of a set read."""
    changes = [experiment.data, *(setting.data for setting in experiment.settings)]
    return source.checksum(sorted({file for change in changes for file in value_files(change)}))


def _check_same_data(folder: BenchmarkFolder, experiment: Experiment, cell: Cell, data: str) -> None:
    """Refuse data other than those of the set's earlier cells."""
    other = next((one for one in folder.results(experiment) if one.cell.set.name == cell.set.name), None)
    if other is not None and other.record.data != data:
        raise DataError(
            f"the data of {cell.set.name} are not those that {other.cell.path} was trained on: restore them, "
            "or run the experiment in another folder"
        )


def _peak_memory() -> dict[str, float | None]:
    """Return the peaks in MB of this process's resident memory and of the memory allocated on its device."""
    device = torch.cuda.max_memory_allocated() / 1024**2 if torch.cuda.is_available() else None
    return {"peak_mb": round(peak_megabytes(), 1), "device_peak_mb": None if device is None else round(device, 1)}


def _write_row_facts(
    run: RunFolder, tables: Mapping[str, datasets.Dataset], recipe: Recipe, *, identity: Array
) -> None:
    """Write for every test row its identity, its number of words, and the training rows with its attribute values.

    Bins of sparsity are computed from these, without test labels.
    """
    rows = load_file(str(run.logits("test")))["rows"]
    test = tables["test"].select(rows)
    texts = recipe.task_input.read_texts(recipe.data.text_input(), test)
    facts = {
        IDENTITY: identity[rows].astype(np.int64),
        "words": np.array([words(text) for text in texts], dtype=np.int32),
    }
    learned_here = recipe.transfer is None or not recipe.transfer.frozen
    if learned_here and (kinds := recipe.data.kinds()):
        schema = Schema.fit(tables["train"], kinds, missing=recipe.data.missing)
        train_ids, test_ids = (schema.encode(table)[0] for table in (tables["train"], test))
        for attribute in schema:
            columns = attribute.columns
            facts[f"count.{attribute.name}"] = training_counts(train_ids[:, columns], test_ids[:, columns])
    CheckedFiles(run.path).write({"test_facts.safetensors": save(facts)})


def training_counts(train_ids: Array, test_ids: Array) -> Array:
    """Count for each test row the training rows with its value: of several values the rarest, 0 without a known one.

    Args:
        train_ids: (n, slots) of one attribute; 0 is a missing or unknown value.
        test_ids: (m, slots).
    """
    size = int(max(train_ids.max(initial=0), test_ids.max(initial=0))) + 1
    rows = np.arange(len(train_ids))[:, None].repeat(train_ids.shape[1], axis=1)
    distinct = np.unique(np.stack([rows.ravel(), train_ids.ravel()]), axis=1)
    counts = np.bincount(distinct[1], minlength=size)
    return counts_of_rows(counts, test_ids).astype(np.int32)
