"""Where the rows of a benchmark's sets come from: prepared folders, or tables of one's own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt

from attribune.benchmark.experiment import SetPlan
from attribune.data.tables import ENDINGS
from attribune.datasets.preparation import PreparedSet, load_prepared, sha256_of
from attribune.errors import ConfigError, DataError
from attribune.runs.recipe import Recipe
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare, with_all_classes

__all__ = ["SetSource"]

Array = npt.NDArray[Any]
_MANY = 2**40


class SetSource:
    """Where the rows of a set come from.

    Args:
        plan: the set.

    Attributes:
        test_rows: which row of the whole data set each test row is; None before `tables`, and without test rows.
    """

    def __init__(self, plan: SetPlan) -> None:
        self.plan = plan
        self.test_rows: Array | None = None
        self.prepared: PreparedSet | None = None if plan.prepared is None else load_prepared(plan.prepared)

    @property
    def labels(self) -> list[str]:
        """All label columns."""
        if self.prepared is not None:
            return list(self.prepared.manifest["labels"])
        given = (self.plan.data or {}).get("label", [])
        return [given] if isinstance(given, str) else list(given)

    def check_files(self) -> None:
        """Refuse a table of one's own that is not there, or that cannot be scored."""
        data = self.plan.data or {}
        for name in ("train", "validation", "test"):
            file = data.get(name)
            if isinstance(file, str) and file.endswith(ENDINGS) and not Path(file).is_file():
                raise DataError(
                    f"{file}, the {name} rows of the set {self.plan.name!r}, is not there: correct its path"
                )
        if data.get("validation") and not data.get("test"):
            raise ConfigError(
                f"the set {self.plan.name!r} has validation rows but no test rows, on which settings are compared: "
                "give a test file, or neither"
            )
        if data and self.plan.disjoint and not data.get("validation"):
            raise ConfigError(
                f"the set {self.plan.name!r} is disjoint, so that its training rows have one label each: give "
                "validation and test rows with all labels as files"
            )

    def recipe_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The data and the task part of a recipe."""
        if unknown := sorted(set(self.plan.labels or ()) - set(self.labels)):
            raise ConfigError(f"{self.plan.name} has no label {unknown[0]!r}: choose from {', '.join(self.labels)}")
        if self.prepared is None:
            return dict(self.plan.data or {}), dict(self.plan.task)
        manifest = self.prepared.manifest
        data = {
            "train": str(self.prepared.folder),
            "text": "text",
            "label": self.labels,
            "attributes": list(manifest["attributes"]),
        }
        task = {**manifest["task"], **self.plan.task}
        if task["kind"] in ("classification", "rating"):
            task.setdefault("classes", manifest["classes"][manifest["labels"][0]])
        elif task["kind"] == "aspects":
            task["names"] = list(self.plan.labels or self.labels)
            task.setdefault("classes", {name: manifest["classes"][name] for name in task["names"]})
        return data, task

    def tables(self, recipe: Recipe, fold: int, *, trial: bool) -> tuple[Recipe, dict[str, datasets.Dataset]]:
        """The rows of each part, and the recipe with the classes of all of them; trials see no test rows."""
        if self.prepared is None:
            splits = prepare(DataPlan.of(recipe)).splits
            tables = {name: split.table for name, split in splits.items()}
            train_rows = splits["train"].rows
            if "classes" not in recipe.task:
                recipe = with_all_classes(recipe, tables)
            self.test_rows = splits["test"].rows if "test" in splits else None
        else:
            found = self.prepared.parts(fold if self.prepared.folds else 0)
            tables = {str(name): datasets.Dataset(part) for name, part in found.items()}
            train_rows = np.arange(len(found["train"]))
            # The parts of folds share no rows; a given test part is the same for every seed.
            self.test_rows = np.arange(len(found["test"])) + (fold * _MANY if self.prepared.folds else 0)
        if trial:
            tables.pop("test", None)
        if self.plan.disjoint:
            kept = self.plan.labels or self.labels
            tables["train"] = _own_labels(tables["train"], train_rows, self.labels, kept=kept)
        if self.plan.rows is not None:
            for name, rows in (("train", self.plan.rows), ("validation", max(1, self.plan.rows // 10))):
                order = np.random.default_rng(fold).permutation(len(tables[name]))[:rows]
                tables[name] = tables[name].select(np.sort(order))
        return recipe, tables

    def checksum(self) -> str:
        """Of what the rows come from."""
        if self.prepared is not None:
            sums = [part["sha256"] for part in self.prepared.manifest["parts"].values()]
        else:
            data = self.plan.data or {}
            files = [Path(str(data[name])) for name in ("train", "validation", "test") if data.get(name)]
            sums = [sha256_of(path) for path in files if path.is_file()]
        return hashlib.sha256(" ".join(sums).encode()).hexdigest()


def _own_labels(
    table: datasets.Dataset, rows: Array, labels: Sequence[str], *, kept: Sequence[str]
) -> datasets.Dataset:
    """Rows dealt out over the labels, each with its own label alone; only those of the labels that are kept.

    A row goes to the same label whatever other rows are there: it goes by `rows`, the rows' numbers in their file.
    """
    part = np.random.default_rng(0).integers(len(labels), size=int(rows.max(initial=-1)) + 1)[rows]
    values = {
        name: [v if p == place else None for v, p in zip(table[name], part, strict=True)]
        for place, name in enumerate(labels)
    }
    frame = table.remove_columns(list(labels))
    for name in kept:
        frame = frame.add_column(name, values[name])
    return frame.select(np.flatnonzero(np.isin(part, [list(labels).index(name) for name in kept])))
