"""Predictions for single texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attribune.models.row_inputs import RowInput, plain_value, shared_values
from attribune.runs.loading import load_predictor
from attribune.schema.attributes import NoNumberError

__all__ = ["predict_texts"]


def predict_texts(
    run: str | Path, texts: Sequence[str], attributes: Mapping[str, Any], *, backbone: str | Path | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the prediction for each text, by column name, and notes about unknown values.

    Args:
        attributes: values that all texts have.
        backbone: new location of the backbone's weights, if they were moved.

    Raises:
        AttribuneError: naming the attribute or value and the cure.
    """
    predictor = load_predictor(run, backbone=backbone)
    given = RowInput.read(list(texts), predictor.row_names, shared_values(attributes, len(texts)))
    try:
        logits, report = predictor.logits(given.columns)
    except NoNumberError as error:  # all texts have the same values
        raise error.of_one_value() from error
    columns = predictor.task.decode(logits).columns()
    rows = [{name: plain_value(values[row]) for name, values in columns.items()} for row in range(len(texts))]
    return rows, report.lines()
