"""What a model loses without attributes: the scores of the same rows with each one hidden, and with several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from attribune.core.arrays import Array, IntArray
from attribune.data.clusters import Clusters, clustered
from attribune.metrics.bootstrap import paired
from attribune.metrics.metric import Metric
from attribune.metrics.results import HiddenAttributes, HiddenEffect
from attribune.models.table_scores import TableScores
from attribune.runs.attribute_gains import attribute_gains
from attribune.schema import Schema
from attribune.tasks import Task

_ROWS = 10_000  # are scored again for each attribute


def judged_metrics(task: Task, logits: Array, labels: Array, clusters: Clusters) -> list[Metric]:
    """Return the metrics that a verdict reads: the proper score, if the task has one, and the main metric."""
    main, proper = task.metrics(logits, labels)[task.main_metric], task.proper_score(logits, labels)
    found = [main] if proper is None or proper.name == main.name else [proper, main]
    return list(clustered({metric.name: metric for metric in found}, clusters).values())


def drawn_rows(number: int) -> IntArray:
    """Return the rows that are scored with attributes hidden: all, or of more than 10,000 as many at random."""
    if number <= _ROWS:
        return np.arange(number)
    return np.sort(np.random.default_rng(0).permutation(number)[:_ROWS])


def hidden_attributes(scores: TableScores, labels: Array, clusters: Clusters, logits: Array) -> HiddenAttributes:
    """Return what the attributes of a model change on `drawn_rows` of a table.

    Args:
        logits: of all rows with their attributes.
    """
    predictor, chosen = scores.predictor, drawn_rows(len(labels))
    if len(chosen) < len(labels):
        scores = TableScores(predictor, scores.table.select(chosen))
    rows = HidingRows(
        task=predictor.task,
        known=known_values(predictor.schema, predictor.schema.encode(scores.table)[0]),
        labels=labels[chosen],
        clusters={name: kind[chosen] for name, kind in clusters.items()},
        logits=logits[chosen],
        hide=scores.logits,
    )
    return rows.effects()


def known_values(schema: Schema, ids: IntArray) -> dict[str, Array]:
    """Return for each column of attributes which rows have a value that is known, by the ids (n, slots) of values."""
    known = {one.name: (ids[:, one.columns] != 0).any(axis=1) for one in schema}
    return {name: np.any([known[one.name] for one in schema.named(name)], axis=0) for name in schema.sources}


@dataclass(frozen=True, kw_only=True)
class HidingRows:
    """Labelled rows that a model can score without some of their attributes.

    Args:
        known: by attribute, which rows (n,) have a value that the model knows.
        logits: with all attributes.
        hide: returns the logits of the rows with the attributes of some names hidden.
    """

    task: Task
    known: Mapping[str, Array]
    labels: Array
    clusters: Clusters
    logits: Array
    hide: Callable[[Sequence[str]], Array]
    _metrics: dict[tuple[str, ...], list[Metric]] = field(default_factory=dict, compare=False, repr=False)

    def effects(self) -> HiddenAttributes:
        """Return the effect of each attribute, and of those together that show no gain alone.

        Where all of them show none, the comparison with every attribute hidden says what they do together.
        """
        alone = [self._effect([name]) for name in self.known]
        gains = attribute_gains(alone)
        without_gain = [gain.attribute for gain in gains if gain.shows_no_gain]
        hurting = [gain.attribute for gain in gains if gain.answer == "no"]
        if not without_gain or len(without_gain) == len(alone):
            return HiddenAttributes(alone=alone)
        if len(without_gain) == 1 and not hurting:
            (single,) = (effect for effect in alone if list(effect.attributes) == without_gain)
            return HiddenAttributes(alone=alone, together=single)
        return HiddenAttributes(alone=alone, together=self._effect(without_gain, hurting=hurting))

    def _effect(self, names: Sequence[str], *, hurting: Sequence[str] = ()) -> HiddenEffect:
        """Return the effect of attributes, where those that hurt are hidden already."""
        with_them, without = self._judged(hurting), self._judged([*hurting, *names])
        return HiddenEffect(
            attributes=tuple(names),
            pairs={a.name: paired(a, b) for a, b in zip(with_them, without, strict=True)},
            rows=len(self.labels),
            with_value=int(np.any([self.known[name] for name in names], axis=0).sum()),
            hurting=tuple(hurting),
        )

    def _judged(self, hidden: Sequence[str]) -> list[Metric]:
        """Return what a verdict reads with attributes hidden, which is computed once."""
        key = tuple(hidden)
        if key not in self._metrics:
            logits = self.hide(hidden) if hidden else self.logits
            self._metrics[key] = judged_metrics(self.task, logits, self.labels, self.clusters)
        return self._metrics[key]
