"""The rows of a benchmark's sets, from prepared folders or from the user's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from attribune.core.arguments import as_list
from attribune.core.arrays import Array
from attribune.core.hashing import sha256, text_digest
from attribune.data.table_files import ENDINGS
from attribune.errors import ConfigError, DataError
from attribune.runs.recipe import Recipe
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare, with_all_classes
from attribune_lab.benchmark.experiment import SetPlan
from attribune_lab.datasets.prepared import PreparedSet, load_prepared, sha256_of

_MANY = 2**40


class SetSource:
    """The source of the rows of a set.

    Attributes:
        test_rows: index in the complete data set of each test row; None before `tables`, and without test rows.
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
        return as_list((self.plan.data or {}).get("label"))

    def check_files(self) -> None:
        """Refuse a user's table that is missing, or that cannot be scored."""
        data = self.plan.data or {}
        for name in ("train", "validation", "test"):
            file = data.get(name)
            if isinstance(file, str) and file.endswith(ENDINGS) and not Path(file).is_file():
                raise DataError(
                    f"{file}, the {name} rows of the set {self.plan.name!r}, does not exist: correct its path"
                )
        for file in value_files(data):
            if file.endswith(ENDINGS) and not Path(file).is_file():
                raise DataError(
                    f"{file}, which describes values of the set {self.plan.name!r}, does not exist: correct its path"
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
        """Return the data and the task part of a recipe."""
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
        if self.prepared.pair:
            data["text_pair"] = "text_pair"
        if self.prepared.prompt:
            data["prompt"] = "prompt"
        task = {**manifest["task"], **self.plan.task}
        if task["kind"] in ("classification", "rating") and manifest["labels"][0] in manifest["classes"]:
            task.setdefault("classes", manifest["classes"][manifest["labels"][0]])
        elif task["kind"] == "aspects":
            task["names"] = list(self.plan.labels or self.labels)
            task.setdefault("classes", {name: manifest["classes"][name] for name in task["names"]})
        return data, task

    def tables(self, recipe: Recipe, fold: int, *, trial: bool) -> tuple[Recipe, dict[str, datasets.Dataset]]:
        """Read the rows of each part, and complete the recipe with their classes; trials get no test rows."""
        if self.prepared is None:
            splits = prepare(DataPlan.of(recipe)).splits
            tables = {name: split.table for name, split in splits.items()}
            train_rows = splits["train"].rows
            if "classes" not in recipe.task:
                recipe = with_all_classes(recipe, tables)
            self.test_rows = splits["test"].rows if "test" in splits else None
        else:
            parts = self.prepared.parts(fold if self.prepared.folds else 0)
            tables = {str(name): datasets.Dataset(part) for name, part in parts.items()}
            train_rows = np.arange(len(parts["train"]))
            # The test parts of folds are disjoint; a fixed test part is the same for every seed.
            self.test_rows = np.arange(len(parts["test"])) + (fold * _MANY if self.prepared.folds else 0)
        if trial:
            tables.pop("test", None)
        if self.plan.disjoint:
            used = self.plan.labels or self.labels
            tables["train"] = _own_labels(tables["train"], train_rows, self.labels, used=used)
        if self.plan.cold is not None:
            tables["train"] = self._without_cold_values(tables["train"], self.plan.cold)
        if self.plan.rows is not None:
            for name, rows in (("train", self.plan.rows), ("validation", max(1, self.plan.rows // 10))):
                tables[name] = tables[name].select(_drawn(len(tables[name]), rows, seed=fold))
        if self.test_rows is not None and self.plan.test_rows is not None:
            kept = _drawn(len(self.test_rows), self.plan.test_rows, seed=0)
            self.test_rows = self.test_rows[kept]
            if "test" in tables:
                tables["test"] = tables["test"].select(kept)
        return recipe, tables

    def _without_cold_values(self, table: datasets.Dataset, share: float) -> datasets.Dataset:
        """Return the rows that have none of the values which are cold; a missing value is none of them."""
        attributes = [
            str(attribute["name"])
            for attribute in self.recipe_parts()[0].get("attributes", ())
            if attribute.get("kind", "categorical") == "categorical"
        ]
        if not attributes:
            raise ConfigError(f"the set {self.plan.name!r} has no categorical attribute whose values could be cold")
        warm = np.ones(len(table), dtype=bool)
        for name in attributes:
            warm &= [value in (None, "") or _place(name, value) >= share for value in table[name]]
        if not warm.any():
            raise DataError(f"the set {self.plan.name!r} has no training row without cold values: lower cold={share}")
        return table.select(np.flatnonzero(warm))

    def checksum(self, values: Iterable[str] = ()) -> str:
        """Return a checksum of the source files, and of those that describe values.

        Args:
            values: those of the experiment, and not of the set alone.
        """
        if self.prepared is not None:
            sums = [part["sha256"] for part in self.prepared.manifest["parts"].values()]
        else:
            data = self.plan.data or {}
            files = [Path(str(data[name])) for name in ("train", "validation", "test") if data.get(name)]
            sums = [sha256_of(path) for path in files if path.is_file()]
        described = [*value_files(self.plan.data or {}), *values]
        sums += [sha256_of(path) for path in map(Path, described) if path.is_file()]
        return sha256([" ".join(sums).encode()])


def value_files(data: Mapping[str, Any]) -> list[str]:
    """Return the tables that describe values."""
    described = (data.get("values") or {}).values()
    return [str(values["table"] if isinstance(values, Mapping) else values) for values in described]


def _place(attribute: str, value: Any) -> float:
    """Return the place of a value in the random order of those of an attribute, from 0 to 1."""
    return int.from_bytes(text_digest(f"{attribute}\0{value}"), "big") / 2**64


def _drawn(row_count: int, most: int, *, seed: int) -> Array:
    """Return the sorted numbers of at most so many rows, drawn at random."""
    return np.sort(np.random.default_rng(seed).permutation(row_count)[:most])


def _own_labels(
    table: datasets.Dataset, rows: Array, labels: Sequence[str], *, used: Sequence[str]
) -> datasets.Dataset:
    """Assign each row to one label at random, and return the rows of the used labels, each with its own label only.

    The assignment depends only on `rows`, the numbers of the rows in their file, not on which other rows there are.
    """
    assigned = np.random.default_rng(0).integers(len(labels), size=int(rows.max(initial=-1)) + 1)[rows]
    numbers = {name: list(labels).index(name) for name in used}
    frame = table.remove_columns(list(labels))
    for name, number in numbers.items():
        own = [value if label == number else None for value, label in zip(table[name], assigned, strict=True)]
        frame = frame.add_column(name, own)
    return frame.select(np.flatnonzero(np.isin(assigned, list(numbers.values()))))
