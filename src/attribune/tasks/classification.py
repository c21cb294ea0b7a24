"""Classes: one per row, or several."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, ValidationInfo

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.errors import ConfigError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, canonical
from attribune.tasks.base import Decoded, ScoreBy, Task, check_metrics, checked_logits
from attribune.tasks.codecs import ClassCodec, One, Several, Shares
from attribune.tasks.labels import (
    Column,
    Flag,
    MissingTexts,
    class_names,
    require_columns,
    require_flag,
    sorted_classes,
)


def _checked_weights(weights: Any, info: ValidationInfo) -> tuple[float, ...] | None:
    if weights is None or "classes" not in info.data:
        return None
    classes = info.data["classes"]
    if isinstance(weights, str):
        raise ConfigError(
            f'class_weights is {weights!r}: a task holds numbers; "balanced" is computed from training rows by'
            ' Classification.fit(columns, class_weights="balanced")'
        )
    numbers = tuple(weights) if isinstance(weights, Sequence) else ()
    are_positive = (isinstance(number, int | float) and 0 < number < math.inf for number in numbers)
    if len(numbers) != len(classes) or not all(are_positive):
        raise ConfigError(
            f"class_weights is {weights!r}: give one positive number for each of the {len(classes)} classes,"
            f" in this order: {', '.join(classes)}"
        )
    return tuple(float(number) for number in numbers)


Classes = Annotated[int | tuple[str, ...], BeforeValidator(partial(class_names, of="the classification", least=1))]
ClassWeights = Annotated[tuple[float, ...], BeforeValidator(_checked_weights)]


def _codec(classes: tuple[str, ...], options: Mapping[str, Any]) -> ClassCodec:
    weights = options.get("class_weights")
    known: dict[str, Any] = {
        "classes": classes,
        "missing": options.get("missing", MISSING),
        "weights": None if isinstance(weights, str) else weights,
    }
    if options.get("soft_labels"):
        return Shares(**known)
    return Several(**known, separator=options.get("separator")) if options.get("multi_label") else One(**known)


@checked_dataclass(kw_only=True)
class Classification(Task):
    """Predict one of C classes per row, with `multi_label` any number of them, with `soft_labels` a share of each.

    Labels are class ids int64 (n,), with `soft_labels` distributions float32 (n, C). With `multi_label` they are
    float32 (n, C + 1), 1 where the row has the class, and in the last column where it has a label that no training row
    has; (n, C) is accepted too. An empty list is a row without labels; an empty text is a missing label.

    Args:
        classes: class names in the order of ids, or their number C, for the names "0" to C - 1.
        class_weights: C positive numbers, the weights of classes in the loss, with `multi_label` of their positives;
            `fit` also takes ``balanced``.
        multi_label: several labels per row: sigmoid and binary cross-entropy.
        soft_labels: labels are distributions over the classes, which the cross-entropy uses; metrics of
            single labels are against the most frequent class.
        separator: between the labels of one cell; None for cells that are lists.
        positive: the class whose F1 is the main metric.
        missing: texts that mean a missing label, except those in `classes`.
        score_by: metrics that come first, beginning with the main one: ``accuracy``, ``macro_f1``, ``f1`` of the
            positive class, or ``matthews``, which is computed when it is named; with `multi_label` ``micro_f1``,
            ``macro_f1`` or ``subset_accuracy``; with `soft_labels` also ``cross_entropy``, ``manhattan`` or
            ``jensen_shannon``.
    """

    kind: ClassVar[str] = "classification"
    classes: Classes
    class_weights: ClassWeights | None = None
    multi_label: Flag = False
    soft_labels: Flag = False
    separator: str | None = None
    positive: Annotated[str | None, BeforeValidator(canonical)] = None
    missing: MissingTexts = MISSING
    score_by: ScoreBy = ()

    def __post_init__(self) -> None:
        """Check what depends on several fields."""
        names = class_names(self.classes, of="the classification", least=1 if self.multi_label else 2)
        if self.positive is not None and (self.multi_label or self.positive not in names):
            raise ConfigError(
                f"positive is {self.positive!r}: name one of the classes ({', '.join(names)})"
                " of a task with one label per row"
            )
        if self.soft_labels and self.multi_label:
            raise ConfigError("soft_labels are distributions over single classes: leave multi_label or them out")
        offered = self._usual if self.multi_label else (*self._usual, "matthews")
        check_metrics(
            self.score_by, offered, task=f"this classification{'' if self.positive else ' (without positive)'}"
        )
        if self.separator is not None and (not self.multi_label or not self.separator):
            raise ConfigError(f"separator is {self.separator!r}: give a non-empty text, together with multi_label=True")

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        classes: int | Sequence[str] | None = None,
        class_weights: str | Sequence[float] | None = None,
        multi_label: bool = False,
        soft_labels: bool = False,
        separator: str | None = None,
        positive: str | None = None,
        missing: Sequence[str] = MISSING,
        score_by: str | Sequence[str] = (),
    ) -> Self:
        """Fit the classes, if they are not given, and the weights for `class_weights="balanced"` on training rows."""
        require_columns(label_columns, ["label"], task=cls.kind)
        require_flag(multi_label, name="multi_label")
        require_flag(soft_labels, name="soft_labels")
        if separator == "":
            raise ConfigError(
                "the separator is empty: give the text between two labels (in YAML, a bar in quotes: '|')"
            )
        least = 1 if multi_label else 2
        known = () if classes is None else class_names(classes, of="the classification", least=least)
        options: dict[str, Any] = {"multi_label": multi_label, "soft_labels": soft_labels, "separator": separator}
        options |= {"missing": missing}
        codec = _codec(known, options)
        texts = codec.names(label_columns[0])
        codec.check_names(texts)
        names = known or sorted_classes(texts, of="the label column", least=least)
        task = cls(classes=names, positive=positive, score_by=score_by, **options)  # type: ignore[arg-type]
        if class_weights == "balanced":
            labels, keep = task.encode_labels(label_columns)
            class_weights = task.codec.balanced(labels[keep])
        return replace(task, class_weights=class_weights)  # type: ignore[arg-type]

    @classmethod
    def codec_for(cls, options: Mapping[str, Any]) -> ClassCodec:
        """Return what the labels are: one class, several, or a share of each."""
        classes = options.get("classes")
        return _codec(class_names(classes, of="the classification", least=1) if classes else (), options)

    @property
    def codec(self) -> ClassCodec:
        """What the labels of a row are."""
        return _codec(self.class_names, vars(self))

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names in the order of ids."""
        return self.classes if isinstance(self.classes, tuple) else ()

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def main_metric(self) -> str:
        """The first of `score_by`; else `accuracy`, or `f1` with a positive class.

        For several labels it is `micro_f1`, for distributions `cross_entropy`.
        """
        return (*self.score_by, *self._usual)[0]

    @property
    def _usual(self) -> tuple[str, ...]:
        """The metrics that are computed unasked, the main one first."""
        if self.multi_label:
            return ("micro_f1", "macro_f1", "subset_accuracy")
        single = ("accuracy", "macro_f1") if self.positive is None else ("f1", "accuracy", "macro_f1")
        return (*self.codec.share_metrics, *single)

    def decode(self, logits: Array) -> Decoded:
        """Return the most probable class, or all classes with a probability above one half."""
        logits, names, codec = checked_logits(logits, self.outputs), self.class_names, self.codec
        predicted: list[Any]
        if codec.has_one_class:
            predicted = [names[i] for i in logits.argmax(axis=1)]
        else:
            predicted = [[names[i] for i in np.flatnonzero(row > 0)] for row in logits]
        return Decoded(
            predictions={"prediction": predicted},
            probabilities=codec.chances(logits),
            probability_columns=tuple(f"probability_{name}" for name in names),
        )

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return accuracy, macro-F1 and F1 of the positive class, or micro-F1, macro-F1 and subset accuracy.

        Those of `score_by` come first. For distributions, those of `SOFT_METRICS` go before; a tie of the most frequent
        classes counts as the one that is predicted.
        """
        logits, labels = checked_logits(logits, self.outputs), np.asarray(labels)
        makers: dict[str, Callable[[], Metric]]
        if self.multi_label:
            true, predicted = self._known_and_unseen(labels > 0, logits > 0)
            makers = {
                "micro_f1": lambda: metric.label_micro_f1(true, predicted),
                "macro_f1": lambda: metric.label_macro_f1(true, predicted),
                "subset_accuracy": lambda: metric.subset_accuracy(true, predicted),
            }
        else:
            true, predicted = self.codec.true_classes(labels, logits), logits.argmax(axis=1)
            makers = {
                "accuracy": lambda: metric.accuracy(true, predicted),
                "macro_f1": lambda: metric.macro_f1(true, predicted, classes=self.outputs),
                "matthews": lambda: metric.matthews(true, predicted, classes=self.outputs),
                "f1": lambda: metric.f1(true, predicted, positive=self.class_names.index(self.positive or "")),
            }
        of_shares = self.codec.of_shares(logits, labels)
        names = dict.fromkeys([*self.score_by, *self._usual])
        return {name: of_shares[name] if name in of_shares else makers[name]() for name in names}

    def _known_and_unseen(self, true: Array, predicted: Array) -> tuple[Array, Array]:
        """Return 0/1 labels and predictions (n, C or C + 1); unseen labels are one more class, never predicted."""
        if true.shape[1] > self.outputs and not true[:, self.outputs].any():
            true = true[:, : self.outputs]
        return true, np.pad(predicted, ((0, 0), (0, true.shape[1] - self.outputs)))
