"""Several aspects of a text at once, such as the taste and the aroma of a beer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, ValidationInfo
from scipy.special import log_softmax, softmax

from attribune.core.config import checked_dataclass
from attribune.errors import ConfigError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING
from attribune.tasks.base import Decoded, Task, checked_logits, log_losses
from attribune.tasks.codecs import Choice, One, log_frequencies
from attribune.tasks.inputs import InputSettings, SingleText, TaskInput
from attribune.tasks.labels import (
    Array,
    Column,
    MissingTexts,
    alike_notes,
    class_names,
    label_texts,
    require_columns,
    require_flag,
    sorted_classes,
)

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Aspects"]


def _aspect_names(names: Any) -> tuple[str, ...]:
    return class_names(names, of="the list of aspects", least=1)


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


Names = Annotated[tuple[str, ...], BeforeValidator(_aspect_names)]
ClassLists = Annotated[
    tuple[str, ...] | tuple[tuple[str, ...], ...] | Mapping[str, Sequence[str]], BeforeValidator(_class_lists)
]


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
        """Fit the classes, unless given, on training rows: those of each aspect, or of all together if `shared`."""
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
    def _sizes(self) -> list[int]:
        return [len(classes) for classes in self.class_lists]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """One for each aspect."""
        ends = np.cumsum(self._sizes).tolist()
        return tuple(
            Choice(codec=One(classes=classes, missing=self.missing), name=name, column=column, first=end - len(classes))
            for column, (name, classes, end) in enumerate(zip(self.names, self.class_lists, ends, strict=True))
        )

    @property
    def outputs(self) -> int:
        """Number of classes of all aspects together."""
        return sum(self._sizes)

    def encode_labels(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return class ids int64 (n, aspects) and the mask of rows with every aspect labelled."""
        require_columns(columns, self.names, task=self.kind)
        pairs = zip(self.choices, columns, strict=True)
        ids, keep = zip(*(choice.codec.encode(column, first_row=first_row) for choice, column in pairs), strict=True)
        return np.stack(ids, axis=1), np.logical_and.reduce(keep)

    def unseen_labels(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the labels that are not among the classes of their aspect, as `aspect: label`."""
        require_columns(columns, self.names, task=self.kind)
        counts: Counter[str] = Counter()
        for choice, column in zip(self.choices, columns, strict=True):
            unseen = choice.codec.unseen(column)
            counts.update({f"{choice.name}: {label}": count for label, count in unseen.items()})
        return counts

    def class_notes(self, labels: Array) -> list[str]:
        """Say of which aspects classes are written in several ways."""
        notes = []
        for choice in self.choices:
            counts = choice.codec.counts(choice.labels(np.asarray(labels)))
            notes += [f"aspect {choice.name!r}: {note}" for note in alike_notes(counts)]
        return notes

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean over aspects of the cross-entropy of each head; logits (B, outputs), labels (B, aspects)."""
        from attribune.tasks.losses import mean_cross_entropy

        return mean_cross_entropy(logits, labels, self._sizes)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return the share of the aspects of each row that are labelled."""
        from attribune.tasks.losses import known_weights

        return known_weights(labels).mean(dim=1)

    def weighted_loss(self, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the mean over aspects of the weighted cross-entropy of each head."""
        from attribune.tasks.losses import mean_cross_entropy

        return mean_cross_entropy(logits, labels, self._sizes, weights)

    def _heads(self, logits: Array) -> list[Array]:
        return np.split(checked_logits(logits, self.outputs), np.cumsum(self._sizes)[:-1], axis=1)

    def decode(self, logits: Array) -> Decoded:
        """Return the most probable class of each aspect."""
        heads = self._heads(logits)
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
        predicted = np.stack([head.argmax(axis=1) for head in self._heads(logits)], axis=1)
        each = zip(labels.T, predicted.T, self.names, strict=True)
        accuracies = [metric.accuracy(true, chosen, name=f"accuracy_{name}") for true, chosen, name in each]
        return {result.name: result for result in (metric.mean_accuracy(labels, predicted), *accuracies)}

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the mean over the aspects of the log loss."""
        labels = np.asarray(labels)
        losses = [
            log_losses(-log_softmax(head, axis=1), true)
            for head, true in zip(self._heads(logits), labels.T, strict=True)
        ]
        return metric.mean_of("log_loss", np.mean(losses, axis=0))

    def prior(self, train_labels: Array) -> Array:
        """Return the log frequencies of the classes of each aspect."""
        return np.concatenate([log_frequencies(train_labels[:, i], size) for i, size in enumerate(self._sizes)])
