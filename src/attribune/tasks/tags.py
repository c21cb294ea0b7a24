"""A tag for each word: entities, chunks, parts of speech."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator
from scipy.special import log_softmax, softmax

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.core.hashing import text_number
from attribune.errors import ConfigError, DataError, RowError
from attribune.findings import Finding
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, canonical
from attribune.tasks.base import Decoded
from attribune.tasks.codecs import PerToken, checked_logits, log_frequencies, log_losses
from attribune.tasks.inputs import TaskInput, WordList
from attribune.tasks.labels import (
    UNSEEN,
    Column,
    MissingTexts,
    class_names,
    count_classes,
    odd_classes,
    sorted_classes,
)
from attribune.tasks.tokens import TokenRow, TokenTask, TokenWindow, object_array, word_list

OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
"""What a tag says of its word: no entity, the first word of one, one inside, the last one, or a whole entity."""

_TAG = re.compile(r"([BIESLUM])(?:-(.*))?", re.DOTALL)
_POSITIONS = {"B": BEGIN, "I": INSIDE, "M": INSIDE, "E": END, "L": END, "S": SINGLE, "U": SINGLE}


def split_tag(tag: str) -> tuple[int, str] | None:
    """Return position and type of a tag such as ``O``, ``B-PER`` or ``I``; None for one that has no position."""
    if tag == "O":
        return OUTSIDE, ""
    match = _TAG.fullmatch(tag)
    return None if match is None else (_POSITIONS[match[1]], match[2] or "")


def count_entities(
    true: tuple[Array, Array], predicted: tuple[Array, Array], rows: Array, *, count: int
) -> tuple[Array, Array, Array]:
    """Count the entities of rows that are in both sequences, in the predicted one and in the true one, (n,) each.

    Boundaries are those of conlleval, in IOB1, IOB2 (BIO) and, as in its successors, IOBES alike: Tjong Kim Sang and
    Buchholz 2000, *Introduction to the CoNLL-2000 Shared Task: Chunking*.

    Two entities are the same if type, first and last word are.

    Args:
        true: positions and types (N,) of the words of all rows, one after the other.
        predicted: the same.
        rows: (N,) the row of each word, ascending.
        count: n.
    """
    first = np.r_[True, rows[1:] != rows[:-1]] if len(rows) else np.zeros(0, dtype=bool)
    spans = [_spans(positions, types, first) for positions, types in (true, predicted)]
    found = [np.bincount(rows[starts], minlength=count) for starts, _, _ in spans]
    (starts, ends, types), (other_starts, other_ends, other_types) = spans
    _, mine, its = np.intersect1d(starts, other_starts, assume_unique=True, return_indices=True)
    same = mine[(ends[mine] == other_ends[its]) & (types[mine] == other_types[its])]
    return np.bincount(rows[starts[same]], minlength=count), found[1], found[0]


def _spans(positions: Array, types: Array, first: Array) -> tuple[Array, Array, Array]:
    """Return the first words, the words after the last and the types of the entities, (E,) each.

    An entity begins at a word that is in one, if its tag or the one before says so, its type is another than before, or
    the row begins; it ends before the next such word, and before a word outside.
    """
    inside = positions != OUTSIDE
    before, type_before = np.roll(positions, 1), np.roll(types, 1)
    begins = np.isin(positions, (BEGIN, SINGLE)) | np.isin(before, (OUTSIDE, END, SINGLE)) | (types != type_before)
    begins = inside & (begins | first)
    stops = np.flatnonzero(begins | ~inside | first)
    starts = np.flatnonzero(begins)
    following = np.searchsorted(stops, starts, side="right")
    ends = np.append(stops, len(positions))[following]
    return starts, ends, types[starts]


Scheme = Literal["conll", "none"]
_EXAMPLES = 5  # of tags that are named
_POSITION_CODES = 8  # codes of positions in the id of an unseen tag, of which five are used
_TYPE_BYTES = 6


Names = Annotated[tuple[str, ...], BeforeValidator(partial(class_names, of="the tags"))]


@dataclass(frozen=True, kw_only=True)
class TagLists(PerToken):
    """A tag for each word; the label of a row is a tuple of ids, and labels are (n,).

    Columns are the tags, and if they are known the words, of which there must be as many.

    Args:
        scheme: see `Tags`.
    """

    scheme: Scheme = "none"

    @cached_property
    def _parts(self) -> tuple[Array, Array, dict[str, int]]:
        """Position and type (C,) of each tag, and the number of each type."""
        parts = [split_tag(tag) or (SINGLE, tag) for tag in self.classes]
        types = {name: number for number, name in enumerate(dict.fromkeys(name for _, name in parts))}
        return np.array([position for position, _ in parts]), np.array([types[name] for _, name in parts]), types

    def check(self, columns: Sequence[Column], *, task: str) -> None:
        """Check the number of columns."""
        if not 1 <= len(columns) <= 2:
            raise ConfigError(f"the task {task!r} takes one label column and was given {len(columns)}: name one")

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return a tuple of ids per row, and the mask of labelled rows; an unseen tag is below `UNSEEN`."""
        lists = _tag_lists(columns[0], missing=self.missing, first_row=first_row)
        index = {tag: number for number, tag in enumerate(self.classes)}
        labels = []
        for row, tags in enumerate(lists):
            words = word_list(columns[1][row]) if len(columns) > 1 else None
            if tags is not None and words and len(words) != len(tags):
                counts = f"{len(words):,} words and {len(tags):,} tags"
                raise RowError("", first_row + row, f" has {counts}: give each word one tag")
            labels.append(tuple(index[tag] if tag in index else self._unseen_id(tag) for tag in tags or ()))
        return object_array(labels), np.array([tags is not None for tags in lists], dtype=bool)

    def _unseen_id(self, tag: str) -> int:
        """Return the id of a tag that is no class: below `UNSEEN`, with its position and type."""
        position, name = split_tag(tag) or (SINGLE, tag)
        types = self._parts[2]
        hashed = text_number(name, size=_TYPE_BYTES)
        return UNSEEN - 1 - (position + _POSITION_CODES * types.get(name, len(types) + hashed))

    def unseen(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the rows by tags that are not among the classes."""
        known, counts = frozenset(self.classes), Counter[str]()
        for tags in _tag_lists(columns[0], missing=self.missing, first_row=1):
            counts.update({*(tags or ())} - known)
        return counts

    def class_notes(self, labels: Array) -> list[Finding]:
        """Say which tags keep the others from being counted as entities, and which are written in several ways."""
        counts = count_classes(_flat_ids(labels), self.classes)
        found = odd_classes(counts)
        others = [tag for tag in self.classes if split_tag(tag) is None]
        if self.scheme == "none" and others and any(map(_marks_an_entity, self.classes)):
            examples = {tag: counts[tag] for tag in others[:_EXAMPLES]}
            found.append(Finding.of("tags-without-form", tags=len(others), examples=examples))
        return found

    def flat(self, logits: Array) -> tuple[Array, Array]:
        """Return the logits (N, C) of the words of all rows, and where each row ends but the last."""
        flat = checked_logits(np.concatenate([np.zeros((0, len(self.classes))), *logits]), len(self.classes))
        return flat, np.cumsum([len(row) for row in logits])[:-1]

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the log loss of a tag."""
        sizes = [len(label) for label in labels]
        nats = log_losses(-log_softmax(self.flat(logits)[0], axis=1), _flat_ids(labels))
        of_rows = np.bincount(np.repeat(np.arange(len(sizes)), sizes), weights=nats, minlength=len(sizes))
        return metric.ratio("log_loss", of_rows, sizes)

    def parts_of(self, ids: Array) -> tuple[Array, Array]:
        """Return positions and types (N,) of tags by id."""
        positions, types, _ = self._parts
        known, code = np.maximum(ids, 0), UNSEEN - 1 - ids
        is_known = ids >= 0
        return (
            np.where(is_known, positions[known], code % _POSITION_CODES),
            np.where(is_known, types[known], code // _POSITION_CODES),
        )

    def packed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Store the words of all rows one after the other, with the number of words of each row."""
        words = np.array([len(label) for label in arrays["labels"]], dtype=np.int64)
        logits = np.concatenate([np.zeros((0, len(self.classes)), dtype=np.float32), *arrays["logits"]])
        return {**arrays, "labels": _flat_ids(arrays["labels"]), "logits": logits, "words": words}

    def unpacked(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Undo `packed`."""
        rest = {name: array for name, array in arrays.items() if name != "words"}
        ends = np.cumsum(arrays["words"])[:-1]
        count = len(arrays["words"])
        labels = [tuple(part.tolist()) for part in np.split(arrays["labels"], ends)] if count else []
        logits = np.split(arrays["logits"], ends) if count else []
        return {**rest, "labels": object_array(labels), "logits": object_array(logits)}


@checked_dataclass(kw_only=True)
class Tags(TokenTask):
    """Predict one of C tags per word, at the first token of the word.

    A text is a list of words and a label a list of as many tags; either may be text with white space between. The
    label of a row is a tuple of ids, one per word; a tag that no training row has is below `UNSEEN`, and keeps its
    position and type, so that entities are counted as if it were known. The scores of a row are logits (words, C).

    Args:
        classes: the tags in the order of ids.
        scheme: ``conll``: tags such as O, B-PER and I-PER mark entities, which are counted as conlleval does, in IOB1,
            IOB2 and IOBES alike; ``none``: tags are independent. `fit` finds which it is.
        missing: texts that mean a missing label.
    """

    kind: ClassVar[str] = "tags"
    pipeline: ClassVar[str] = "token-classification"
    input: ClassVar[TaskInput] = WordList()
    classes: Names
    scheme: Scheme = "none"
    missing: MissingTexts = MISSING

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        classes: Sequence[str] | None = None,
        scheme: Scheme | None = None,
        missing: Sequence[str] = MISSING,
    ) -> Self:
        """Fit the tags, unless given, on training rows; the scheme is ``conll`` if all tags have its form."""
        if classes is None:
            TagLists().check(label_columns, task=cls.kind)
            lists = _tag_lists(label_columns[0], missing=missing, first_row=1)
            classes = sorted_classes((tag for tags in lists for tag in tags or ()), of="the label column")
        if scheme is None:
            is_conll = all(map(split_tag, classes)) and any(map(_marks_an_entity, classes))
            scheme = "conll" if is_conll else "none"
        return cls(classes=tuple(classes), scheme=scheme, missing=missing)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The tags in the order of ids."""
        return self.classes

    @property
    def output_names(self) -> list[str]:
        """The tags."""
        return list(self.classes)

    @property
    def outputs(self) -> int:
        """Number of tags."""
        return len(self.classes)

    @property
    def main_metric(self) -> str:
        """``f1`` of entities, or ``accuracy`` without a scheme."""
        return "f1" if self.scheme == "conll" else "accuracy"

    @property
    def codec(self) -> TagLists:
        """What the labels of a row are."""
        return TagLists(classes=self.classes, missing=self.missing, scheme=self.scheme)

    def window_labels(self, window: TokenWindow, label: Sequence[int]) -> Array:
        """Return the id of the tag at the first token of each word that is scored here, elsewhere `UNSEEN`."""
        labels = np.full(len(window.marks), UNSEEN, dtype=np.int64)
        first = window.marks >= 0
        labels[first] = np.maximum(np.array(label, dtype=np.int64), UNSEEN)[window.marks[first]]
        return labels

    def window_scores(self, logits: Array, window: TokenWindow) -> tuple[Array, Array]:
        """Return the words that are scored in a window, and their logits."""
        first = window.marks >= 0
        return window.marks[first], logits[first]

    def row_scores(self, windows: Sequence[tuple[Array, Array]], row: TokenRow) -> Array:
        """Return the logits (words, C)."""
        scores = np.zeros((row.words, self.outputs), dtype=np.float32)
        for words, logits in windows:
            scores[words] = logits
        return scores

    def decode(self, logits: Array) -> Decoded:
        """Return the most probable tag of each word, and its probability."""
        flat, ends = self.codec.flat(logits)
        predicted = np.array(self.classes, dtype=object)[flat.argmax(axis=1)]
        highest = softmax(flat, axis=1).max(axis=1, initial=0)
        tags, shares = (np.split(values, ends) if len(logits) else [] for values in (predicted, highest))
        predictions: dict[str, Any] = {"prediction": [part.tolist() for part in tags], "probability": shares}
        spaced = tuple(predictions)
        return Decoded(predictions=predictions, probabilities=None, probability_columns=(), spaced=spaced)

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return F1, precision and recall of entities, where tags mark any, and the accuracy per word."""
        flat, _ = self.codec.flat(logits)
        sizes = np.array([len(label) for label in labels], dtype=np.int64)
        if len(logits) != len(labels) or any(len(row) != size for row, size in zip(logits, sizes, strict=True)):
            raise DataError("the rows have other numbers of words than of tags: give the labels of the same rows")
        rows = np.repeat(np.arange(len(sizes)), sizes)
        true, predicted = _flat_ids(labels), flat.argmax(axis=1)
        hits = np.bincount(rows[true == predicted], minlength=len(sizes))
        result = [metric.ratio("accuracy", hits, sizes)]
        if self.scheme == "conll":
            both, found, wanted = count_entities(
                self.codec.parts_of(true), self.codec.parts_of(predicted), rows, count=len(sizes)
            )
            precision, recall = metric.ratio("precision", both, found), metric.ratio("recall", both, wanted)
            result = [metric.f1_of_counts("f1", both, found, wanted), precision, recall, *result]
        return {one.name: one for one in result}

    def majority(self, train_labels: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of the most frequent tag of the training rows for every word."""
        prior = log_frequencies(_flat_ids(train_labels), self.outputs)
        return self.metrics(object_array([np.tile(prior, (len(label), 1)) for label in labels]), labels)


def _flat_ids(labels: Array) -> Array:
    """Return the ids (N,) of the tags of all rows, one after the other."""
    return np.array([tag for label in labels for tag in label], dtype=np.int64)


def _marks_an_entity(tag: str) -> bool:
    """Whether a tag is ``B``, or has a position and a type, such as ``B-PER``."""
    return split_tag(tag) is not None and (tag[1:2] == "-" or tag == "B")


def _tag_lists(column: Column, *, missing: Sequence[str], first_row: int) -> list[list[str] | None]:
    """Return the tags of each cell, None for a missing one; RowError for a word without a tag."""
    lists = []
    for row, cell in enumerate(column, start=first_row):
        try:
            tags = None if isinstance(cell, str) and (canonical(cell) or "") in missing else word_list(cell)
        except DataError as error:
            raise RowError("the label of ", row, f": {error}") from error
        stripped = None if tags is None else [tag.strip() for tag in tags]
        if stripped and not all(stripped):
            word = stripped.index("") + 1
            raise RowError("the label of ", row, f" has no tag for word {word}: give each word one tag")
        lists.append(stripped)
    return lists
