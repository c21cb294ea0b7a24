"""The playground without its page: predictions with and without attributes, two values, and what is known of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from attribune.analysis.explain.run import counterfactuals, rows_of
from attribune.core.arrays import Array
from attribune.core.wording import prediction_text
from attribune.data.file_options import FileOptions
from attribune.data.tables import TableFile
from attribune.errors import AttribuneError, ConfigError
from attribune.models.predictor import Predictor
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.schema import FittedAttribute, Schema
from attribune.schema.columns import cell_text
from attribune.schema.schema import assigned_ids, assignments_text
from attribune.tasks import Task
from attribune.tasks.capabilities import PLAYGROUND, require
from attribune.values.panel import Panel, check_panel

_MAX_MAPPED = 2_000  # the most frequent values
_MAX_EXAMPLES = 40
_MAX_TRAINING_ROWS = 200_000  # for the mean labels
_MAX_TEXT_LENGTH = 100_000  # characters
_MAX_MEMBERS = 500  # of a panel, some seconds on two cores


@dataclass(frozen=True, kw_only=True)
class ValueMap:
    """The vectors of an attribute's most frequent values, projected on their first two principal components.

    Args:
        positions: (n, 2).
        rows: (n,), training rows of each value.
        means: (n,) mean labels of the training rows of each value, NaN without such rows, by label.
        explained_variance_ratio: of the two components together.
    """

    values: list[str]
    positions: Array
    rows: Array
    means: dict[str, Array]
    explained_variance_ratio: float


@dataclass(frozen=True, kw_only=True)
class AttributeValues:
    """What is known of the values of a model's attributes.

    Args:
        training: the training rows with labels; None where they cannot be read.
    """

    predictor: Predictor
    training: LabelledRows | None

    def rows(self, attribute: str, value: str) -> int | None:
        """Return the number of training rows of a value; None for one that the model does not know."""
        fitted = self.predictor.schema[attribute]
        known = int(fitted.values.ids([value])[0])
        return int(fitted.counts[known]) if known else None

    def neighbours(self, attribute: str, value: str, *, limit: int = 5) -> list[tuple[str, float]]:
        """Find the values whose vectors are nearest by cosine similarity.

        Raises:
            ConfigError: for a value that has no vector.
        """
        fitted, vectors = self.predictor.schema[attribute], self._vectors(attribute)
        values = list(fitted.values[: len(vectors)])
        if value not in values:
            raise ConfigError(f"attribute {attribute!r} has no vector of {value!r} among its {len(values):,} first")
        normalized = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        cosines = normalized @ normalized[values.index(value)]
        order = [index for index in np.argsort(-cosines, kind="stable").tolist() if values[index] != value]
        return [(values[index], float(cosines[index])) for index in order[:limit]]

    def map(self, attribute: str) -> ValueMap | None:
        """Project the vectors of an attribute's values on two principal components.

        The vector of a value concatenates everything that the model stores of it. None for a model without vectors, or
        with fewer than three.
        """
        vectors, fitted = self._vectors(attribute), self.predictor.schema[attribute]
        if len(vectors) < 3 or not vectors.shape[1]:
            return None
        centred = vectors - vectors.mean(axis=0)
        _, singular_values, components = np.linalg.svd(centred, full_matrices=False)
        positions = centred @ components[:2].T
        positions = np.pad(positions, ((0, 0), (0, 2 - positions.shape[1])))
        variances = singular_values**2
        total = float(variances.sum())
        return ValueMap(
            values=list(fitted.values[: len(vectors)]),
            positions=positions,
            rows=fitted.counts[1 : len(vectors) + 1],
            means=self._means(fitted, len(vectors)),
            explained_variance_ratio=float(variances[:2].sum()) / total if total else 0.0,
        )

    @property
    def mean_labels(self) -> list[str]:
        """Names of the labels whose means a map can show."""
        if self.training is None:
            return []
        return list(_label_numbers(self.predictor.task, self.training.labels[:1]))

    def _vectors(self, attribute: str) -> Array:
        """Concatenate what the model stores of each of the most frequent values: (values, numbers)."""
        count = min(_MAX_MAPPED, len(self.predictor.schema[attribute].values))
        return self.predictor.model.values.vectors(attribute, count=count)

    def _means(self, fitted: FittedAttribute, count: int) -> dict[str, Array]:
        if self.training is None:
            return {}
        ids = self.predictor.schema.encode(self.training.rows)[0][:, fitted.columns]
        rows, slots = np.nonzero((ids > 0) & (ids <= count))
        indices = ids[rows, slots] - 1
        counts = np.bincount(indices, minlength=count).astype(np.float64)
        counts[counts == 0] = np.nan
        return {
            name: np.bincount(indices, weights=numbers[rows], minlength=count) / counts
            for name, numbers in _label_numbers(self.predictor.task, self.training.labels).items()
        }


def _label_numbers(task: Task, labels: Array) -> dict[str, Array]:
    """Turn labels into numbers (n,) that can be averaged: the rating, the number, or the share of a class."""
    if (numbers := task.codec.numbers(labels)) is not None:
        return {"rating" if task.codec.choices else "number": numbers}
    return {
        " ".join(["share of", *filter(None, [choice.name]), label]): marks.astype(np.float64)
        for choice in task.codec.choices
        for label, marks in zip(choice.codec.classes, choice.codec.marks(choice.labels(labels)).T, strict=True)
    }


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Predictions of one text in several cases.

    Args:
        names: of the numbers: classes with a probability, or what a regression predicts.
        cases: name of each case.
        numbers: (cases, names).
        predictions: of each case, in words.
        probabilities: whether the numbers are probabilities.
        is_ordered: whether the names have an order of their own, such as ratings.
        notes: values that were not used as they were typed.
    """

    names: list[str]
    cases: list[str]
    numbers: Array
    predictions: list[str]
    probabilities: bool
    is_ordered: bool = False
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class TrainingRow:
    """A training row to try.

    Args:
        second: the second text of a pair.
        values: of each attribute.
        label: in words.
    """

    text: str
    second: str
    values: dict[str, list[str]]
    label: str


@dataclass(frozen=True, kw_only=True)
class PanelAnswer:
    """What the values of an attribute say of one text, see `Panel.opinions`.

    Args:
        members: number of values that were asked.
        prediction: the answer of all together, in words.
        probabilities: mean probability of each answer; empty for a regression.
        shares: share of the members who give each answer, by name; empty for a regression.
        is_ordered: whether the answers have an order of their own, such as ratings.
        figures: disagreement, doubt, and what numbers have, by name.
        dissenters: members with another answer, the farthest first.
        notes: values that were not used as they were typed, and members who were not asked.
    """

    members: int
    prediction: str
    probabilities: dict[str, float]
    shares: dict[str, float]
    is_ordered: bool = False
    figures: dict[str, float]
    dissenters: list[str]
    notes: list[str]


@dataclass(kw_only=True)
class Session:
    """A run that answers questions about a text, the second text of a pair, and the values of attributes.

    Values that the model does not know are read as unknown, and noted.

    Args:
        training: its training rows with labels; None where they cannot be read.
        notes: what is not available.
    """

    predictor: Predictor
    recipe: Recipe
    training: LabelledRows | None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, run: str | Path, *, backbone: str | Path | None = None) -> Self:
        """Load a run, and its training table where it still is.

        Raises:
            ConfigError: for a run that writes text, or scores tokens.
            ModelFolderError: for a folder that is no run, or whose model is missing or damaged.
        """
        recipe, predictor = load_run(run, backbone=backbone)
        require(predictor.task, PLAYGROUND, run=run)
        try:
            rows = TableFile(recipe.data.train or "", FileOptions.of(recipe.data))
            training = LabelledRows.read(recipe, predictor, rows)
            if len(training.labels) > _MAX_TRAINING_ROWS:
                training = training.first(_MAX_TRAINING_ROWS)
        except (AttribuneError, OSError) as error:
            missing = f"the training table cannot be read, so that there are no examples and no mean labels: {error}"
            return cls(predictor=predictor, recipe=recipe, training=None, notes=[missing])
        return cls(predictor=predictor, recipe=recipe, training=training)

    @property
    def attributes(self) -> tuple[FittedAttribute, ...]:
        """The attributes that the model reads."""
        return tuple(self.predictor.schema) if self.predictor.reads_attributes else ()

    @property
    def values(self) -> AttributeValues:
        """What is known of the values of the attributes."""
        return AttributeValues(predictor=self.predictor, training=self.training)

    def examples(self) -> list[TrainingRow]:
        """Return some of the training rows."""
        if self.training is None:
            return []
        rows = self.training.rows.select(range(min(_MAX_EXAMPLES, len(self.training.labels))))
        text_input = self.predictor.text_input
        texts = text_input.read(rows)
        seconds = text_input.read_pairs(rows) if text_input.pair else [""] * len(texts)
        labels = [[cell_text(cell) for cell in rows[name]] for name in self.recipe.data.label]
        values = {attribute.name: _values_of(attribute, rows, self.predictor.schema) for attribute in self.attributes}
        return [
            TrainingRow(
                text=text,
                second=second,
                values={name: listed[row] for name, listed in values.items()},
                label=prediction_text(dict(zip(self._label_names, (one[row] for one in labels), strict=True))),
            )
            for row, (text, second) in enumerate(zip(texts, seconds, strict=True))
            if text.strip()
        ]

    @property
    def _label_names(self) -> tuple[str, ...]:
        """The names of the label columns; that of a single one is not shown."""
        names = self.recipe.data.label
        return names if len(names) > 1 else ("prediction",)

    # Predictions

    @property
    def reads_pairs(self) -> bool:
        """Whether the model reads two texts."""
        return bool(self.predictor.text_input.pair)

    def ask(self, text: str, assignments: Mapping[str, Sequence[str]], *, second: str = "") -> Answer:
        """Predict a text with its attributes, without each of them, and without any.

        Raises:
            DataError: for a text that the model cannot read.
            ConfigError: for an empty text, or more values than an attribute has room for.
        """
        ids, notes = self._read(text, second, assignments)
        cases = counterfactuals(self.predictor, text, ids, instead=[], top=0, second=second)
        return self._answer(cases, notes)

    def compare(
        self,
        text: str,
        assignments: Mapping[str, Sequence[str]],
        attribute: str,
        values: Sequence[str],
        *,
        second: str = "",
    ) -> Answer:
        """Predict a text with each of some values of an attribute, and without any; others are those of `assignments`.

        Raises:
            DataError: for a text that the model cannot read.
            ConfigError: for an empty text, or one of the `values` that the model does not know.
        """
        ids, notes = self._read(text, second, assignments, without=attribute)
        for value in values:
            assigned_ids(self.predictor.schema, {attribute: [value]})  # raises: an unknown value has no effect
        instead = [{attribute: [value]} for value in values]
        cases = counterfactuals(self.predictor, text, ids, instead=instead, top=0, second=second)
        names = {assignments_text(assignment) for assignment in instead}
        compared = [case for case in cases if case["as"] in names]
        return self._answer([*compared, {**cases[0], "as": f"without {attribute}"}], notes)

    @property
    def no_panel(self) -> str | None:
        """Why no panel can be asked; None where one can."""
        try:
            check_panel(self.predictor)
        except ConfigError as error:
            return str(error)
        return None

    def ask_panel(
        self, text: str, assignments: Mapping[str, Sequence[str]], attribute: str, *, second: str = ""
    ) -> PanelAnswer:
        """Predict a text with each value of an attribute, or the first ones of many, and put the answers together.

        Raises:
            DataError: for a text that the model cannot read.
            ConfigError: for an empty text, or a model, a task or an attribute without panels.
        """
        ids, notes = self._read(text, second, assignments, without=attribute)
        if attribute not in self.predictor.schema.names:  # the name of a file would be read as a table of members
            raise ConfigError(f"there is no attribute {attribute!r}: choose one from the list")
        panel = Panel.of(self.predictor, attribute, limit=_MAX_MEMBERS)
        opinions = panel.ask(self.predictor, rows_of(self.predictor, [(text, second)], ids[None]))
        total = len(self.predictor.schema[attribute].values)
        if len(panel) < total:
            notes.append(f"{len(panel):,} of {total:,} values were asked, the first of the list")
        answers = self.predictor.task.answer_names
        return PanelAnswer(
            members=len(panel),
            prediction=prediction_text({"prediction": opinions["prediction"][0]}),
            probabilities={name: float(opinions[f"probability_{name}"][0]) for name in answers},
            shares={name: float(opinions[f"share_{name}"][0]) for name in answers},
            is_ordered=self.predictor.task.codec.positions is not None,
            figures={
                name: float(opinions[name][0])
                for name in ("disagreement", "doubt", "expected", "spread")
                if name in opinions
            },
            dissenters=opinions.get("dissenters", [[]])[0],
            notes=notes,
        )

    def _read(
        self, text: str, second: str, assignments: Mapping[str, Sequence[str]], *, without: str = ""
    ) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Check the texts; return the ids of the values that the model knows, without an attribute, and the notes."""
        if not text.strip() and not second.strip():
            raise ConfigError("there is no text: type or pick one")
        if (longest := max(len(text), len(second))) > _MAX_TEXT_LENGTH:
            raise ConfigError(f"the text has {longest:,} characters: give at most {_MAX_TEXT_LENGTH:,}")
        known: dict[str, list[str]] = {}
        notes = []
        for name, values in assignments.items():
            for value in values if name != without else ():
                try:
                    assigned_ids(self.predictor.schema, {name: [value]})
                except ConfigError:
                    notes.append(f"{name} {value!r} was in no training row: it is read as unknown")
                else:
                    known.setdefault(name, []).append(value)
        return assigned_ids(self.predictor.schema, known) if self.attributes else np.zeros(0, dtype=np.int64), notes

    def _answer(self, cases: Sequence[Mapping[str, Any]], notes: list[str]) -> Answer:
        task, names = self.predictor.task, list(cases[0]["numbers"])
        return Answer(
            names=names,
            cases=[case["as"] for case in cases],
            numbers=np.array([[case["numbers"][name] for name in names] for case in cases]),
            predictions=[prediction_text(case["prediction"]) for case in cases],
            probabilities=task.decode(np.zeros((1, task.outputs))).probabilities is not None,
            is_ordered=task.codec.positions is not None,
            notes=notes,
        )


def _values_of(attribute: FittedAttribute, rows: Dataset, schema: Schema) -> list[list[str]]:
    """Return the values of each row that the model knows of an attribute, or what its cells hold."""
    if not is_listed(attribute):
        cells = rows[attribute.column] if attribute.column in rows.column_names else [None] * len(rows)
        return [[text] if (text := cell_text(cell)) else [] for cell in cells]
    ids = schema.encode(rows)[0][:, attribute.columns]
    return [[str(attribute.values[index - 1]) for index in row if index] for row in ids.tolist()]


def is_listed(attribute: FittedAttribute) -> bool:
    """Whether an attribute has a list of values to pick from."""
    return attribute.spec.lists_values and len(attribute.values) > 0
