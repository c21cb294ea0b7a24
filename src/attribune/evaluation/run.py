"""Evaluation of a finished run: on a new table, and against another run on the same rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from datasets import Dataset
from safetensors import SafetensorError
from safetensors.numpy import load_file

from attribune.data.selection import rows_with_text, shuffle_columns
from attribune.data.tables import read_table, require_columns, table_source_name
from attribune.errors import DataError, ModelFolderError, numbered_in_file
from attribune.evaluation.bootstrap import Interval, paired
from attribune.evaluation.results import intervals
from attribune.metrics import Metric
from attribune.prediction import Predictor
from attribune.recipe import Recipe
from attribune.tasks import Task, task_from_dict
from attribune.training.folder import RunFolder, load_run

__all__ = ["Evaluation", "LabelledRows", "StoredScores", "compare_runs", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """The rows of a table that have a text and a label.

    Args:
        rows: themselves.
        numbers: of each, its index in the table, from 0.
        labels: as the task encodes them.
        source: of the table, for messages.
        notes: what was counted on the way.
    """

    rows: Dataset
    numbers: npt.NDArray[np.int64]
    labels: npt.NDArray[Any]
    source: str
    notes: list[str]

    @classmethod
    def read(cls, recipe: Recipe, predictor: Predictor, data: Any, *, encoding: str | None) -> Self:
        """Read them as a run was trained on its own.

        Raises:
            DataError: naming file, row or column and the cure.
        """
        table = read_table(data, encoding=encoding)
        source = table_source_name(data)
        require_columns(table, [*recipe.data.text_input().names, *recipe.data.label], source=source)
        predictor.check_columns(table.column_names, source=source)
        task = predictor.task
        columns = [list(table[column]) for column in recipe.label_columns]
        with numbered_in_file(range(len(table)), source):
            labels, has_label = task.encode_labels(columns)
        kept = np.flatnonzero(has_label & rows_with_text(table, recipe.data.text))
        notes = []
        if len(kept) < len(table):
            notes.append(f"{len(table) - len(kept):,} of {len(table):,} rows have no text or no label and are left out")
        if not len(kept):
            raise DataError(f"{source}: no row has both a text and a label: check the columns")
        if unseen := task.unseen_labels(columns):
            notes.append(f"{sum(unseen.values()):,} rows have a label that no training row had; they count as wrong")
        rows = table.select(kept)
        if recipe.data.shuffled:
            rows = shuffle_columns(rows, predictor.schema.names, seed=recipe.training.seed)
            notes.append("the attributes are shuffled over the rows, as in the training of this run")
        return cls(rows=rows, numbers=kept, labels=labels[kept], source=source, notes=notes)

    def first(self, rows: int) -> Self:
        """The first of them."""
        kept = slice(0, rows)
        return replace(self, rows=self.rows.select(range(rows)), numbers=self.numbers[kept], labels=self.labels[kept])


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a run says of the rows of a table.

    Args:
        recipe: of the run.
        predictor: of the run.
        given: the rows with a text and a label.
        logits: (n, outputs).
        hidden: the same with every attribute hidden; None for a model that reads none.
        notes: what was counted on the way.
    """

    recipe: Recipe
    predictor: Predictor
    given: LabelledRows
    logits: npt.NDArray[np.float32]
    hidden: npt.NDArray[np.float32] | None
    notes: list[str]

    @property
    def rows(self) -> int:
        """Rows with a text and a label."""
        return len(self.given.labels)

    @cached_property
    def scores(self) -> dict[str, dict[str, Metric]]:
        """``as given`` and, for models that read attributes, ``attributes hidden``, to metric by name."""
        found = {"as given": self.logits, "attributes hidden": self.hidden}
        task = self.predictor.task
        return {name: task.metrics(one, self.given.labels) for name, one in found.items() if one is not None}

    @cached_property
    def metrics(self) -> dict[str, dict[str, Interval]]:
        """The same with their intervals."""
        return {name: intervals(one) for name, one in self.scores.items()}


def evaluate(run: str | Path, data: Any, *, backbone: str | None = None, encoding: str | None = None) -> Evaluation:
    """Score a run on labelled rows, with its attributes and with all of them hidden.

    Args:
        run: folder of a finished run.
        data: anything `read_table` takes.
        backbone: where the backbone's weights are, if no longer where they were.
        encoding: of the file.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    recipe, predictor = load_run(run, backbone=backbone)
    found = LabelledRows.read(recipe, predictor, data, encoding=encoding)
    with numbered_in_file(found.numbers, found.source):
        logits, report = predictor.logits(found.rows)
    reads = len(predictor.schema) and recipe.reads_attributes
    return Evaluation(
        recipe=recipe,
        predictor=predictor,
        given=found,
        logits=logits,
        hidden=predictor.logits(found.rows, hide_attributes=True)[0] if reads else None,
        notes=[*found.notes, *report.lines()],
    )


def compare_runs(first: str | Path, second: str | Path) -> list[dict[str, Any]]:
    """Paired bootstrap of every metric of two runs on the rows that both scored.

    Args:
        first: folder of a finished run.
        second: folder of a finished run with the same test rows.

    Returns:
        One record per metric: difference (first minus second), 95 % interval and two-sided p-value.

    Raises:
        DataError: when the runs have no part with the same rows and labels.
    """
    a, b = StoredScores.read(first), StoredScores.read(second)
    for part in ("test", "validation"):
        if part in a.parts and part in b.parts and _same_rows(a.parts[part], b.parts[part]):
            break
    else:
        raise DataError(
            f"{first} and {second} were not scored on the same rows: train both with the same data, split and seed, "
            "or use `attribune train --compare`"
        )
    metrics_a = a.task.metrics(a.parts[part]["logits"], a.parts[part]["labels"])
    metrics_b = b.task.metrics(b.parts[part]["logits"], b.parts[part]["labels"])
    return [
        {"a": str(first), "b": str(second), "part": part, "metric": name} | asdict(paired(metric, metrics_b[name]))
        for name, metric in metrics_a.items()
        if name in metrics_b
    ]


@dataclass(frozen=True, kw_only=True)
class StoredScores:
    """What a run keeps of its validation and test rows.

    Args:
        task: of the run.
        parts: by name, ``rows`` (n,) of their table, ``labels`` and ``logits`` (n, outputs).
    """

    task: Task
    parts: dict[str, dict[str, npt.NDArray[Any]]]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Those of the run in a folder.

        Raises:
            ModelFolderError: for a run that is not finished, or a file that is missing or damaged.
        """
        folder = RunFolder(Path(path))
        results = folder.read_results()
        parts = {}
        for part in [name for name in ("validation", "test") if name in results["rows"]]:
            try:
                parts[part] = load_file(str(folder.logits(part)))
            except (SafetensorError, OSError) as error:
                raise ModelFolderError(
                    f"{folder.logits(part)} is missing or damaged ({error}): restore the file, or train again"
                ) from error
        return cls(task=task_from_dict(results["task"]), parts=parts)


def _same_rows(a: dict[str, npt.NDArray[Any]], b: dict[str, npt.NDArray[Any]]) -> bool:
    return np.array_equal(a["rows"], b["rows"]) and np.array_equal(a["labels"], b["labels"])
