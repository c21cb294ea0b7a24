"""The cheap baselines: logistic or ridge regression on words and one-hot attributes.

`linear` reads TF-IDF of the text and the attributes, `attributes-only` the attributes alone. Both give logits of the
same shape as a neural model, so that the task decodes and measures them alike.

Shapes: n rows, F features, O outputs of the task.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors import numpy as safetensors
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from attribune.errors import AttribuneWarning, ConfigError, DataError, ModelFolderError
from attribune.json_file import read_json, replace_file, write_json
from attribune.schema import Schema
from attribune.schema.revision import Revision
from attribune.tasks import Aspects, Classification, Rating, Regression, Task, task_from_dict

__all__ = ["LinearModel", "choose_c"]

Array = npt.NDArray[Any]

_FORMAT, _VERSION = "attribune-linear", 1
_SETTINGS, _TENSORS, _SCHEMA = "linear.json", "linear.safetensors", "schema.json"
_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
_FEW_ROWS = 1_000
_ITERATIONS = 1_000
# Logit of a class that no training row has: its probability is 0, and the logit stays finite.
_ABSENT = -1e4


@dataclass(frozen=True, kw_only=True)
class _Features:
    """What turns rows into a sparse matrix (n, F): TF-IDF of the words, then one column per (attribute, id above 0).

    `words` is None for a model without text; `idf` (len(words),) are the inverse document frequencies.
    """

    words: tuple[str, ...] | None
    idf: Array
    schema: Schema

    @classmethod
    def fit(cls, texts: Sequence[str] | None, schema: Schema, *, max_features: int) -> Self:
        """Take words and frequencies from training texts: words in at least 2 texts, or all where rows are few."""
        if texts is None:
            if sum(attribute.size - 1 for attribute in schema.attributes) == 0:
                raise ConfigError("without text and without attribute values nothing can be learned: name an attribute")
            return cls(words=None, idf=np.zeros(0), schema=schema)
        vectorizer = _vectorizer(max_features=max_features, min_df=1 if len(texts) < _FEW_ROWS else 2)
        try:
            vectorizer.fit(texts)
        except ValueError as error:
            raise DataError(
                f"the {len(texts)} training texts give no words ({error}):"
                " check the text column, or use attributes-only"
            ) from error
        return cls(words=tuple(vectorizer.get_feature_names_out().tolist()), idf=vectorizer.idf_, schema=schema)

    @property
    def width(self) -> int:
        """Number of features F."""
        return len(self.words or ()) + sum(attribute.size - 1 for attribute in self.schema.attributes)

    @cached_property
    def _fitted(self) -> TfidfVectorizer:
        vectorizer = _vectorizer(vocabulary={word: i for i, word in enumerate(self.words or ())})
        vectorizer.idf_ = self.idf
        return vectorizer

    def transform(self, texts: Sequence[str] | None, attribute_ids: Array) -> Any:
        """Return the matrix (n, F) in CSR form."""
        if (texts is None) != (self.words is None):
            have, cure = ("without", "texts=None") if self.words is None else ("with", "the texts")
            raise ConfigError(f"this linear model was trained {have} text: pass {cure}")
        parts = [_one_hot(np.asarray(attribute_ids), self.schema)]
        if texts is not None:
            if len(texts) != parts[0].shape[0]:
                raise DataError(f"{len(texts)} texts for {parts[0].shape[0]} rows of attribute_ids: give the same rows")
            if self.words:
                parts.insert(0, self._fitted.transform(texts))
        return sparse.hstack(parts, format="csr")


def _vectorizer(**options: Any) -> TfidfVectorizer:
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **options)


def _one_hot(ids: Array, schema: Schema) -> Any:
    """Return (n, sum of sizes without id 0); several slots of one attribute add up."""
    if ids.ndim != 2 or ids.shape[1] != schema.slots:
        raise DataError(f"attribute_ids have shape {ids.shape}: the schema of this model needs (rows, {schema.slots})")
    rows, columns, offset = [], [], 0
    for attribute in schema.attributes:
        name, size = attribute.name, attribute.size
        part = ids[:, attribute.start : attribute.start + attribute.slots]
        if part.size and (part.min() < 0 or part.max() >= size):
            raise DataError(
                f"attribute {name!r} has the id {part.max() if part.max() >= size else part.min()}, but ids"
                f" from 0 to {size - 1}: encode the rows with the schema of this model"
            )
        row, slot = np.nonzero(part)
        rows.append(row)
        columns.append(offset + part[row, slot] - 1)
        offset += size - 1
    if not rows:
        return sparse.csr_array((len(ids), 0))
    index = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array((np.ones(len(index[0])), index), shape=(len(ids), offset))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearModel:
    """A fitted baseline.

    Args:
        task: what is predicted.
        features: how rows become features.
        weight: (F, O) float32.
        bias: (O,) float32.
        C: inverse strength of the L2 penalty.
    """

    task: Task
    features: _Features
    weight: Array
    bias: Array
    C: float
    text_input: ClassVar[None] = None

    @classmethod
    def fit(
        cls,
        texts: Sequence[str] | None,
        attribute_ids: Array,
        *,
        schema: Schema,
        labels: Array,
        task: Task,
        C: float = 1.0,
        max_features: int = 100_000,
    ) -> Self:
        """Fit on training rows.

        Logistic regression for classes (multinomial; one per class for several labels per row; one per aspect), with
        the class weights of the task; ridge regression for numbers.

        Args:
            texts: n texts, or None for the attributes alone.
            attribute_ids: (n, slots) as the schema encodes them; id 0 gives nothing.
            schema: the fitted schema.
            labels: as the task encodes them; rows whose label is unseen are left out.
            task: the fitted task.
            C: inverse strength of the L2 penalty.
            max_features: the most frequent words and word pairs that are kept.

        Raises:
            ConfigError: without text and attributes, or for a C that is not above 0.
            DataError: for texts without words, or no row with a known label.
        """
        features = _Features.fit(texts, schema, max_features=max_features)
        matrix = features.transform(texts, attribute_ids)
        return cls._from_matrix(features, matrix, labels=np.asarray(labels), task=task, C=C)

    @classmethod
    def _from_matrix(cls, features: _Features, matrix: Any, *, labels: Array, task: Task, C: float) -> Self:
        if not C > 0:
            raise ConfigError(f"C is {C}: give a number above 0, such as 1.0")
        if matrix.shape[0] != len(labels):
            raise DataError(f"{len(labels)} labels for {matrix.shape[0]} rows: give one label per row")
        weight, bias = _fit_task(matrix, labels, task, C)
        return cls(task=task, features=features, weight=weight.astype("f4"), bias=bias.astype("f4"), C=float(C))

    @property
    def schema(self) -> Schema:
        """The attributes."""
        return self.features.schema

    @property
    def uses_text(self) -> bool:
        """Whether the model reads texts."""
        return self.features.words is not None

    def logits(self, texts: Sequence[str] | None, attribute_ids: Array) -> Array:
        """Return logits (n, O) float64.

        Classes: log-probabilities up to a constant per row; several labels: log-odds; numbers: the standardised value.
        """
        return np.asarray(self.features.transform(texts, attribute_ids) @ self.weight.astype("f8") + self.bias)

    def revised(self, revision: Revision) -> Self:
        """The same with values added to the schema, without weights, or taken away with theirs."""
        rows, start = [np.arange(len(self.features.words or ()))], len(self.features.words or ())
        weight = np.vstack([self.weight, np.zeros_like(self.weight[:1])])  # the last row is that of new values
        for attribute in self.schema:
            ids = revision.ids.get(attribute.name, np.arange(attribute.size))[1:]
            rows.append(np.where(ids > 0, start + ids - 1, len(self.weight)))
            start += attribute.size - 1
        features = replace(self.features, schema=revision.schema)
        return replace(self, features=features, weight=weight[np.concatenate(rows)])

    def save(self, folder: str | Path) -> None:
        """Write `linear.json`, `linear.safetensors` and `schema.json`.

        Raises:
            ModelFolderError: when the folder cannot be written.
        """
        tensors = {"weight": self.weight, "bias": self.bias, "idf": self.features.idf}
        data = safetensors.save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
        path = Path(folder) / _TENSORS
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data)
        except OSError as error:
            raise ModelFolderError(
                f"{path}: cannot be written ({error.strerror or error}): make room, or choose another folder"
            ) from error
        self.schema.save(path.with_name(_SCHEMA))
        words = self.features.words
        settings = {
            "format": _FORMAT,
            "version": _VERSION,
            "C": self.C,
            "task": self.task.to_dict(),
            "words": None if words is None else list(words),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        write_json(path.with_name(_SETTINGS), settings, what="linear model")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote; ModelFolderError for a file that is missing, truncated or of another model."""
        path = Path(folder) / _SETTINGS
        settings = read_json(path, what="linear model")
        if not isinstance(settings, Mapping) or settings.get("format") != _FORMAT:
            raise ModelFolderError(f"{path}: is not a linear model of this library: give the folder of a saved one")
        if settings.get("version") != _VERSION:
            raise ModelFolderError(
                f"{path}: has version {settings.get('version')!r}, this release reads {_VERSION}: save the model again"
            )
        tensors = _read_tensors(path.with_name(_TENSORS), settings.get("sha256"))
        schema = Schema.load(path.with_name(_SCHEMA))
        try:
            words = settings["words"]
            features = _Features(
                words=None if words is None else tuple(words),
                idf=tensors["idf"],
                schema=schema,
            )
            task = task_from_dict(settings["task"])
            model = cls(
                task=task, features=features, weight=tensors["weight"], bias=tensors["bias"], C=float(settings["C"])
            )
            shapes = (model.weight.shape, model.bias.shape, features.idf.shape)
            expected = ((features.width, task.outputs), (task.outputs,), (len(words or ()),))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFolderError(f"{path}: has entries that do not fit ({error}): save the model again") from error
        if shapes != expected:
            raise ModelFolderError(
                f"{path}: describes arrays of shapes {expected}, found {shapes}: save the model again"
            )
        return model


def _read_tensors(path: Path, digest: Any) -> dict[str, Array]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelFolderError(
            f"{path}: cannot be read ({error.strerror or error}): restore the file, or train the baseline again"
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise ModelFolderError(
            f"{path}: is truncated, changed or of another model (its checksum is not the one in {_SETTINGS}):"
            " restore the folder, or train the baseline again"
        )
    try:
        tensors: dict[str, Array] = safetensors.load(data)
    except SafetensorError as error:
        raise ModelFolderError(f"{path}: is not a safetensors file ({error}): train the baseline again") from error
    return tensors


def choose_c(
    texts: Sequence[str] | None,
    attribute_ids: Array,
    *,
    schema: Schema,
    labels: Array,
    task: Task,
    validation_texts: Sequence[str] | None,
    validation_ids: Array,
    validation_labels: Array,
    grid: Sequence[float] = _GRID,
    max_features: int = 100_000,
) -> tuple[LinearModel, dict[float, float]]:
    """Fit one model per C and keep the best one on validation rows by the task's main metric; ties take the smaller C.

    Returns:
        The best model, and the main metric by C.
    """
    if not grid:
        raise ConfigError("the grid of C is empty: give at least one number above 0")
    features = _Features.fit(texts, schema, max_features=max_features)
    matrix = features.transform(texts, attribute_ids)
    sign = 1 if task.higher_is_better else -1
    best: LinearModel | None = None
    scores: dict[float, float] = {}
    for C in sorted(set(grid)):
        model = LinearModel._from_matrix(features, matrix, labels=np.asarray(labels), task=task, C=C)
        logits = model.logits(validation_texts, validation_ids)
        scores[C] = task.metrics(logits, validation_labels)[task.main_metric].value()
        if best is None or sign * scores[C] > sign * scores[best.C]:
            best = model
    assert best is not None
    return best, scores


def _fit_task(matrix: Any, labels: Array, task: Task, C: float) -> tuple[Array, Array]:
    """Return weight (F, O) and bias (O,) for the labels of a task."""
    if isinstance(task, Regression):
        return _fit_number(matrix, labels, C)
    if isinstance(task, Aspects):
        sizes = [len(classes) for classes in task.class_lists]
        heads = [_fit_classes(matrix, labels[:, i], size, C) for i, size in enumerate(sizes)]
    elif isinstance(task, Classification) and task.multi_label:
        positive = task.class_weights or (1.0,) * task.outputs
        heads = [_fit_label(matrix, labels[:, i] > 0, positive[i], C) for i in range(task.outputs)]
    elif isinstance(task, Classification | Rating):
        weights = task.class_weights if isinstance(task, Classification) else None
        return _fit_classes(matrix, labels, task.outputs, C, weights)
    else:
        raise ConfigError(f"the linear baseline cannot learn the task {task.kind!r}: leave it out of the comparison")
    return np.hstack([weight for weight, _ in heads]), np.concatenate([bias for _, bias in heads])


def _fit_number(matrix: Any, labels: Array, C: float) -> tuple[Array, Array]:
    known = np.isfinite(labels)
    # C scales the squared error / 2 against the penalty / 2, as in logistic regression.
    model = Ridge(alpha=1 / C, solver="sparse_cg", tol=1e-6).fit(matrix[known], labels[known].astype(np.float64))
    return model.coef_.reshape(-1, 1), np.array([model.intercept_])


def _fit_label(matrix: Any, positive: Array, weight: float, C: float) -> tuple[Array, Array]:
    """Return the log-odds of one label: the difference of the two logits of a two-class problem."""
    weights, bias = _fit_classes(matrix, positive.astype(np.int64), 2, C, (1.0, weight))
    return weights[:, 1:] - weights[:, :1], bias[1:] - bias[:1]


def _fit_classes(
    matrix: Any, ids: Array, classes: int, C: float, class_weights: Sequence[float] | None = None
) -> tuple[Array, Array]:
    """Return weight (F, classes) and bias (classes,), also for classes without a row."""
    known = ids >= 0
    present, targets = np.unique(ids[known], return_inverse=True)
    if len(present) == 0:
        raise DataError("none of the training labels is known: fit the task on the labels of these training rows")
    weight, bias = np.zeros((matrix.shape[1], classes)), np.full(classes, _ABSENT)
    bias[present] = 0
    if len(present) > 1:
        row_weights = None if class_weights is None else np.asarray(class_weights)[ids[known]]
        model = _logistic(matrix[known], targets, C, row_weights)
        # With two classes there is one vector, the logit of the second against the first.
        learned = present if len(present) > 2 else present[1:]
        weight[:, learned], bias[learned] = model.coef_.T, model.intercept_
    return weight, bias


def _logistic(matrix: Any, targets: Array, C: float, row_weights: Array | None) -> LogisticRegression:
    # Newton steps reach the one optimum of this convex problem several times faster than lbfgs on sparse words.
    model = LogisticRegression(C=C, max_iter=_ITERATIONS, solver="newton-cg")
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        model.fit(matrix, targets, sample_weight=row_weights)
    if complaints:
        warnings.warn(
            f"the logistic regression did not settle at C = {C} ({complaints[0].message}): lower C",
            AttribuneWarning,
            stacklevel=2,
        )
    return model
