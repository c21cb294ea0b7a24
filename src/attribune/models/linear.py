"""The cheap baselines: logistic or ridge regression on words and one-hot attributes.

`linear` reads TF-IDF of the text and the attributes, `attributes-only` the attributes alone. Both give logits of the
same shape as a neural model, so that the task decodes and measures them alike.

Shapes: n rows, F features, O outputs of the task.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from attribune.core.arrays import Array
from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.texts import TextInput
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.models.baseline_model import Baseline, StoredBaseline
from attribune.models.class_problems import ClassProblem, class_problems
from attribune.models.features import VectorFeatures
from attribune.models.sizes import Sizes
from attribune.models.word_features import LinearFeatures
from attribune.schema import Schema
from attribune.schema.schema import Revision
from attribune.tasks import Task
from attribune.tasks.base import LOSS, validation_score
from attribune.tasks.capabilities import LINEAR, require

_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
_ITERATIONS = 1_000


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearModel(Baseline):
    """A fitted baseline.

    Args:
        weight: (F, O) float32.
        bias: (O,) float32.
    """

    kind: ClassVar[str] = "linear"
    features: LinearFeatures | VectorFeatures
    weight: Array
    bias: Array
    C: float

    @classmethod
    def from_matrix(
        cls,
        features: LinearFeatures | VectorFeatures,
        matrix: Any,
        *,
        labels: Array,
        task: Task,
        C: float,
        weights: Array | None = None,
    ) -> Self:
        """Fit on the features (n, F) of training rows.

        Logistic regression for classes (multinomial; one per class for several labels per row; one per aspect), with
        the class weights of the task; ridge regression for numbers.

        Args:
            labels: as the task encodes them; rows whose label is unseen are left out.
            weights: (n,) of the rows, as the `sample_weight` of scikit-learn; all 1 by default.

        Raises:
            ConfigError: for a C that is not above 0.
            DataError: for no row with a known label.
        """
        if not C > 0:
            raise ConfigError(f"C is {C}: give a number above 0, such as 1.0")
        if matrix.shape[0] != len(labels):
            raise DataError(f"{len(labels)} labels for {matrix.shape[0]} rows: give one label per row")
        weight, bias = _fit_task(matrix, labels, task, C, weights)
        return cls(task=task, features=features, weight=weight.astype("f4"), bias=bias.astype("f4"), C=float(C))

    @property
    def uses_text(self) -> bool:
        """Whether the model reads texts."""
        return self.features.uses_text

    @property
    def reads_surface(self) -> bool:
        """Whether the model also reads how texts look."""
        return isinstance(self.features, LinearFeatures) and self.features.surface is not None

    def sizes(self) -> Sizes:
        """Count the parameters, all of which are trained and stored."""
        total = int(self.weight.size + self.bias.size)
        return Sizes(total=total, trained=total, stored=total, stored_bytes=4 * total, outputs=self.task.outputs)

    def logits(self, texts: Sequence[str] | None, attribute_ids: Array) -> Array:
        """Return logits (n, O) float64.

        Classes: log-probabilities up to a constant per row; several labels: log-odds; numbers: the standardised value.
        """
        return np.asarray(self.features.transform(texts, attribute_ids) @ self.weight.astype("f8") + self.bias)

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return what reads the texts of rows."""
        return self.features.row_encoder(text_input)

    def prepare(self, device: Any) -> None:
        """Compute vectors of texts, if any, on a device; the linear model itself computes on the CPU."""
        self.features.prepare(device)

    def score(self, batch: EncodedRows) -> npt.NDArray[np.float32]:
        """Return the logits of rows, (n, O)."""
        return self.logits(batch.inputs if self.uses_text else None, batch.attribute_ids).astype(np.float32)

    def describe(self, *, precision: str) -> dict[str, Any]:
        """Return method, backbone, number of parameters and precision; the precision asked for makes no difference."""
        names = {"method": self.features.method, "backbone": self.features.backbone}
        return {**names, "parameters": self.weight.size, "precision": "float32"}

    def revised(self, revision: Revision) -> Self:
        """Return the model with values added to the schema, without weights, or taken away with theirs."""
        features, rows = self.features.revised(revision)
        weight = np.vstack([self.weight, np.zeros_like(self.weight[:1])])  # the last row is that of new values
        return replace(self, features=features, weight=weight[rows])

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what is stored; see `Baseline.stored`."""
        tensors = {"weight": self.weight, "bias": self.bias, **self.features.tensors()}
        return {"C": self.C, **self.features.settings()}, tensors

    @classmethod
    def from_stored(cls, stored: StoredBaseline, *, backbone: str | Path | None) -> Self:
        """Return the model of what `stored` returned; see `Baseline.from_stored`."""
        C, task = float(stored.settings["C"]), stored.task
        features: LinearFeatures | VectorFeatures
        if "words" in stored.settings:
            words = None if stored.settings["words"] is None else stored.texts("words")
            features = LinearFeatures.from_stored(words, stored.tensors, stored.schema)
            own = features.shapes
        else:
            features = VectorFeatures.from_stored(stored.settings, stored.tensors, stored.schema, backbone=backbone)
            own = {"mean": features.mean.shape, "scale": features.mean.shape}
        stored.check_shapes({"weight": (features.width, task.outputs), "bias": (task.outputs,), **own})
        return cls(
            task=task,
            features=features,
            weight=stored.tensors["weight"],
            bias=stored.tensors["bias"],
            C=C,
            text_input=stored.text_input,
        )


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
    weights: Array | None = None,
    grid: Sequence[float] = _GRID,
    max_features: int = 100_000,
    by: str = LOSS,
    surface: bool = False,
) -> tuple[LinearModel, dict[float, float]]:
    """Fit one model per C and return the best one by its `validation_score`, and that score by C.

    Of equally good models the one with the smallest C is returned.

    Args:
        by: as `selection_score` takes it.
        surface: whether models with the best C and its neighbours that read how texts look, too, are fitted as well;
            the scores are those of the kind that is returned.
    """
    if not grid:
        raise ConfigError("the grid of C is empty: give at least one number above 0")
    features, grid = LinearFeatures.fit(texts, schema, max_features=max_features), sorted(set(grid))

    def best_of(features: LinearFeatures, grid: Sequence[float]) -> tuple[LinearModel, dict[float, float]]:
        matrix, models, scores = features.transform(texts, attribute_ids), {}, {}
        for C in grid:
            models[C] = LinearModel.from_matrix(
                features, matrix, labels=np.asarray(labels), task=task, C=C, weights=weights
            )
            logits = models[C].logits(validation_texts, validation_ids)
            scores[C] = validation_score(task, logits, validation_labels, by=by)
        return models[min(scores, key=scores.__getitem__)], scores

    plain, scores = best_of(features, grid)
    if not surface or texts is None:
        return plain, scores
    place = grid.index(plain.C)
    looking, seen = best_of(features.with_surface(texts), grid[max(0, place - 1) : place + 2])
    return (looking, seen) if seen[looking.C] < scores[plain.C] else (plain, scores)


def _fit_task(matrix: Any, labels: Array, task: Task, C: float, weights: Array | None) -> tuple[Array, Array]:
    """Return weight (F, O) and bias (O,) for the labels of a task, of rows with weights (n,)."""
    require(task, LINEAR)
    row_weights = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not task.codec.choices:
        from sklearn.linear_model import Ridge

        known = np.isfinite(labels)
        # C scales the squared error / 2 against the penalty / 2, as in logistic regression.
        model = Ridge(alpha=1 / C, solver="sparse_cg", tol=1e-6)
        of_known = None if weights is None else row_weights[known]
        model.fit(matrix[known], labels[known].astype(np.float64), sample_weight=of_known)
        return model.coef_.reshape(-1, 1), np.array([model.intercept_])
    heads = [_fit_classes(matrix, problem, C) for problem in class_problems(task, labels, row_weights)]
    return np.hstack([weight for weight, _ in heads]), np.concatenate([bias for _, bias in heads])


def _fit_classes(matrix: Any, problem: ClassProblem, C: float) -> tuple[Array, Array]:
    """Return weight (F, K) and bias (K,) of the logits of a problem, also for classes without a row."""
    weight, learned = np.zeros((matrix.shape[1], problem.classes)), problem.learned
    bias = np.zeros(len(learned))
    if len(learned):
        targets = np.searchsorted(problem.present, problem.ids)
        model = _logistic(matrix[problem.rows], targets, C, problem.weights)
        weight[:, learned], bias = model.coef_.T, model.intercept_
    return problem.of_task(weight), problem.logits(bias)


def _logistic(matrix: Any, targets: Array, C: float, row_weights: Array) -> Any:
    from sklearn.linear_model import LogisticRegression

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
