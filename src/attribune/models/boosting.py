"""The baseline `boosting`: gradient-boosted trees on words, on the look of texts, and on what rows of a value have.

The trees are those of scikit-learn, and are read without it. They give logits of the same shape as a neural model, so
that the task decodes and measures them alike.

Shapes: n rows, F features, O outputs of the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from attribune.core.arrays import Array, DoubleArray
from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.models.baseline_model import Baseline, StoredBaseline
from attribune.models.class_problems import ClassProblem, class_problems
from attribune.models.sizes import Sizes
from attribune.models.surface import SURFACE, surface
from attribune.models.trees import Forest
from attribune.models.word_features import LinearFeatures, check_ids, described, described_width
from attribune.schema import FittedAttribute, Schema
from attribune.schema.attributes import counts_of_rows
from attribune.schema.schema import Revision
from attribune.tasks import Task
from attribune.tasks.base import LOSS, validation_score
from attribune.tasks.capabilities import LINEAR, require

_COMPONENTS = 64  # to which the words are reduced
_FOLDS = 5
_PRIOR_ROWS = 10.0  # rows with the mean of all that each value is taken to have as well

_RATES = (0.05, 0.15)
_LEAVES = (5, 20)  # rows that a leaf has at least
_STEP = 20  # iterations between two looks at the validation rows
_PATIENCE = 2  # looks without a better score
_ITERATIONS = 400
_DEPTH = 6
_VALUES = 255  # of a feature, between which trees look for thresholds
_PENALTY = 1.0  # of the squares of what leaves add

TextColumns = Sequence[tuple[str, ...]]
"""The texts of each row, one for each column."""


@dataclass(frozen=True, kw_only=True)
class _ColumnRows(EncodedRows):
    """Rows with the text of each column."""

    inputs: TextColumns

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of characters of each row, (rows,)."""
        return np.array([sum(map(len, texts)) for texts in self.inputs], dtype=np.int64)


class _ColumnReader(Reader):
    """Reads the text of each column as it is."""

    name: ClassVar[str] = "columns"

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedRows:
        """Read rows from columns given by name."""
        return _ColumnRows.without_attributes(text.read_rows(columns, first_row=first_row))


@dataclass(frozen=True, kw_only=True, eq=False)
class BoostingFeatures:
    """What turns rows into a matrix (n, F), NaN where something is missing.

    First the words, reduced to some components; then how the text of each column looks; then numbers, which trees
    read as the ids of their levels; then for each other attribute the mean targets of the training rows that have the
    row's values, and how many rows have its rarest value; at last what is known of the values, see `described`.

    Args:
        columns: number of text columns.
        words: of texts without attributes.
        components: (K, words) float16, which trees are grown on as well.
        encodings: for each attribute that is no number (size, O + 1) float32: the mean targets of each id, shrunk to
            those of all rows, and its number of rows. Id 0 has the means of all, and no rows.
    """

    schema: Schema
    columns: int
    words: LinearFeatures
    components: Array
    encodings: Mapping[str, Array]

    @classmethod
    def fit(
        cls,
        texts: TextColumns,
        attribute_ids: Array,
        *,
        schema: Schema,
        targets: DoubleArray,
        weights: Array,
        max_features: int,
        words: LinearFeatures | None = None,
    ) -> tuple[Self, DoubleArray]:
        """Return the features, and the matrix (n, F) of the training rows.

        In that matrix, the encodings of a row are those of the rows in the other of five parts: it would tell its own
        label otherwise.

        Args:
            targets: (n, O), NaN for an unseen label.
            weights: (n,) of the rows.
            words: of the texts, where they are counted already.

        Raises:
            DataError: for texts without words, or other ids than those of the schema.
        """
        check_ids(attribute_ids, schema)
        joined = _joined(texts)
        words = words or LinearFeatures.fit(joined, Schema([]), max_features=max_features)
        known = np.where(np.isfinite(targets), weights[:, None], 0.0)
        means = (known * np.nan_to_num(targets)).sum(axis=0) / np.maximum(known.sum(axis=0), np.finfo(float).tiny)
        folds = np.random.default_rng(0).permutation(len(texts)) % _FOLDS
        encodings, encoded = {}, []
        for attribute in _encoded_attributes(schema):
            ids = attribute_ids[:, attribute.columns]
            encodings[attribute.name] = _encoding(ids, attribute.size, targets, known, means)
            columns = np.empty((len(ids), len(means) + 1))
            for fold in range(_FOLDS):
                own, others = folds == fold, folds != fold
                table = _encoding(ids[others], attribute.size, targets[others], known[others], means)
                columns[own] = _encoded(table, ids[own])
            encoded.append(columns)
        matrix = words.of_words(joined)
        features = cls(
            schema=schema,
            columns=len(texts[0]),
            words=words,
            components=_components(matrix),
            encodings=encodings,
        )
        return features, np.hstack([features.of_texts(texts, matrix), features._of_values(attribute_ids, encoded)])

    @property
    def width(self) -> int:
        """Number of features F."""
        encoded = sum(int(table.shape[1]) for table in self.encodings.values())
        numbers = sum(attribute.spec.is_numeric for attribute in self.schema)
        known = described_width(_listed_attributes(self.schema))
        return len(self.components) + self.columns * SURFACE + numbers + encoded + known

    def transform(self, texts: TextColumns, attribute_ids: Array) -> DoubleArray:
        """Return the matrix (n, F) of new rows.

        Raises:
            DataError: for other ids than those of the schema, or another number of texts.
        """
        ids = np.asarray(attribute_ids)
        check_ids(ids, self.schema)
        if len(texts) != len(ids):
            raise DataError(f"{len(texts)} texts for {len(ids)} rows of attribute_ids: give the same rows")
        return np.hstack([self.of_texts(texts, self.words.of_words(_joined(texts))), self.of_values(ids)])

    def of_texts(self, texts: TextColumns, words: Any) -> DoubleArray:
        """Return the first columns of the matrix, given TF-IDF of the words (n, words)."""
        looks = [surface(column) for column in zip(*texts, strict=True)]
        return np.hstack([np.asarray(words @ self._of_words), *looks])

    @cached_property
    def _of_words(self) -> DoubleArray:
        """What a word has of each component, (words, K)."""
        return np.ascontiguousarray(self.components.T, dtype=np.float64)

    def of_values(self, ids: Array) -> DoubleArray:
        """Return the other columns of the matrix."""
        encoded = [_encoded(table, ids[:, self.schema[name].columns]) for name, table in self.encodings.items()]
        return self._of_values(ids, encoded)

    def _of_values(self, ids: Array, encoded: Sequence[Array]) -> DoubleArray:
        numbers = [
            np.where(ids[:, attribute.columns] > 0, ids[:, attribute.columns], np.nan)
            for attribute in self.schema
            if attribute.spec.is_numeric
        ]
        known = described(ids, _listed_attributes(self.schema)).toarray()
        return np.hstack([*numbers, *encoded, known])

    def revised(self, revision: Revision) -> Self:
        """Return the features with values added, which are unknown, or taken away with their encodings."""
        tables = dict(self.encodings)
        for name in tables.keys() & revision.ids.keys():
            tables[name] = tables[name][revision.ids[name]]
        return replace(self, schema=revision.schema, encodings=tables)

    def with_words(self, words: LinearFeatures, kept: Array) -> Self:
        """Return the features with fewer words, of those of which `kept` (words,) says so."""
        return replace(self, words=words, components=self.components[:, kept])

    def tensors(self) -> dict[str, Array]:
        """Return what is stored as arrays beside those of the words."""
        return {"components": self.components, **{_tensor_name(name): table for name, table in self.encodings.items()}}

    @classmethod
    def from_stored(cls, words: LinearFeatures, tensors: Mapping[str, Array], schema: Schema, *, columns: int) -> Self:
        """Return the features of what `tensors` returned."""
        encodings = {one.name: tensors[_tensor_name(one.name)] for one in _encoded_attributes(schema)}
        components = tensors["components"]
        return cls(schema=schema, columns=columns, words=words, components=components, encodings=encodings)

    def shapes(self, outputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of `tensors`, given the number of outputs of the task."""
        encodings = {_tensor_name(name): (self.schema[name].size, outputs + 1) for name in self.encodings}
        return {"components": (len(self.components), len(self.words.words or ())), **encodings}


def _tensor_name(attribute: str) -> str:
    return f"encodings.{attribute}"


def _listed_attributes(schema: Schema) -> list[FittedAttribute]:
    return [attribute for attribute in schema if not attribute.spec.is_numeric]


def _encoded_attributes(schema: Schema) -> list[FittedAttribute]:
    return [attribute for attribute in _listed_attributes(schema) if attribute.layout.has_own_vectors]


def _joined(texts: TextColumns) -> list[str]:
    return ["\n".join(filter(None, row)) for row in texts]


def _components(matrix: Any) -> Array:
    """Return the main components (K, words) of TF-IDF vectors (n, words)."""
    from sklearn.utils.extmath import randomized_svd

    _, _, components = randomized_svd(matrix, min(_COMPONENTS, *matrix.shape), random_state=0)
    return np.asarray(components, dtype=np.float16)


def _encoding(ids: Array, size: int, targets: Array, weights: Array, means: Array) -> Array:
    """Return the mean targets and the number of rows of each id, (size, O + 1).

    Args:
        ids: (n, slots).
        targets: (n, O).
        weights: (n, O), 0 where a target is not known.
        means: (O,) of all rows.
    """
    rows, slots = np.nonzero(ids)
    values = ids[rows, slots]
    table = np.empty((size, len(means) + 1), dtype=np.float32)
    for number, mean in enumerate(means):
        own = weights[rows, number]
        total = np.bincount(values, weights=own * np.nan_to_num(targets[rows, number]), minlength=size)
        table[:, number] = (total + _PRIOR_ROWS * mean) / (
            np.bincount(values, weights=own, minlength=size) + _PRIOR_ROWS
        )
    table[:, -1] = np.bincount(values, minlength=size)
    return table


def _encoded(table: Array, ids: Array) -> DoubleArray:
    """Return the mean of what the values (n, slots) of rows have, and the rows of the rarest: (n, O + 1)."""
    known = ids > 0
    counts = counts_of_rows(table[:, -1].astype(np.int64), ids)
    shares = known | ~known.any(axis=1, keepdims=True)  # id 0 where a row has no value
    means = (table[ids, :-1].astype(np.float64) * shares[..., None]).sum(axis=1) / shares.sum(axis=1, keepdims=True)
    return np.hstack([means, counts[:, None]])


@dataclass(frozen=True, kw_only=True, eq=False)
class BoostingModel(Baseline):
    """A fitted baseline.

    Args:
        learning_rate: by which the trees were shrunk.
        min_samples_leaf: rows that each leaf had at least.
        iterations: trees of each logit.
    """

    kind: ClassVar[str] = "boosting"
    features: BoostingFeatures
    forest: Forest
    learning_rate: float
    min_samples_leaf: int
    iterations: int

    @classmethod
    def fit(
        cls,
        texts: TextColumns,
        attribute_ids: Array,
        *,
        schema: Schema,
        labels: Array,
        task: Task,
        learning_rate: float = 0.1,
        min_samples_leaf: int = 20,
        iterations: int = 100,
        weights: Array | None = None,
        max_features: int = 100_000,
    ) -> Self:
        """Fit on training rows.

        Trees for the log-odds of classes (of one against all for several labels per row; of each aspect for itself),
        with the class weights of the task; trees for squared errors of numbers.

        Args:
            texts: n rows, each with the text of every column.
            attribute_ids: (n, slots) as the schema encodes them; id 0 is missing.
            labels: as the task encodes them; rows whose label is unseen are left out.
            weights: (n,) of the rows, as the `sample_weight` of scikit-learn; all 1 by default.
            max_features: limit of the vocabulary of words and word pairs, the most frequent first.

        Raises:
            ConfigError: for a task that cannot be learned.
            DataError: for texts without words, or no row with a known label.
        """
        rows = _TrainingRows.of(texts, attribute_ids, schema, labels, task, weights, max_features)
        growth = _Growth(rows, learning_rate, min_samples_leaf)
        growth.grow(iterations)
        return cls.of_growth(growth, iterations)

    @classmethod
    def of_growth(cls, growth: _Growth, iterations: int) -> Self:
        """Return the model with the trees of the first iterations."""
        return cls(
            task=growth.rows.task,
            features=growth.rows.features,
            forest=growth.forest(iterations),
            learning_rate=growth.learning_rate,
            min_samples_leaf=growth.min_samples_leaf,
            iterations=iterations,
        )

    def logits(self, texts: TextColumns, attribute_ids: Array) -> Array:
        """Return logits (n, O) float64.

        Classes: log-probabilities up to a constant per row; several labels: log-odds; numbers: the standardised value.
        """
        return self.forest.logits(self.features.transform(texts, attribute_ids))

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return what reads the texts of rows; ConfigError for another number of text columns than in training."""
        names = () if text_input is None else text_input.joined_names
        if names and len(names) != self.features.columns:
            raise ConfigError(
                f"text_input names {len(names)} columns ({', '.join(names)}), and the model was trained with "
                f"{self.features.columns}: name as many"
            )
        return _ColumnReader()

    def score(self, batch: EncodedRows) -> npt.NDArray[np.float32]:
        """Return the logits of rows, (n, O)."""
        return self.logits(batch.inputs, batch.attribute_ids).astype(np.float32)

    def sizes(self) -> Sizes:
        """Count the numbers: one for each node of a tree, the components of words, and the encodings of values."""
        features = [self.features.components, *self.features.encodings.values()]
        total = self.forest.value.size + self.forest.baseline.size + sum(array.size for array in features)
        stored = sum(array.nbytes for array in self.stored()[1].values())
        return Sizes(total=total, trained=total, stored=total, stored_bytes=stored, outputs=self.task.outputs)

    def revised(self, revision: Revision) -> Self:
        """Return the model with values added to the schema, which are unknown, or taken away with what it knew."""
        return replace(self, features=self.features.revised(revision))

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what is stored; see `Baseline.stored`."""
        words = self.features.words
        tensors = {"idf": words.idf, **self.features.tensors(), **self.forest.tensors()}
        return {**self.tree_settings, "columns": self.features.columns, "words": words.words}, tensors

    @classmethod
    def from_stored(cls, stored: StoredBaseline, *, backbone: str | Path | None) -> Self:
        """Return the model of what `stored` returned; see `Baseline.from_stored`."""
        saved, tensors, schema, task = stored.settings, stored.tensors, stored.schema, stored.task
        words = LinearFeatures(words=stored.texts("words"), idf=tensors["idf"], schema=Schema([]))
        features = BoostingFeatures.from_stored(words, tensors, schema, columns=int(saved["columns"]))
        trees = {name: array.shape for name, array in tensors.items() if name.startswith("trees.")}
        shapes = {**words.shapes, **features.shapes(task.outputs), **trees}
        stored.check_shapes({**shapes, "trees.baseline": (task.outputs,)})
        return replace(cls.of_features(features, saved, tensors, task=task), text_input=stored.text_input)

    @property
    def tree_settings(self) -> dict[str, Any]:
        """What is stored as JSON of the trees."""
        return {
            "learning_rate": self.learning_rate,
            "min_samples_leaf": self.min_samples_leaf,
            "iterations": self.iterations,
            "width": self.features.width,
        }

    @classmethod
    def of_features(
        cls, features: BoostingFeatures, settings: Mapping[str, Any], tensors: Mapping[str, Array], *, task: Task
    ) -> Self:
        """Return the model of the `tree_settings` and the arrays of a file; ValueError where they do not fit."""
        if settings["width"] != features.width:
            raise ValueError(f"trees of {settings['width']} features, and there are {features.width}")
        return cls(
            task=task,
            features=features,
            forest=Forest.from_tensors(tensors, width=features.width),
            learning_rate=float(settings["learning_rate"]),
            min_samples_leaf=int(settings["min_samples_leaf"]),
            iterations=int(settings["iterations"]),
        )


def choose_boosting(
    texts: TextColumns,
    attribute_ids: Array,
    *,
    schema: Schema,
    labels: Array,
    task: Task,
    validation_texts: TextColumns,
    validation_ids: Array,
    validation_labels: Array,
    weights: Array | None = None,
    max_features: int = 100_000,
    words: LinearFeatures | None = None,
    growths: Sequence[tuple[float, int]] = tuple(product(_RATES, _LEAVES)),
    by: str = LOSS,
) -> BoostingModel:
    """Fit with several learning rates and sizes of leaves, and return the best model by its `validation_score`.

    Trees are added until the score has not improved for some of them, and those after the best score are left out.

    Args:
        words: of the texts, where they are counted already.
        growths: learning rates, each with the rows that a leaf has at least.
        by: as `selection_score` takes it.
    """
    rows = _TrainingRows.of(texts, attribute_ids, schema, labels, task, weights, max_features, words)
    validation = rows.features.transform(validation_texts, validation_ids)
    best: tuple[float, _Growth, int] | None = None
    for learning_rate, min_samples_leaf in growths:
        growth = _Growth(rows, learning_rate, min_samples_leaf)
        own_best, since = np.inf, 0
        for iterations in range(_STEP, _ITERATIONS + 1, _STEP):
            growth.grow(iterations)
            score = validation_score(task, growth.logits(validation), validation_labels, by=by)
            own_best, since = (score, 0) if score < own_best else (own_best, since + 1)
            if best is None or score < best[0]:
                best = (score, growth, iterations)
            if since >= _PATIENCE:
                break
    assert best is not None
    return BoostingModel.of_growth(*best[1:])


@dataclass(frozen=True, kw_only=True)
class _Numbers:
    """Numbers that are learned of rows (m,), which give one logit; like a `ClassProblem`."""

    rows: Array
    ids: Array
    weights: Array
    outputs: ClassVar[Sequence[int]] = (0,)

    def logits(self, learned: Array) -> Array:
        """Return what is learned."""
        return learned


def _estimator(problem: ClassProblem | _Numbers, **options: Any) -> Any:
    """Return the model of scikit-learn that learns a problem; None where all rows have one class."""
    # A second to import, and needed to fit alone.
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if isinstance(problem, _Numbers):
        return HistGradientBoostingRegressor(**options)
    return HistGradientBoostingClassifier(**options) if len(problem.learned) else None


@dataclass(frozen=True, kw_only=True)
class _TrainingRows:
    """Training rows as features (n, F), each with few values, and what is learned of them."""

    task: Task
    features: BoostingFeatures
    matrix: DoubleArray
    problems: Sequence[ClassProblem | _Numbers]

    @classmethod
    def of(
        cls,
        texts: TextColumns,
        attribute_ids: Array,
        schema: Schema,
        labels: Array,
        task: Task,
        weights: Array | None,
        max_features: int,
        words: LinearFeatures | None = None,
    ) -> Self:
        """Make features of rows; arguments and errors are those of `BoostingModel.fit`."""
        require(task, LINEAR)
        labels, ids = np.asarray(labels), np.asarray(attribute_ids)
        if not len(texts) == len(labels) == len(ids):
            raise DataError(f"{len(labels)} labels and {len(ids)} attribute_ids for {len(texts)} texts: give as many")
        row_weights = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=np.float64)
        problems: list[ClassProblem | _Numbers] = [*class_problems(task, labels, row_weights)]
        if not task.codec.choices:
            rows = np.flatnonzero(np.isfinite(labels))
            if not len(rows):
                raise DataError("none of the training labels is known: give rows with numbers")
            problems = [_Numbers(rows=rows, ids=labels[rows].astype(np.float64), weights=row_weights[rows])]
        features, matrix = BoostingFeatures.fit(
            texts,
            ids,
            schema=schema,
            targets=_marks(task, labels),
            weights=row_weights,
            max_features=max_features,
            words=words,
        )
        return cls(task=task, features=features, matrix=_few_values(matrix), problems=problems)


def _few_values(matrix: DoubleArray) -> DoubleArray:
    """Return features of which none has more than 255 values: the nearest of as many quantiles.

    The estimators would find such bins themselves, again for each of their fits, and with weights a hundred times more
    slowly.
    """
    found = matrix.copy()
    for column in found.T:
        is_known = ~np.isnan(column)
        known = column[is_known]
        if len(np.unique(known)) > _VALUES:
            kept = np.unique(np.quantile(known, np.linspace(0, 1, _VALUES), method="nearest"))
            column[is_known] = kept[np.searchsorted((kept[1:] + kept[:-1]) / 2, known)]
    return found


def _marks(task: Task, labels: Array) -> DoubleArray:
    """Return what values are encoded by, (n, O): numbers, or how much of each class a label has; NaN if unseen."""
    if not task.codec.choices:
        return labels.astype(np.float64).reshape(-1, 1)
    parts = []
    for choice in task.codec.choices:
        own = choice.labels(labels)
        marks = choice.codec.marks(own).astype(np.float64)
        if own.ndim == 1:
            marks[own < 0] = np.nan
        parts.append(marks)
    return np.hstack(parts)


class _Growth:
    """Trees that are added with one learning rate and size of leaves."""

    def __init__(self, rows: _TrainingRows, learning_rate: float, min_samples_leaf: int) -> None:
        self.rows, self.learning_rate, self.min_samples_leaf = rows, learning_rate, min_samples_leaf
        options: dict[str, Any] = {
            "learning_rate": learning_rate,
            "min_samples_leaf": min_samples_leaf,
            "max_depth": _DEPTH,
            "l2_regularization": _PENALTY,
            "early_stopping": False,
            "warm_start": True,
            "random_state": 0,
        }
        self._estimators = [_estimator(problem, **options) for problem in rows.problems]

    def grow(self, iterations: int) -> None:
        """Add trees until each learned logit has as many."""
        for problem, estimator in zip(self.rows.problems, self._estimators, strict=True):
            if estimator is not None:
                estimator.set_params(max_iter=iterations)
                estimator.fit(self.rows.matrix[problem.rows], problem.ids, sample_weight=problem.weights)

    def logits(self, matrix: DoubleArray) -> Array:
        """Return the logits (n, O) of rows with features (n, F)."""
        parts = []
        for problem, estimator in zip(self.rows.problems, self._estimators, strict=True):
            learned = np.zeros((len(matrix), 0))
            if estimator is not None:
                raw = estimator.predict if isinstance(problem, _Numbers) else estimator.decision_function
                learned = raw(matrix).reshape(len(matrix), -1)
            parts.append(problem.logits(learned))
        return np.hstack(parts)

    def forest(self, iterations: int) -> Forest:
        """Return the trees of the first iterations."""
        baselines, trees = [], []
        for problem, estimator in zip(self.rows.problems, self._estimators, strict=True):
            if estimator is None:
                baselines.append(problem.logits(np.zeros(0)))
                continue
            baselines.append(problem.logits(estimator._baseline_prediction[0]))
            for predictors in estimator._predictors[:iterations]:
                trees += [(output, one.nodes) for output, one in zip(problem.outputs, predictors, strict=True)]
        return Forest.of_nodes(np.concatenate(baselines), trees)
