"""Several aspects of a text at once, such as the taste and the aroma of a beer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, ValidationInfo
from scipy.special import log_softmax, softmax

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.errors import ConfigError
from attribune.findings import Finding
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING
from attribune.tasks.base import Decoded, Task
from attribune.tasks.codecs import Choice, LabelCodec, One, checked_logits, log_losses
from attribune.tasks.inputs import InputSettings, SingleText, TaskInput
from attribune.tasks.labels import (
    Column,
    MissingTexts,
    class_names,
    label_texts,
    require_columns,
    require_flag,
    sorted_classes,
)

if TYPE_CHECKING:
    from torch import Tensor


def _class_lists(classes: Any, info: ValidationInfo) -> tuple[tuple[str, ...], ...]:
    """Return one tuple of class names per aspect."""
    names = info.data.get("names", ())
    if isinstance(classes, Mapping):
        if set(classes) != set(names):
            raise ConfigError(
                f"classes are given for {sorted(classes)}, the aspects are {sorted(names)}: give the same"
            )
        lists = [classes[name] for name in names]
    elif isinstance(classes, list | tuple) and classes and all(isinstance(part, list | tuple) for part in classes):
        lists = list(classes)
    else:
        lists = [classes] * len(names)
    if len(lists) != len(names):
        raise ConfigError(
            f"there are {len(lists)} lists of classes for {len(names)} aspects: give one list per aspect, or one"
        )
    return tuple(class_names(part, of=f"the aspect {name!r}") for name, part in zip(names, lists, strict=True))


Names = Annotated[tuple[str, ...], BeforeValidator(partial(class_names, of="the list of aspects", least=1))]
ClassLists = Annotated[
    tuple[str, ...] | tuple[tuple[str, ...], ...] | Mapping[str, Sequence[str]], BeforeValidator(_class_lists)
]


@dataclass(frozen=True, kw_only=True)
class ClassesOfAspects(LabelCodec):
    """One class of each aspect; labels are ids int64 (n, aspects), and a row is labelled if all its aspects are.

    Args:
        names: the aspects, of which each has a column.
        parts: what the labels of each are.
    """

    names: tuple[str, ...]
    parts: tuple[One, ...]

    @property
    def sizes(self) -> list[int]:
        """The number of classes of each aspect."""
        return [len(part.classes) for part in self.parts]

    def heads(self, logits: Array) -> list[Array]:
        """Return the finite logits (n, C) of each aspect."""
        return np.split(checked_logits(logits, sum(self.sizes)), np.cumsum(self.sizes)[:-1], axis=1)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """One for each aspect."""
        ends = np.cumsum(self.sizes).tolist()
        return tuple(
            Choice(codec=part, name=name, column=column, first=end - len(part.classes))
            for column, (name, part, end) in enumerate(zip(self.names, self.parts, ends, strict=True))
        )

    def check(self, columns: Sequence[Column], *, task: str) -> None:
        """Check that each aspect has a column."""
        require_columns(columns, self.names, task=task)

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return class ids, and the mask of rows with every aspect labelled."""
        pairs = zip(self.parts, columns, strict=True)
        ids, keep = zip(*(part.encode([column], first_row=first_row) for part, column in pairs), strict=True)
        return np.stack(ids, axis=1), np.logical_and.reduce(keep)

    def unseen(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the labels that are not among the classes of their aspect, as `aspect: label`."""
        counts: Counter[str] = Counter()
        for name, part, column in zip(self.names, self.parts, columns, strict=True):
            counts.update({f"{name}: {label}": count for label, count in part.unseen([column]).items()})
        return counts

    def class_notes(self, labels: Array) -> list[Finding]:
        """Say of which aspects classes are written in several ways."""
        aspects = zip(self.names, self.parts, np.asarray(labels).T, strict=True)
        return [note.of_part(f"aspect {name!r}") for name, part, ids in aspects for note in part.class_notes(ids)]

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over aspects of the cross-entropy of each head; logits are (B, outputs)."""
        from attribune.tasks.losses import mean_cross_entropy

        return mean_cross_entropy(logits, labels, self.sizes)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return the share of the aspects of each row that are labelled."""
        from attribune.tasks.losses import known_weights

        return known_weights(labels).mean(dim=1)

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the mean over the aspects of the log loss."""
        pairs = zip(self.heads(logits), np.asarray(labels).T, strict=True)
        losses = [log_losses(-log_softmax(head, axis=1), true) for head, true in pairs]
        return metric.mean_of("log_loss", np.mean(losses, axis=0))

    def prior(self, labels: Array) -> Array:
        """Return the log frequencies of the classes of each aspect."""
        return np.concatenate([part.prior(ids) for part, ids in zip(self.parts, labels.T, strict=True)])


class _TextWithAspects(SingleText):
    """One text, and a column of labels for each aspect."""

    has_several_labels = True

    def options(self, settings: InputSettings) -> dict[str, Any]:
        return {"names": settings.options.get("names", settings.label)}


@checked_dataclass(kw_only=True)
class Aspects(Task):
    """Predict one class per row for each of several aspects, with one head and one cross-entropy each, averaged.

    Labels are class ids int64 (n, aspects). Logits hold the heads side by side, in the order of `names`. A row is
    labelled if all its aspects are.

    Args:
        names: the aspects.
        classes: class names for all aspects, one list of names per aspect, or a mapping of aspects to names.
        missing: texts that mean a missing label, except those in `classes`.
    """

    kind: ClassVar[str] = "aspects"
    input: ClassVar[TaskInput] = _TextWithAspects()
    main_metric: ClassVar[str] = "mean_accuracy"
    names: Names
    classes: ClassLists
    missing: MissingTexts = MISSING

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        names: Sequence[str],
        classes: Any = None,
        shared: bool = False,
        missing: Sequence[str] = MISSING,
    ) -> Self:
        """Fit the classes, unless given, on training rows: those of each aspect, or of all together.

        Args:
            shared: whether all aspects have the same classes.
        """
        require_flag(shared, name="shared")
        names = class_names(names, of="the list of aspects", least=1)
        if classes is None:
            require_columns(label_columns, names, task=cls.kind)
            texts = [label_texts(column, missing=missing) for column in label_columns]
            if shared:
                texts = [[text for column in texts for text in column]] * len(names)
            classes = tuple(
                sorted_classes(column, of=f"the aspect {name!r}") for name, column in zip(names, texts, strict=True)
            )
        return cls(names=names, classes=classes, missing=missing)

    @property
    def class_lists(self) -> tuple[tuple[str, ...], ...]:
        """The class names of each aspect, in the order of `names`."""
        return self.classes  # type: ignore[return-value]  # one tuple per aspect since `_class_lists`

    @property
    def codec(self) -> ClassesOfAspects:
        """What the labels of a row are."""
        parts = tuple(One(classes=classes, missing=self.missing) for classes in self.class_lists)
        return ClassesOfAspects(names=self.names, parts=parts)

    @property
    def outputs(self) -> int:
        """Number of classes of all aspects together."""
        return sum(self.codec.sizes)

    def weighted_loss(self, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the mean over aspects of the weighted cross-entropy of each head."""
        from attribune.tasks.losses import mean_cross_entropy

        return mean_cross_entropy(logits, labels, self.codec.sizes, weights)

    def decode(self, logits: Array) -> Decoded:
        """Return the most probable class of each aspect."""
        heads = self.codec.heads(logits)
        return Decoded(
            predictions={
                f"prediction_{name}": [classes[i] for i in head.argmax(axis=1)]
                for name, classes, head in zip(self.names, self.class_lists, heads, strict=True)
            },
            probabilities=np.hstack([softmax(head, axis=1) for head in heads]),
            probability_columns=tuple(
                f"probability_{name}_{label}"
                for name, classes in zip(self.names, self.class_lists, strict=True)
                for label in classes
            ),
        )

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the accuracy averaged over aspects, and the accuracy of each."""
        labels = np.asarray(labels)
        predicted = np.stack([head.argmax(axis=1) for head in self.codec.heads(logits)], axis=1)
        each = zip(labels.T, predicted.T, self.names, strict=True)
        accuracies = [metric.accuracy(true, chosen, name=f"accuracy_{name}") for true, chosen, name in each]
        return {result.name: result for result in (metric.mean_accuracy(labels, predicted), *accuracies)}
