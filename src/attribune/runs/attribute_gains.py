"""What attributes are worth to a model: its scores with them against those with them hidden, judged one by one.

Also of several together, and of rare values against frequent ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from pydantic import Field

from attribune.core.arrays import BoolArray, IntArray
from attribune.findings import Finding
from attribune.metrics.bootstrap import PairedResult, YesOrNo, paired
from attribune.metrics.metric import Metric
from attribune.metrics.results import ENOUGH_TO_LEAVE_OUT, LEAST_ROWS, HiddenEffect
from attribune.runs.training_record import SavedRecord, VerdictPart
from attribune.schema import Schema
from attribune.schema.attributes import counts_of_rows
from attribune.schema.columns import Table

_RESAMPLES = 2_000


class _Gain(VerdictPart):
    """What attributes change: the model with them against the same one with them hidden.

    Args:
        metric: of the comparison, the proper score of the task, or the main metric if there is none.
        gain: the difference.
        readable: by the metric `readable_metric`, if that is another one.
        rows: how many rows were scored.
        with_value: in how many of them a value was hidden that the model knows; None in early files.
    """

    metric: str
    gain: PairedResult
    readable_metric: str | None = None
    readable: PairedResult | None = None
    rows: int
    with_value: int | None = None

    @classmethod
    def _of(cls, effect: HiddenEffect, **more: Any) -> Self:
        """Return the part for an effect, with fields of its own."""
        (metric, gain), *rest = effect.pairs.items()
        if rest:
            more["readable_metric"], more["readable"] = rest[0]
        return cls(metric=metric, gain=gain, rows=effect.rows, with_value=effect.with_value, **more)

    @property
    def _pairs(self) -> dict[str, PairedResult]:
        """The differences by metric, the one that decides first."""
        if self.readable is None or self.readable_metric is None:
            return {self.metric: self.gain}
        return {self.metric: self.gain, self.readable_metric: self.readable}

    @property
    def _figures(self) -> list[dict[str, Any]]:
        return [{"metric": metric, **asdict(pair)} for metric, pair in self._pairs.items()]

    @property
    def _answers(self) -> set[YesOrNo]:
        """Whether the model is better with them, by each metric alone and without a correction."""
        return {pair.answer(metric) for metric, pair in self._pairs.items()}


class AttributeGain(_Gain):
    """What one attribute changes: the model with all attributes against the same one with this attribute hidden.

    Args:
        answer: whether the model is better with it, by `p_value`.
        p_value: that of `gain` after Holm's correction for the number of attributes.
    """

    attribute: str
    answer: YesOrNo
    p_value: float

    @property
    def shows_no_gain(self) -> bool:
        """Whether no difference is shown, and no gain by any metric before the correction either."""
        return self.answer == "not shown" and "yes" not in self._answers

    def findings(self) -> Iterator[Finding]:
        """Yield what the attribute changes."""
        contradicted = False
        if self.readable is not None and self.readable_metric is not None:
            contradicted = self.readable.answer(self.readable_metric) not in ("not shown", self.answer)
        codes = {"yes": "attribute-helps", "no": "attribute-hurts", "not shown": "attribute-not-shown"}
        was_shown = self.gain.p_value < 0.05 and not self.gain.low <= 0 <= self.gain.high
        yield Finding.of(
            codes[self.answer],
            attribute=self.attribute,
            rows=self.rows,
            figures=self._figures,
            corrected_p_value=self.p_value,
            lost_by_correction=self.answer == "not shown" and was_shown,
            contradicted=contradicted,
        )


class AttributesTogether(_Gain):
    """What the attributes that show no gain alone change together.

    Args:
        attributes: their names.
        hurting: attributes with which the model is worse, which are hidden on both sides of the comparison.
        kept: the other attributes, as a recipe has them.
    """

    attributes: list[str]
    hurting: list[str] = Field(default_factory=list)
    kept: list[dict[str, Any]] = Field(default_factory=list)

    @classmethod
    def of(cls, effect: HiddenEffect | None) -> Self | None:
        """Return the part for what hiding them together has shown."""
        if effect is None:
            return None
        return cls._of(effect, attributes=list(effect.attributes), hurting=list(effect.hurting))

    @property
    def is_too_little(self) -> bool:
        """Whether the rows are too few, or have too few values, to show anything."""
        few_values = self.with_value is not None and self.with_value < ENOUGH_TO_LEAVE_OUT
        return few_values or (self.gain.can_show_none and self.gain.differing != 0)

    @property
    def can_be_left_out(self) -> bool:
        """Whether the rows show no loss without them by any metric, and could have."""
        return not self.is_too_little and "yes" not in self._answers

    def findings(self) -> Iterator[Finding]:
        """Yield whether they can be left out."""
        values = {"attributes": self.attributes, "hurting": self.hurting, "rows": self.rows}
        if self.is_too_little:
            yield Finding.of(
                "too-few-to-leave-out", **values, with_value=self.with_value, differing=self.gain.differing
            )
        elif self.can_be_left_out:
            better = "no" in self._answers
            yield Finding.of(
                "attributes-to-leave-out", **values, figures=self._figures, better_without=better, kept=self.kept
            )
        else:
            yield Finding.of("attributes-missed-together", **values, figures=self._figures)


class CountGain(SavedRecord):
    """What the attributes change in rows whose value of one attribute has some number of training rows.

    Args:
        low: the smallest number of training rows, and ``high`` the largest.
        rows: how many rows these are.
        answer: whether the model is better with its attributes than with all of them hidden.
        gain: the difference of the main metric.
    """

    attribute: str
    low: int
    high: int
    rows: int
    answer: YesOrNo
    gain: PairedResult

    def sentence(self, metric: str) -> str:
        """Say what the rows show by the main metric."""
        shown = {"figures": [{"metric": metric, **asdict(self.gain)}], **self.model_dump(exclude={"gain"})}
        return Finding("attributes-by-count", shown).text


def attribute_gains(alone: Sequence[HiddenEffect]) -> list[AttributeGain]:
    """Judge each attribute by the model without it, with p-values corrected for their number (Holm 1979).

    Args:
        alone: the effects of single attributes.
    """
    firsts = [next(iter(effect.pairs.items())) for effect in alone]
    corrected = holm([gain.p_value for _, gain in firsts])
    return [
        AttributeGain._of(
            effect,
            attribute=effect.attributes[0],
            answer=gain.answer(metric) if p_value < 0.05 else "not shown",
            p_value=p_value,
        )
        for effect, (metric, gain), p_value in zip(alone, firsts, corrected, strict=True)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number: the smallest times m, the next times m - 1, and never decreasing."""
    order, corrected, highest = np.argsort(p_values, kind="stable"), [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def gains_by_count(given: Metric, hidden: Metric, counts: Mapping[str, IntArray]) -> list[CountGain]:
    """Compare a model with itself without attributes, on rows with rare and with frequent values of each attribute.

    Values that no training row has are a group of their own; the others are two groups with about as many rows. Rows
    without a value are in none.

    Args:
        given: the main metric, and `hidden` that with every attribute hidden.
        counts: for each attribute the training rows with each row's value (n,), as `value_counts` has them.
    """
    gains = []
    for attribute, numbers in counts.items():
        ranges = _rare_and_frequent(numbers) if len(numbers) == len(given) else []
        for low, high in ranges if len(ranges) > 1 else ():
            rows = (numbers >= low) & (numbers <= high)
            gain = paired(given.select(rows), hidden.select(rows), resamples=_RESAMPLES)
            gains.append(
                CountGain(
                    attribute=attribute,
                    low=low,
                    high=high,
                    rows=int(rows.sum()),
                    answer=gain.answer(given.name),
                    gain=gain,
                )
            )
    return gains


def value_counts(schema: Schema, table: Table) -> dict[str, IntArray]:
    """Return the training rows with each row's value (n,), for each attribute whose values have ids of their own.

    A value that no training row has is counted 0, and a row without a value -1.
    """
    listed = [attribute for attribute in schema if attribute.spec.lists_values]
    ids = schema.encode(table)[0] if listed else np.zeros((0, 0), np.int64)
    counts = {attribute.name: counts_of_rows(attribute.counts, ids[:, attribute.columns]) for attribute in listed}
    for name, numbers in counts.items():
        numbers[~_has_value(schema, table, name)] = -1
    return counts


def _has_value(schema: Schema, table: Table, name: str) -> BoolArray:
    """Return whether each row (n,) has a value of an attribute, known or not."""
    found = [np.zeros(0, dtype=bool)]
    for _, cells in schema.cells(table, name):
        given = np.zeros(cells.height, dtype=bool)
        given[cells.rows] = True
        found.append(given)
    return np.concatenate(found)


def _rare_and_frequent(counts: IntArray) -> list[tuple[int, int]]:
    """Return ranges of counts (n,), ends included: 0, and two with about as many rows; only those with enough rows."""
    levels, rows = np.unique(counts[counts > 0], return_counts=True)
    ends = np.cumsum(rows)
    unseen = [(0, 0)] if (counts == 0).sum() >= LEAST_ROWS else []
    if not len(levels) or ends[-1] < LEAST_ROWS:
        return unseen
    first, last = int(levels[0]), int(levels[-1])
    split = int(np.abs(ends - ends[-1] / 2).argmin())
    if min(ends[split], ends[-1] - ends[split]) < LEAST_ROWS:
        return [*unseen, (first, last)]
    return [*unseen, (first, int(levels[split])), (int(levels[split + 1]), last)]
