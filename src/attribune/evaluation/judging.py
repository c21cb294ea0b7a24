"""The rows that the page of a run is about: its own test rows as they were scored, or those of another table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from attribune.data.tables import read_table
from attribune.errors import AttribuneError, DataError
from attribune.evaluation.judgement import Judged
from attribune.evaluation.report import ResultRow
from attribune.evaluation.results import Scored, compare, result_rows
from attribune.evaluation.run import StoredScores, evaluate
from attribune.recipe import Recipe
from attribune.schema import Schema
from attribune.schema.attributes import FittedAttribute, counts_of_rows
from attribune.training.folder import RunFolder

__all__ = ["RunRows", "rows_of_run"]


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """A run with labelled rows.

    Args:
        run: its folder.
        method: of it.
        backbone: of it; None for a linear baseline.
        judged: the rows, with what the run says of them.
        source: what the rows are, after their number.
        attributes: those that the rows' ids are known of.
        results: figures of the run and of what it is compared with.
        comparisons: of the run with each of these.
        training: how the training went; empty for a linear baseline.
        log: its losses and metrics.
        notes: what could not be told.
    """

    run: str
    method: str
    backbone: str | None
    judged: Judged
    source: str
    attributes: Sequence[FittedAttribute]
    results: list[ResultRow]
    comparisons: list[dict[str, Any]]
    training: Mapping[str, Any]
    log: list[dict[str, Any]]
    notes: list[str]


def rows_of_run(
    run: str | Path, data: Any = None, *, backbone: str | None = None, encoding: str | None = None
) -> RunRows:
    """The rows of a table, scored, or without one those that the run scored when it was trained.

    Args:
        run: folder of a finished run.
        data: labelled rows, anything `read_table` takes.
        backbone: where the backbone's weights are, if no longer where they were.
        encoding: of the file.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    folder = RunFolder(Path(run))
    recipe, results = folder.read_recipe(), folder.read_results()
    about: dict[str, Any] = {
        "run": str(run),
        "method": results["method"],
        "backbone": None if recipe.is_baseline else recipe.backbone.name,
        "training": results["training"],
        "log": folder.read_log(),
    }
    if data is None:
        return RunRows(**about, **_own(folder, recipe, results))
    return RunRows(**about, **_scored(run, data, backbone=backbone, encoding=encoding))


def _own(folder: RunFolder, recipe: Recipe, results: Mapping[str, Any]) -> dict[str, Any]:
    scores = StoredScores.read(folder.path)
    part = "test" if "test" in scores.parts else "validation"
    arrays, source = scores.parts[part], getattr(recipe.data, part) or recipe.data.train
    # Shuffled attributes are those of other rows than the table says.
    reads = recipe.reads_attributes and not recipe.data.shuffled
    schema, notes = folder.read_schema() if reads else Schema([]), []
    facts: dict[str, Any] = {"counts": {}, "ids": None}
    try:
        table = read_table(source, encoding=recipe.data.encoding).select(arrays["rows"])
        labels, _ = scores.task.encode_labels([list(table[column]) for column in recipe.label_columns])
        if not np.array_equal(labels, arrays["labels"]):
            raise DataError(f"{source} has other labels than when the run was trained: give the table of then as DATA")
        facts = _facts(recipe, schema, table)
    except (AttribuneError, OSError, IndexError, KeyError) as error:
        notes.append(
            f"The rows themselves could not be read, so that nothing is said of their texts and values: {error}"
        )
    return {
        "judged": Judged(task=scores.task, logits=arrays["logits"], labels=arrays["labels"], **facts),
        "source": f"{part} rows of {source}, as they were scored when it was trained",
        "attributes": [] if facts["ids"] is None else list(schema),
        "results": result_rows(results["results"], part=part),
        "comparisons": results["comparisons"],
        "notes": notes,
    }


def _scored(run: str | Path, data: Any, *, backbone: str | None, encoding: str | None) -> dict[str, Any]:
    found = evaluate(run, data, backbone=backbone, encoding=encoding)
    recipe, task = found.recipe, found.predictor.task
    schema = found.predictor.schema if found.hidden is not None else Schema([])
    names = {"as given": recipe.method["name"], "attributes hidden": "attributes hidden"}
    facts = _facts(recipe, schema, found.given.rows)
    return {
        "judged": Judged(task=task, logits=found.logits, labels=found.given.labels, **facts),
        "source": f"labelled rows of {found.given.source}",
        "attributes": list(schema),
        "results": [ResultRow(name=names[name], metrics=metrics) for name, metrics in found.metrics.items()],
        "comparisons": compare(
            [Scored(name=names[name], metrics={"given": metrics}) for name, metrics in found.scores.items()],
            task,
            part="given",
        ),
        "notes": found.notes,
    }


def _facts(recipe: Recipe, schema: Schema, table: Dataset) -> dict[str, Any]:
    texts = recipe.data.text_input().read(table)
    counts = {"words": np.array([len(text.split()) for text in texts], dtype=np.int64)}
    ids = schema.encode(table)[0] if len(schema) else None
    if ids is not None:
        counts |= dict(_training_rows(schema, ids))
    return {"counts": counts, "ids": ids}


def _training_rows(schema: Schema, ids: npt.NDArray[np.int64]) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    for attribute in schema:
        columns = ids[:, attribute.start : attribute.start + attribute.slots]
        yield attribute.name, counts_of_rows(attribute.counts, columns)
