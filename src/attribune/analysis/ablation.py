"""What each span of layers contributes: a method is switched off there, without training again.

Houlsby et al. 2019, section 3.6 and figure 6: adapters of layers i to j are removed from a trained model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Unpack

from attribune.core.arguments import checked_arguments
from attribune.core.wording import counted
from attribune.data.clusters import clustered
from attribune.data.file_options import ReadingOfAll
from attribune.data.tables import with_reading
from attribune.errors import ConfigError, numbered_in_file
from attribune.methods.base import Ablation, Method
from attribune.metrics.bootstrap import interval, paired
from attribune.metrics.metric import Metric
from attribune.models.predictor import Predictor
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run

METHOD = "the method"
"""What is switched off where no attribute is named."""


@checked_arguments
def ablate(
    run: str | Path,
    data: Any = None,
    *,
    rows: int | None = None,
    backbone: str | Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
    **reading: Unpack[ReadingOfAll],
) -> dict[str, Any]:
    """Score labelled rows with the method switched off in each span of layers, and with each attribute hidden there.

    For L layers, this takes L (L + 1) / 2 passes over the rows, and as many for each attribute. What a method does
    outside the layers, such as in the pooling, stays on.

    Args:
        data: labelled rows, anything `read_table` takes; None for the run's own test rows.
        rows: number of labelled rows to score, from the first; None scores all.
        backbone: new location of the backbone's weights, if they were moved.
        tell: called with a line that gives the number of passes.
        **reading: how files are read, as in `read_table`.

    Returns:
        A record for JSON: ``run``, ``method``, ``data``, ``rows``, ``metric``, ``layers``, ``value`` with its interval,
        ``spans`` (``what``, ``first``, ``last``, and ``difference``, ``low``, ``high``, ``p_value`` of the metric with
        everything on less that with the span switched off), and ``notes``.

    Raises:
        AttribuneError: naming file, row or column and the cure; for a method without sites.
    """
    if rows is not None and rows < 1:
        raise ConfigError(f"rows is {rows}: give at least 1")
    data = with_reading(data, reading)
    recipe, predictor = load_run(run, backbone=backbone)
    method, layers = _layers(predictor)
    labelled = LabelledRows.to_score(run, recipe, predictor, data)
    if rows is not None and rows < len(labelled.labels):
        labelled = labelled.first(rows)
    with numbered_in_file(labelled.numbers, labelled.source):
        encoded = predictor.encode_rows(labelled.rows)
    attributes = predictor.schema if predictor.reads_attributes else ()
    columns = {METHOD: None} | {attribute.name: attribute.columns for attribute in attributes}
    passes, task = 1 + len(columns) * len(layers) * (len(layers) + 1) // 2, predictor.task
    tell(f"{passes} passes over {counted(len(labelled.labels), 'row')}")

    def score() -> Metric:
        return clustered(task.metrics(predictor.score(encoded), labelled.labels), labelled.clusters)[task.main_metric]

    whole = score()
    return {
        "run": str(run),
        "method": recipe.method["name"],
        "data": labelled.source,
        "rows": len(labelled.labels),
        "metric": task.main_metric,
        "layers": list(layers),
        "value": asdict(interval(whole)),
        "spans": [
            {"what": what, "first": span[0], "last": span[-1], **asdict(paired(whole, one))}
            for what, span, one in _without_spans(method, layers, columns, score)
        ],
        "notes": labelled.notes,
    }


def _without_spans(
    method: Method, layers: Sequence[int], columns: Mapping[str, slice | None], score: Callable[[], Metric]
) -> Iterator[tuple[str, Sequence[int], Metric]]:
    """Yield the metric with the method off, or an attribute hidden, in each span of layers."""
    for what, hidden in columns.items():
        for first, last in combinations_with_replacement(range(len(layers)), 2):
            span = layers[first : last + 1]
            with method.ablated(Ablation(span, hidden)):
                one = score()
            yield what, span, one


def _layers(predictor: Predictor) -> tuple[Method, tuple[int, ...]]:
    """Return the method of a model and the layers in which it acts; ConfigError without any."""
    model = predictor.model
    if not model.method.site_layers():
        name = model.describe(precision=predictor.precision)["method"]
        raise ConfigError(
            f"method {name!r} acts in no layer of a backbone, so no layer of it can be switched off: choose a run of a "
            "method that does, such as injector, adapter, pln or plora"
        )
    return model.method, model.method.site_layers()
