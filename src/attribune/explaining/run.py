"""The explanation of a run: what its attributes contribute on labelled rows, and in single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets

from attribune.data.tables import read_table, table_source_name
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.evaluation.run import LabelledRows
from attribune.explaining.importance import attribute_losses, frequency_bins
from attribune.explaining.influence import influential_values
from attribune.explaining.scores import Rescored
from attribune.explaining.single import counterfactuals, word_effects
from attribune.prediction import Predictor
from attribune.training.folder import load_run

__all__ = ["explain"]


def explain(
    run: str | Path,
    data: Any,
    *,
    row: int | None = None,
    instead: Sequence[Mapping[str, Sequence[str]]] = (),
    rare: int = 10,
    least: int = 5,
    most: int = 10,
    backbone: str | None = None,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Find out what each attribute contributes, by scoring the same texts with other attributes.

    Args:
        run: folder of a finished run.
        data: labelled rows, anything `read_table` takes.
        row: number of one row of the table, from 1, to explain as well.
        instead: for this row, values that take the place of its own, one set for each prediction.
        rare: training rows that a rare value has at most.
        least: rows that a value must have to be among those that move predictions.
        most: values of each attribute that are listed.
        backbone: where the backbone's weights are, if no longer where they were.
        encoding: of the table.

    Returns:
        A record that JSON can hold: ``run``, ``method``, ``data``, ``rows``, ``metric`` and ``higher_is_better``,
        ``losses`` (see `attribute_losses`), ``bins`` with ``rare`` (see `frequency_bins`), ``values`` with
        ``least_rows`` (see `influential_values`), ``row`` or None (``number``, ``text``, ``predictions`` of
        `counterfactuals`, ``words`` of `word_effects`), and ``notes``.

    Raises:
        AttribuneError: for a method that reads no attributes, or naming file, row or column and the cure.
    """
    for name, number in (("rare", rare), ("least", least), ("most", most), ("row", row)):
        if number is not None and number < 1:
            raise ConfigError(f"{name} is {number}: give at least 1")
    if instead and row is None:
        raise ConfigError("other values are for one row: say which with --row")
    recipe, predictor = load_run(run, backbone=backbone)
    if not (predictor.reads_attributes and len(predictor.schema)):
        raise ConfigError(
            f"method {recipe.method['name']!r} of {run} reads no attributes, so that there is nothing to explain: give "
            "a run whose method reads them"
        )
    single = None if row is None else _explain_row(predictor, data, row, instead=instead, most=most, encoding=encoding)
    found = LabelledRows.read(recipe, predictor, data, encoding=encoding)
    with numbered_in_file(found.numbers, found.source):
        encoded = predictor.encode(found.rows)
    scores = Rescored.of(predictor, encoded)
    return {
        "run": str(run),
        "method": recipe.method["name"],
        "data": found.source,
        "rows": len(found.labels),
        "metric": predictor.task.main_metric,
        "higher_is_better": predictor.task.higher_is_better,
        "losses": attribute_losses(scores, found.labels),
        "rare": rare,
        "bins": frequency_bins(scores, found.labels, rare=rare),
        "least_rows": least,
        "values": influential_values(scores, least=least, most=most),
        "row": single,
        "notes": [*found.notes, *encoded.report.lines()],
    }


def _explain_row(
    predictor: Predictor,
    data: Any,
    row: int,
    *,
    instead: Sequence[Mapping[str, Sequence[str]]],
    most: int,
    encoding: str | None,
) -> dict[str, Any]:
    table, source = read_table(data, encoding=encoding), table_source_name(data)
    predictor.check_columns(table.column_names, source=source)
    if row > len(table):
        raise DataError(f"{source} has {len(table):,} rows, and none with the number {row:,}")
    with numbered_in_file([row - 1], source):
        one = table.select([row - 1])
        (text,) = predictor.text_input.read(one)
        ids = predictor.encode(one).attribute_ids[0]
    return {
        "number": row,
        "text": text,
        "attributes": {name: _listed(one, name) for name in predictor.schema.names},
        "predictions": counterfactuals(predictor, text, ids, instead=instead, most=most),
        "words": word_effects(predictor, text, ids),
    }


def _listed(one: datasets.Dataset, name: str) -> str:
    value = one[name][0]
    return ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
