"""Which of two texts is preferred, by whoever judged them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator
from scipy.special import expit, softmax

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.core.wording import counted
from attribune.errors import ConfigError, DataError, RowError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, canonical
from attribune.tasks.base import Decoded, ScoreBy, Task, TaskHead, check_metrics, checked_logits
from attribune.tasks.codecs import LabelCodec
from attribune.tasks.inputs import ComparedTexts, TaskInput
from attribune.tasks.labels import (
    Column,
    Flag,
    MissingTexts,
    class_ids,
    class_names,
    compared_texts,
    label_texts,
    same_text_note,
    texts_differ,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attribune.tasks.losses import Link

TIES = ("tie", "equal")
"""Labels that prefer neither text, unless others are named."""
TIE = 2
"""The label of a tie, where ties are learned."""
_USUAL_SHARE = 0.2  # of ties, of a task that was not fitted
_METRICS = ("accuracy", "log_loss")
SIDES = (
    ("first", "second"),
    ("First", "Second"),
    ("a", "b"),
    ("A", "B"),
    ("1", "2"),
    ("left", "right"),
    ("model_a", "model_b"),
)
"""Labels of the first and the second text that need no explanation."""


def _two_names(names: Any) -> tuple[str, str]:
    found = class_names(names, of="the preference") if isinstance(names, list | tuple) else ()
    if len(found) != 2:
        raise ConfigError(f"labels is {names!r}: give a list of two, those of the first and of the second text")
    return found[0], found[1]


def _texts(names: Any) -> tuple[str, ...]:
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, list | tuple) or not all(isinstance(name, str | int | float) for name in given):
        raise ConfigError(f"ties is {names!r}: give a list of labels that prefer neither text")
    return tuple(canonical(name) or "" for name in given)


@dataclass(frozen=True, kw_only=True)
class Sides(LabelCodec):
    """Which of two texts is preferred: labels are int64 (n,), 0 or 1, of the two classes that name them, or 2 for none.

    Columns are the labels, if there are any; and unless they stand alone both texts.

    Args:
        ties: labels that prefer neither.
        learns_ties: whether the label of such a row is 2, rather than none.
    """

    ties: tuple[str, ...] = TIES
    learns_ties: bool = False

    unusable = "no preference between two different texts"

    def check(self, columns: Sequence[Column], *, task: str) -> None:
        """Check the number of columns."""
        if len(columns) not in (1, 2, 3):
            raise ConfigError(
                f"the task {task!r} takes at most one label column beside its two texts, and was given "
                f"{len(columns)} columns: name one"
            )

    def _labels(self, columns: Sequence[Column], first_row: int) -> list[str | None]:
        """Return the label of each row."""
        if len(columns) == 2:
            return [self.classes[0]] * len(columns[0])
        return label_texts(columns[0], missing=self.missing, known=(*self.classes, *self.ties), first_row=first_row)

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return labels, and the mask of rows with two different texts that have one."""
        labels = self._labels(columns, first_row)
        for row, label in enumerate(labels, start=first_row):
            if label is not None and label not in self.classes and label not in self.ties:
                listed = ", ".join((*self.classes, *self.ties))
                cure = "correct the cell, or name the labels in task.labels and task.ties"
                raise RowError("the label of ", row, f" is {label!r:.40}, which is none of {listed}: {cure}")
        encoded, _ = class_ids(labels, self.classes)
        if self.learns_ties:
            encoded[[label in self.ties for label in labels]] = TIE
        return encoded, (encoded >= 0) & np.array([differ is True for differ in _differences(columns)], dtype=bool)

    def notes(self, columns: Sequence[Column]) -> list[str]:
        """Say how many rows with two texts are left out, and why."""
        is_tie = [label in self.ties and not self.learns_ties for label in self._labels(columns, 1)]
        alike = sum(differ is False for differ, tie in zip(_differences(columns), is_tie, strict=True) if not tie)
        ties = counted(sum(is_tie), "row is a tie and is left out", "rows are ties and are left out")
        return [*([ties] if any(is_tie) else []), *same_text_note(alike)]

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return ``-log P`` of each preference, or tie; zero without one."""
        from attribune.tasks.losses import row_cross_entropy, row_preference_loss

        return row_cross_entropy(logits, labels) if self.learns_ties else row_preference_loss(logits, labels)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return 1 for each preference, or tie."""
        from attribune.tasks.losses import known_weights

        return known_weights(labels)

    def answers(self, logits: Array) -> Array:
        """Return the probabilities (n, 2) that the first and that the second text is preferred, with ties (n, 3)."""
        if self.learns_ties:
            return np.asarray(softmax(checked_logits(logits, 3), axis=1))
        first, second = checked_logits(logits, 2).T
        return np.stack([expit(first - second), expit(second - first)], axis=1)

    def prior(self, labels: Array) -> Array:
        """Return equal rewards, since which text stands first says nothing, and ties as often as they are."""
        if not self.learns_ties:
            return np.zeros(2)
        ties = int((labels == TIE).sum()) + 0.5  # there may be none
        return np.array([0.0, 0.0, np.log(2 * ties / (len(labels) + 1 - ties))])


@dataclass(frozen=True, kw_only=True)
class _Rewards(TaskHead):
    """A reward for each of two texts, and where ties are learned the share with which they begin."""

    outputs: int = 1
    texts: int = 2
    tie_share: float

    def build_link(self, vector_sizes: Mapping[str, int] | None = None) -> Link | None:
        """Return the weight of ties; None where they are left out."""
        from attribune.tasks.losses import Ties

        return Ties(self.tie_share) if self.tie_share else None


@checked_dataclass(kw_only=True)
class Preference(Task):
    """Predict which of two texts is preferred, by a reward for each (Bradley and Terry 1952).

    A model gives each text a reward of its own, ``r(x, y, u)`` for the prompt x if there is one and the attributes u of
    the row, and ``P(y_1 > y_2) = σ(r_1 - r_2)``. The logits of a row are its two rewards; only their difference
    matters. Its label is 0 or 1, the preferred text. Without a label column, the first text is the preferred one.
    Rows with a tie, and those with the same text twice, are left out and counted.

    With `learn_ties`, a tie is a third answer (Davidson 1970): the probabilities of both preferences and of the tie are
    as ``exp(r_1)``, ``exp(r_2)`` and ``ν exp((r_1 + r_2) / 2)`` with a learned ν. Its label is 2, and the third logit
    is ``log ν + (r_1 + r_2) / 2``.

    Args:
        labels: the labels of rows in which the first text is preferred, and the second; `fit` finds the usual ones.
        ties: labels that prefer neither, whose rows are left out, unless they are learned.
        learn_ties: whether a tie is an answer as the others, named by the first of `ties`.
        tie_share: the share of ties, between 0 and 1, with which the training of ν begins; `fit` takes that of the
            training rows.
        missing: texts that mean a missing label.
        score_by: metrics that come first, beginning with the main one: ``accuracy`` or ``log_loss``.
    """

    kind: ClassVar[str] = "preference"
    input: ClassVar[TaskInput] = ComparedTexts()
    labels: Annotated[tuple[str, str], BeforeValidator(_two_names)] = ("first", "second")
    ties: Annotated[tuple[str, ...], BeforeValidator(_texts)] = TIES
    missing: MissingTexts = MISSING
    score_by: ScoreBy = ()
    learn_ties: Flag = False
    tie_share: float = 0.0

    def __post_init__(self) -> None:
        """Check the names of metrics, that a label has one meaning, and that ties that are learned have a name."""
        check_metrics(self.score_by, _METRICS, task="a preference")
        if self.learn_ties and not self.ties:
            raise ConfigError("learn_ties is true and ties is []: name the labels that prefer neither text in ties")
        if not 0 <= self.tie_share < 1:
            raise ConfigError(f"tie_share is {self.tie_share}: give a number from 0 to below 1")
        if both := sorted({*self.labels}.intersection(self.ties)):
            raise ConfigError(f"the label {both[0]!r} is a preference and a tie: name it once, in labels or in ties")

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        labels: Sequence[str] | None = None,
        ties: str | Sequence[str] = TIES,
        missing: Sequence[str] = MISSING,
        score_by: str | Sequence[str] = (),
        learn_ties: bool = False,
    ) -> Self:
        """Find out how the labels of training rows name the texts, unless `labels` says it, and how many are ties."""
        if labels is None and len(label_columns) in (1, 3):
            labels = _found_labels(label_columns[0], ties=_texts(ties), missing=missing)
        named: Any = {} if labels is None else {"labels": labels}
        task = cls(**named, ties=ties, missing=missing, score_by=score_by, learn_ties=learn_ties)  # type: ignore[arg-type]
        labels_of_rows, has_label = task.encode_labels(label_columns)
        is_tie = labels_of_rows[has_label] == TIE
        if is_tie.all():  # or none at all
            raise DataError(
                "no training row has two different texts of which one is preferred: name the columns of both, and the "
                "column that says which"
            )
        if learn_ties and not is_tie.any():
            raise DataError(
                f"no training row is a tie of two different texts ({', '.join(task.ties)}): name the labels of ties in "
                "task.ties, or leave task.learn_ties out"
            )
        return replace(task, tie_share=float(is_tie.mean()))

    @property
    def outputs(self) -> int:
        """Number of logits of a row."""
        return len(self._answers)

    @property
    def head(self) -> TaskHead:
        """A reward for each text, and where they are learned the weight of ties."""
        return _Rewards(tie_share=(self.tie_share or _USUAL_SHARE) if self.learn_ties else 0.0)

    @property
    def _answers(self) -> tuple[str, ...]:
        return (*self.labels, self.ties[0]) if self.learn_ties else self.labels

    @property
    def main_metric(self) -> str:
        """The first of `score_by`, else `accuracy`."""
        return (*self.score_by, *_METRICS)[0]

    @property
    def codec(self) -> Sides:
        """What the labels of a row are."""
        return Sides(classes=self.labels, ties=self.ties, missing=self.missing, learns_ties=self.learn_ties)

    def decode(self, logits: Array) -> Decoded:
        """Return which text is preferred, both rewards and the probabilities."""
        probabilities = self.codec.answers(logits)
        predictions: dict[str, Any] = {"prediction": [self._answers[one] for one in probabilities.argmax(axis=1)]}
        rewards = {f"reward_{name}": np.asarray(logits)[:, place] for place, name in enumerate(self.labels)}
        return Decoded(
            predictions=predictions | rewards,
            probabilities=probabilities,
            probability_columns=tuple(f"probability_{name}" for name in self._answers),
        )

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return accuracy, in which two equally likely answers are half right, and the mean of ``-log P`` in nats.

        Those of `score_by` come first.
        """
        logits, labels = checked_logits(logits, self.outputs), np.asarray(labels)
        if labels.shape != logits.shape[:1]:
            raise DataError(f"{labels.size} labels for {len(logits)} rows: give one label per row")
        true = np.take_along_axis(logits, labels[:, None], axis=1)
        likeliest = logits.max(axis=1, keepdims=True)
        hits = (true == likeliest)[:, 0] / (logits == likeliest).sum(axis=1)
        values = {"accuracy": hits, "log_loss": np.logaddexp.reduce(logits - true, axis=1)}
        return {name: metric.mean_of(name, values[name]) for name in dict.fromkeys([*self.score_by, *_METRICS])}


def _found_labels(column: Column, *, ties: Sequence[str], missing: Sequence[str]) -> tuple[str, str]:
    """Return the labels of the first and the second text, which must have names that are known."""
    texts = label_texts(column, missing=missing, known=ties)
    found = sorted({text for text in texts if text is not None}.difference(ties))
    if not found:
        raise DataError("no training row has a label that prefers a text: name the column that says which is preferred")
    shown = ", ".join(f"{text!r:.40}" for text in found[:5])
    for pair in SIDES:
        if {*found} == {*pair}:
            return pair
        if {*found} < {*pair}:
            raise DataError(
                f"every training label is {shown}: where the first text is always the preferred one, leave label out; "
                "else name the labels of the first and of the second text in task.labels"
            )
    raise ConfigError(
        f"the labels are {shown}: name the label of the first text and that of the second, as in "
        "task.labels=[left, right], and in task.ties which prefers neither"
    )


def _differences(columns: Sequence[Column]) -> list[bool | None]:
    """Return `texts_differ` of each row; True where the texts are not known."""
    return list(map(texts_differ, compared_texts(columns[-2:]))) if len(columns) > 1 else [True] * len(columns[0])
