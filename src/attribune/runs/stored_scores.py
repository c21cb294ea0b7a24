"""The logits and labels that a run stores for its validation and test rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from datasets import Dataset
from safetensors import SafetensorError
from safetensors.numpy import load_file

from attribune.core.arrays import Array
from attribune.data.tables import read_table
from attribune.data.texts import share_texts
from attribune.errors import AttribuneError, DataError, ModelFolderError
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.schema.columns import require_columns
from attribune.tasks import Task, task_from_dict

LOGITS, HIDDEN_LOGITS, NETWORK_LOGITS = "logits", "hidden", "network"
"""Names of stored scores: of the model, with every attribute hidden, and of its network without models beside it."""


def network_logits(arrays: Mapping[str, Array]) -> Array:
    """Return the stored scores of the network alone, which are those of the model where no others count beside it."""
    return arrays.get(NETWORK_LOGITS, arrays[LOGITS])


def own_table(recipe: Recipe, part: str) -> str:
    """Return the table from which a run has the rows of a part."""
    return str(getattr(recipe.data, part) or recipe.data.train)


def scored_tables(run: str | Path, data: Any) -> list[Any]:
    """Return the tables that are read where a run is scored: the one that is given, or those of the run."""
    own = RunFolder.of(run).read_recipe().data if data is None else None
    return [data] if own is None else [own.train, own.validation, own.test]


@dataclass(frozen=True, kw_only=True)
class StoredScores:
    """Scores of a run: for each part, ``rows`` (n,) of the table, ``labels`` and ``logits`` as the task has them.

    A model that reads attributes also has ``hidden``, the logits with every attribute hidden; not one that scores
    tokens, nor one of an earlier release. A model with simple models beside its network has ``network``, the logits of
    the network alone.
    """

    task: Task
    parts: dict[str, dict[str, Array]]
    scored: dict[str, int]
    """Number of rows that the training scored in each part; `parts` lacks those that were forgotten since."""

    @property
    def own_part(self) -> str:
        """The part whose rows a run is scored on: ``test``, or ``validation`` where there are no test rows."""
        return "test" if "test" in self.parts else "validation"

    def own_rows(self, recipe: Recipe) -> Dataset:
        """Read these rows from the run's table again.

        Raises:
            AttribuneError: if the table cannot be read, or has other rows than in the training.
        """
        arrays, source = self.parts[self.own_part], own_table(recipe, self.own_part)
        table = read_table(source, **recipe.data.reading)
        require_columns(table.column_names, [*recipe.label_columns], source=source)
        changed = DataError(
            f"{source} has other labels than in the training of the run: pass the original table as DATA"
        )
        if int(arrays["rows"].max(initial=-1)) >= len(table):
            raise changed
        rows = table.select(arrays["rows"])
        labels, _ = self.task.encode_labels([list(rows[column]) for column in recipe.label_columns])
        if not np.array_equal(labels, arrays["labels"]):
            raise changed
        return rows

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the scores of a run; ModelFolderError if it is not finished, or a file is missing or damaged."""
        folder = RunFolder.of(path)
        results = folder.read_results()
        task = task_from_dict(results.task)
        parts: dict[str, dict[str, Array]] = {}
        for part in [name for name in ("validation", "test") if name in results.rows]:
            file = folder.checked(folder.logits(part))
            try:
                parts[part] = task.codec.unpacked(load_file(str(file)))
            except (SafetensorError, OSError, KeyError) as error:
                raise ModelFolderError(
                    f"{file} is missing or damaged ({error}): restore the file, or train again"
                ) from error
        return cls(task=task, parts=parts, scored=results.rows)


def rows_of_training(folder: RunFolder, rows: Dataset) -> int | None:
    """Count rows whose text is among those of the training rows of a run; None where these cannot be read any more.

    Rows whose predictions were removed with a value are not told from training rows: so many are not counted.
    """
    try:
        data, parts = folder.read_recipe().data, StoredScores.read(folder.path).parts
        counts = folder.read_results().rows
        if not Path(data.train).exists():  # nor is the standard input read, or the hub asked
            return None
        table = read_table(data.train, **data.reading)
    except (AttribuneError, OSError):
        return None
    is_training, removed = np.ones(len(table), dtype=bool), 0
    for part, arrays in parts.items():
        if getattr(data, part) is None and "validation" in parts:  # cut from the training file; folds train on all
            if int(arrays["rows"].max(initial=-1)) >= len(table):
                return None
            is_training[arrays["rows"]] = False
            removed += max(counts.get(part, 0) - len(arrays["rows"]), 0)
    if any(name not in table.column_names for name in data.texts):
        return None
    shared = share_texts(table.select(np.flatnonzero(is_training)), rows, text=data.texts)
    return max(shared - removed, 0)
