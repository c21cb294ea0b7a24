"""The explanation of a run: what its attributes contribute on labelled rows, and in single ones with each word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from attribune.analysis.evaluate import AS_GIVEN, HIDDEN
from attribune.analysis.explain.rescored import (
    Rescored,
    attribute_importance,
    importance_by_frequency,
    influential_values,
    numbers_of,
)
from attribune.core.arguments import as_list
from attribune.core.arrays import IntArray
from attribune.data.readers.base import EncodedRows
from attribune.data.tables import read_table
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.findings import Finding
from attribune.metrics.results import compare_metrics
from attribune.models.predictor import Predictor
from attribune.models.row_inputs import plain_value
from attribune.runs.attribute_gains import AttributesTogether, attribute_gains
from attribune.runs.folder import RunFolder
from attribune.runs.hidden_attributes import HidingRows, drawn_rows, judged_metrics, known_values
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.runs.verdict import run_verdict
from attribune.schema.columns import cell_text, whole_columns
from attribune.schema.schema import assigned_ids, assignments_text
from attribune.tasks.capabilities import EXPLAIN, require


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be explained, and how much of it is listed.

    Args:
        row: number of a row of the table, from 1, to explain as well.
        instead: for this row, values that replace its own, one set for each counterfactual prediction.
        rare: a value with at most this many training rows is rare.
        min_rows: minimum number of rows of a value that is listed as moving predictions.
        top: number of values listed for each attribute.

    Raises:
        ConfigError: for a number that is none, or other values without a row.
    """

    row: int | None = None
    instead: Sequence[Mapping[str, Any]] | Mapping[str, Any] = ()
    rare: int = 10
    min_rows: int = 5
    top: int = 10

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("rare", "min_rows", "top", "row"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ConfigError(f"{name} is {number}: give at least 1")
        if self.instead and self.row is None:
            raise ConfigError("instead is for one row: choose it with row, its number in the table")

    @property
    def others(self) -> list[dict[str, list[Any]]]:
        """The sets of other values, each value in a list."""
        sets = [self.instead] if isinstance(self.instead, Mapping) else self.instead
        return [{name: as_list(x) if isinstance(x, Iterable) else [x] for name, x in one.items()} for one in sets]


def explain_run(run: str | Path, data: Any, asked: Asked, *, backbone: str | Path | None = None) -> dict[str, Any]:
    """Return the record of an explanation of a run on the rows of a table, see `explain_rows`."""
    recipe, predictor = load_run(run, backbone=backbone)
    check_explains(predictor, recipe.method["name"], run)
    labelled = LabelledRows.to_score(run, recipe, predictor, data)
    table = None
    if asked.row is not None:
        source, reading = (labelled.source, recipe.data.reading) if data is None else (data, {})
        table = read_table(source, **reading)
    return explain_rows(
        predictor, labelled, asked, table=table, run=run, recipe=recipe, findings=_stored_findings(run, data)
    )


def _stored_findings(run: str | Path, data: Any) -> list[Finding] | None:
    """Return what the verdict of a run says of leaving out attributes; None where other rows may say something else."""
    folder = RunFolder.of(run)
    verdict = folder.read_results().verdict if folder.is_finished else None
    if data is None:
        return [] if verdict is None else verdict.leave_out_findings()
    return [] if verdict is not None and verdict.given_away is not None else None


def explain_rows(
    predictor: Predictor,
    labelled: LabelledRows,
    asked: Asked,
    *,
    table: Dataset | None,
    run: str | Path,
    recipe: Recipe,
    findings: Sequence[Finding] | None = None,
) -> dict[str, Any]:
    """Measure what each attribute contributes, by scoring the same texts with other attributes.

    Args:
        table: from which a single row is taken.
        findings: on leaving out attributes; None to find out on these rows, see `Verdict.leave_out_findings`.

    Returns:
        A record that JSON can hold: ``run``, ``method``, ``data``, ``rows``, ``metric`` and ``higher_is_better``,
        ``losses`` (see `attribute_importance`), ``bins`` with ``rare`` (see `importance_by_frequency`), ``values`` with
        ``least_rows`` (see `influential_values`), ``findings`` (on leaving out attributes), ``row`` or None
        (``number``, ``text``, ``predictions`` of `counterfactuals`, ``words`` of `word_occlusion`), and ``notes``.

    Raises:
        AttribuneError: naming the file, row or column and the cure.
    """
    single = None
    if asked.row is not None and table is not None:
        single = _explain_row(predictor, table, asked.row, source=labelled.source, instead=asked.others, top=asked.top)
    with numbered_in_file(labelled.numbers, labelled.source):
        encoded = predictor.encode_rows(labelled.rows)
    scores = Rescored.of(predictor, encoded, clusters=labelled.clusters)
    if findings is None:
        findings = _leave_out_findings(recipe, scores, labelled)
    return {
        "run": str(run),
        "method": recipe.method["name"],
        "data": labelled.source,
        "rows": len(labelled.labels),
        "metric": predictor.task.main_metric,
        "higher_is_better": predictor.task.higher_is_better,
        "losses": attribute_importance(scores, labelled.labels),
        "rare": asked.rare,
        "bins": importance_by_frequency(scores, labelled.labels, rare=asked.rare),
        "least_rows": asked.min_rows,
        "values": influential_values(scores, min_rows=asked.min_rows, top=asked.top),
        "findings": [finding.to_dict() for finding in findings],
        "row": single,
        "notes": [*labelled.notes, *encoded.report.lines()],
    }


def _leave_out_findings(recipe: Recipe, scores: Rescored, labelled: LabelledRows) -> list[Finding]:
    """Return which attributes these rows say to leave out, as the verdict of `evaluate` has it."""
    predictor, schema = scores.predictor, scores.predictor.schema
    if len(schema) < 2 or labelled.silence is not None:
        return []
    task, chosen = predictor.task, drawn_rows(len(labelled.labels))
    effects = HidingRows(
        task=task,
        known=known_values(schema, scores.rows.attribute_ids[chosen]),
        labels=labelled.labels[chosen],
        clusters={name: kind[chosen] for name, kind in scores.clusters.items()},
        logits=scores.logits[chosen],
        hide=lambda names: scores.hidden([one for name in names for one in schema.named(name)])[chosen],
    ).effects()
    given, hidden = (
        judged_metrics(task, logits, labelled.labels, scores.clusters)
        for logits in (scores.logits, scores.hidden(list(schema)))
    )
    *proper, main = [
        compare_metrics(*pair, names=(AS_GIVEN, HIDDEN), part="") for pair in zip(given, hidden, strict=True)
    ]
    verdict = run_verdict(
        recipe,
        None,
        metric=task.main_metric,
        comparisons=[main],
        conditions={HIDDEN: "hidden"},
        proper=proper,
        by_attribute=attribute_gains(effects.alone),
        together=AttributesTogether.of(effects.together),
    )
    return verdict.leave_out_findings()


def check_explains(predictor: Predictor, method: str, run: str | Path) -> None:
    """Refuse a method that reads no attributes, and a task that scores tokens; ConfigError."""
    require(predictor.task, EXPLAIN)
    if not (predictor.reads_attributes and len(predictor.schema)):
        raise ConfigError(
            f"method {method!r} of {run} reads no attributes, so there is nothing to explain: give a run whose "
            "method reads them"
        )


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
        "attributes": {
            name: cell_text(column[0].as_py())
            for name, column in whole_columns(selected, predictor.schema.sources).items()
        },
        "predictions": counterfactuals(predictor, text, ids, instead=instead, top=top, second=second),
        "words": word_occlusion(predictor, text, ids, second=second),
    }


_WORD_LIMIT = 400


def counterfactuals(
    predictor: Predictor,
    text: str,
    ids: IntArray,
    *,
    instead: Sequence[Mapping[str, Sequence[str]]],
    top: int,
    second: str = "",
) -> list[dict[str, Any]]:
    """Predict a text with its own attributes, without them, and with other values in their place.

    Args:
        second: the second text, for models that read pairs.
        ids: (slots,), the attributes of the row.
        instead: values that replace the row's own, one set for each prediction, the other attributes staying as they
            are; without any set, the `top` most frequent values of each attribute.

    Returns:
        For each prediction ``as`` in words, ``prediction`` and ``numbers`` by name.
    """
    attributes = tuple(predictor.schema) if predictor.reads_attributes else ()
    cases = [("as given", ids)]  # names may be equal: that of an attribute may be "attributes"
    if attributes:
        cases.append(("attributes hidden", np.zeros_like(ids)))
    if len(attributes) > 1:
        cases += [(f"{one.name} hidden", _replaced(ids, one.columns, 0)) for one in attributes]
    for assignments in instead:
        changed, assigned = ids.copy(), assigned_ids(predictor.schema, assignments)
        for name in assignments:
            columns = predictor.schema[name].columns
            changed[columns] = assigned[columns]
        cases.append((assignments_text(assignments), changed))
    for attribute in () if instead else attributes:
        for index in np.argsort(-attribute.counts[1:], kind="stable")[: top if len(attribute.values) else 0].tolist():
            value = f"{attribute.name}={attribute.values[index]}"
            cases.append((value, _replaced(ids, attribute.columns, index + 1)))
    logits = predictor.score(rows_of(predictor, [(text, second)] * len(cases), np.stack([ids for _, ids in cases])))
    numbers, names = numbers_of(predictor, logits)
    predictions = predictor.task.decode(logits).predictions
    return [
        {
            "as": name,
            "prediction": {
                column.removeprefix("prediction_"): plain_value(values[row]) for column, values in predictions.items()
            },
            "numbers": dict(zip(names, numbers[row].tolist(), strict=True)),
        }
        for row, (name, _) in enumerate(cases)
    ]


def _replaced(ids: IntArray, columns: slice, value: int) -> IntArray:
    """Return the ids with one value of an attribute; 0 hides it."""
    changed = ids.copy()
    changed[columns] = 0
    changed[columns.start] = value
    return changed


def rows_of(predictor: Predictor, texts: Sequence[tuple[str, str]], ids: IntArray) -> EncodedRows:
    """Encode texts, each with a second one that models without pairs do not read, with ids (n, slots) of attributes."""
    columns: dict[str, list[str | None]] = {name: [None] * len(texts) for name in predictor.columns}
    columns[predictor.text_input.columns[0]] = [text for text, _ in texts]
    for name in predictor.text_input.pair[:1]:
        columns[name] = [second for _, second in texts]
    return predictor.encode_rows(columns).with_attribute_ids(ids)


def word_occlusion(predictor: Predictor, text: str, ids: IntArray, *, second: str = "") -> dict[str, Any]:
    """Measure the effect of each word on the largest predicted number, with the attributes and without any.

    The effect of a word is that number less the one of the same text without the word, so that it means the same for
    every backbone and for linear baselines.

    Args:
        ids: (slots,), the attributes of the row.
        second: the second text, for models that read pairs; its words are weighed, too.

    Returns:
        The number's name under ``of``, and for each word in the order of the text ``given`` and ``hidden``.

    Raises:
        DataError: for a text without words.
    """
    words = [*((word, 0) for word in text.split()), *((word, 1) for word in second.split())]
    left_out, words = len(words[_WORD_LIMIT:]), words[:_WORD_LIMIT]
    if not words:
        raise DataError("the row has no text whose words could be weighed: choose another row")
    without = [_joined([one for place, one in enumerate(words) if place != number]) for number in range(len(words))]
    texts = [_joined(words), *without]

    (given, names), (hidden, _) = (
        numbers_of(predictor, predictor.score(rows_of(predictor, texts, np.repeat(shown[None], len(texts), axis=0))))
        for shown in (ids, np.zeros_like(ids))
    )
    target = int(given[0].argmax())
    shown = (("given", given), ("hidden", hidden))
    effects = [
        {"word": word, **{name: float(found[0, target] - found[row, target]) for name, found in shown}}
        for row, (word, _) in enumerate(words, start=1)
    ]
    return {"of": names[target], "words": effects, "left_out": left_out}


def _joined(words: Sequence[tuple[str, int]]) -> tuple[str, str]:
    first, second = (" ".join(word for word, of in words if of == text) for text in (0, 1))
    return first, second
