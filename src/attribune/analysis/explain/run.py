"""The explanation of a run: what its attributes contribute on labelled rows, and in single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset

from attribune.analysis.explain.importance import attribute_importance, importance_by_frequency
from attribune.analysis.explain.influence import influential_values
from attribune.analysis.explain.scores import Rescored
from attribune.analysis.explain.single import counterfactuals, word_occlusion
from attribune.core.arguments import checked_arguments
from attribune.core.deprecation import renamed_arguments
from attribune.data.tables import read_table
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.models.predictor import Predictor
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run
from attribune.schema.columns import cell_text

__all__ = ["explain"]


@renamed_arguments(least="min_rows", most="top")
@checked_arguments
def explain(
    run: str | Path,
    data: Any = None,
    *,
    row: int | None = None,
    instead: Sequence[Mapping[str, Sequence[str]]] = (),
    rare: int = 10,
    min_rows: int = 5,
    top: int = 10,
    backbone: str | Path | None = None,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Measure what each attribute contributes, by scoring the same texts with other attributes.

    Args:
        data: labelled rows, anything `read_table` takes; None for the run's own test rows.
        row: number of a row of the table, from 1, to explain as well.
        instead: for this row, values that replace its own, one set for each counterfactual prediction.
        rare: a value with at most this many training rows is rare.
        min_rows: minimum number of rows of a value that is listed as moving predictions.
        top: number of values listed for each attribute.
        backbone: new location of the backbone's weights, if they were moved.

    Returns:
        A record that JSON can hold: ``run``, ``method``, ``data``, ``rows``, ``metric`` and ``higher_is_better``,
        ``losses`` (see `attribute_importance`), ``bins`` with ``rare`` (see `importance_by_frequency`), ``values`` with
        ``least_rows`` (see `influential_values`), ``row`` or None (``number``, ``text``, ``predictions`` of
        `counterfactuals`, ``words`` of `word_occlusion`), and ``notes``.

    Raises:
        AttribuneError: for a method that reads no attributes, or a task that scores tokens; naming the file, row or
            column and the cure.
    """
    _check(instead, row=row, rare=rare, min_rows=min_rows, top=top)
    recipe, predictor = load_run(run, backbone=backbone)
    _check_method(predictor, recipe.method["name"], run)
    labelled = LabelledRows.to_score(run, recipe, predictor, data, encoding=encoding)
    single = None
    if row is not None:
        own = (labelled.source, recipe.data.reading)
        source, reading = own if data is None else (data, {"encoding": encoding})
        table = read_table(source, **reading)
        single = _explain_row(predictor, table, row, source=labelled.source, instead=instead, top=top)
    with numbered_in_file(labelled.numbers, labelled.source):
        encoded = predictor.encode_rows(labelled.rows)
    scores = Rescored.of(predictor, encoded, clusters=labelled.clusters)
    return {
        "run": str(run),
        "method": recipe.method["name"],
        "data": labelled.source,
        "rows": len(labelled.labels),
        "metric": predictor.task.main_metric,
        "higher_is_better": predictor.task.higher_is_better,
        "losses": attribute_importance(scores, labelled.labels),
        "rare": rare,
        "bins": importance_by_frequency(scores, labelled.labels, rare=rare),
        "least_rows": min_rows,
        "values": influential_values(scores, min_rows=min_rows, top=top),
        "row": single,
        "notes": [*labelled.notes, *encoded.report.lines()],
    }


def _check_method(predictor: Predictor, method: str, run: str | Path) -> None:
    predictor.require_documents("explain")
    if not (predictor.reads_attributes and len(predictor.schema)):
        raise ConfigError(
            f"method {method!r} of {run} reads no attributes, so there is nothing to explain: give a run whose "
            "method reads them"
        )


def _check(instead: Sequence[Any], *, row: int | None, **numbers: int) -> None:
    for name, number in (*numbers.items(), ("row", row)):
        if number is not None and number < 1:
            raise ConfigError(f"{name} is {number}: give at least 1")
    if instead and row is None:
        raise ConfigError("other values (--as) need a row: choose one with --row")


def _explain_row(
    predictor: Predictor,
    table: Dataset,
    row: int,
    *,
    source: str,
    instead: Sequence[Mapping[str, Sequence[str]]],
    top: int,
) -> dict[str, Any]:
    predictor.check_columns(table.column_names, source=source)
    if row > len(table):
        raise DataError(
            f"{source} has {len(table):,} rows, so there is no row {row:,}: give a number from 1 to {len(table):,}"
        )
    with numbered_in_file([row - 1], source):
        selected = table.select([row - 1])
        (text,) = predictor.text_input.read(selected)
        (second,) = predictor.text_input.read_pairs(selected) if predictor.text_input.pair else ("",)
        ids = predictor.encode_rows(selected).attribute_ids[0]
    return {
        "number": row,
        "text": f"{text}\n{second}" if second else text,
        "attributes": {name: cell_text(selected[name][0]) for name in predictor.schema.names},
        "predictions": counterfactuals(predictor, text, ids, instead=instead, top=top, second=second),
        "words": word_occlusion(predictor, text, ids, second=second),
    }
