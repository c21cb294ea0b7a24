"""What a playground can be asked, without the page: predictions with and without attributes, two values, their map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from attribune.conditioned import ConditionedModel
from attribune.errors import AttribuneError, ConfigError
from attribune.evaluation.run import LabelledRows
from attribune.explaining.single import counterfactuals
from attribune.prediction import Predictor
from attribune.recipe import Recipe
from attribune.schema import Numeric
from attribune.schema.attributes import FittedAttribute, MultiLabel
from attribune.schema.given import given_ids, given_text
from attribune.tasks import Aspects, Classification, Rating, Regression, Task
from attribune.training.folder import load_run

__all__ = ["Answer", "Session", "ValueMap"]

Array = npt.NDArray[Any]
_MAPPED = 2_000  # values on a map, the most frequent
_EXAMPLES = 40
_FOUND = 50
_MOST_ROWS = 200_000  # training rows of which the mean labels are taken
_LONGEST = 100_000  # characters of a text


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Predictions of one text in several cases.

    Args:
        names: of the numbers: classes with a probability, or what a regression predicts.
        cases: what each case is called.
        numbers: (cases, names).
        predictions: of each case, in words.
        shares: whether the numbers are probabilities.
        notes: what was not taken as it was typed.
    """

    names: list[str]
    cases: list[str]
    numbers: Array
    predictions: list[str]
    shares: bool
    notes: list[str]


@dataclass(frozen=True, kw_only=True)
class ValueMap:
    """Vectors of an attribute's most frequent values, in the two directions in which they differ most.

    Args:
        values: which.
        places: (n, 2).
        rows: (n,), training rows of each.
        means: by what is averaged, (n,) mean labels of the training rows of each value, NaN without such rows.
        explained: share of the vectors' variance that the two directions hold.
    """

    values: list[str]
    places: Array
    rows: Array
    means: dict[str, Array]
    explained: float


@dataclass(kw_only=True)
class Session:
    """A run that can be asked.

    Args:
        predictor: of the run.
        recipe: of the run.
        training: its training rows with labels; None where they cannot be read.
        notes: what is missing.
    """

    predictor: Predictor
    recipe: Recipe
    training: LabelledRows | None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, run: str | Path, *, backbone: str | None = None) -> Self:
        """Load a run, and its training table where it still is.

        Raises:
            ConfigError: for a run that writes text.
            ModelFolderError: for a folder that is no run, or whose model is missing or damaged.
        """
        recipe, predictor = load_run(run, backbone=backbone)
        if predictor.task.kind == "generation":
            raise ConfigError(f"{run} writes text, which the playground does not show: use `attribune generate`")
        try:
            training = LabelledRows.read(recipe, predictor, recipe.data.train, encoding=recipe.data.encoding)
            if len(training.labels) > _MOST_ROWS:
                training = training.first(_MOST_ROWS)
        except (AttribuneError, OSError) as error:
            missing = f"the training table cannot be read, so that there are no examples and no mean labels: {error}"
            return cls(predictor=predictor, recipe=recipe, training=None, notes=[missing])
        return cls(predictor=predictor, recipe=recipe, training=training)

    @property
    def attributes(self) -> tuple[FittedAttribute, ...]:
        """Those that the model reads."""
        return tuple(self.predictor.schema) if self.predictor.reads_attributes else ()

    def examples(self) -> list[str]:
        """Some texts of the training rows."""
        if self.training is None:
            return []
        some = self.training.rows.select(range(min(_EXAMPLES, len(self.training.labels))))
        return list(dict.fromkeys(text for text in self.predictor.text_input.read(some) if text.strip()))

    # Predictions

    def ask(self, text: str, given: Mapping[str, Sequence[str]]) -> Answer:
        """A text as given, without each attribute, and without any.

        Args:
            text: of whom it may be.
            given: attribute to its values; what the model does not know is read as unknown, and noted.

        Raises:
            DataError: for a text that the model cannot read.
            ConfigError: for an empty text, or more values than an attribute has room for.
        """
        self._check(text)
        known, notes = self._known(given)
        cases = counterfactuals(self.predictor, text, self._ids(known), instead=[], most=0)
        return self._answer(cases, notes)

    def compare(self, text: str, given: Mapping[str, Sequence[str]], attribute: str, two: Sequence[str]) -> Answer:
        """A text with the one and with the other value of an attribute, and without any.

        Args:
            text: of whom it may be.
            given: values of the other attributes.
            attribute: in which the two cases differ.
            two: its values.

        Raises:
            DataError: for a text that the model cannot read.
            ConfigError: for an empty text, or a value that the model does not know.
        """
        self._check(text)
        known, notes = self._known({name: values for name, values in given.items() if name != attribute})
        for value in two:
            given_ids(self.predictor.schema, {attribute: [value]})  # an unknown one has nothing to compare
        instead = [{attribute: [value]} for value in two]
        cases = counterfactuals(self.predictor, text, self._ids(known), instead=instead, most=0)
        wanted = {given_text(one) for one in instead}
        chosen = [case for case in cases if case["as"] in wanted]
        return self._answer([*chosen, {**cases[0], "as": f"without {attribute}"}], notes)

    def _check(self, text: str) -> None:
        if not text.strip():
            raise ConfigError("there is no text: type or pick one")
        if len(text) > _LONGEST:
            raise ConfigError(f"the text has {len(text):,} characters: give at most {_LONGEST:,}")

    def _known(self, given: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], list[str]]:
        known: dict[str, list[str]] = {}
        notes = []
        for name, values in given.items():
            for value in values:
                try:
                    given_ids(self.predictor.schema, {name: [value]})
                except ConfigError:
                    notes.append(f"{name} {value!r} was in no training row: it is read as unknown")
                else:
                    known.setdefault(name, []).append(value)
        return known, notes

    def _ids(self, known: Mapping[str, Sequence[str]]) -> npt.NDArray[np.int64]:
        return given_ids(self.predictor.schema, known) if self.attributes else np.zeros(0, dtype=np.int64)

    def _answer(self, cases: Sequence[Mapping[str, Any]], notes: list[str]) -> Answer:
        names = list(cases[0]["numbers"])
        return Answer(
            names=names,
            cases=[case["as"] for case in cases],
            numbers=np.array([[case["numbers"][name] for name in names] for case in cases]),
            predictions=[_in_words(case["prediction"]) for case in cases],
            shares=not isinstance(self.predictor.task, Regression),
            notes=notes,
        )

    # Values

    def search(self, attribute: str, words: str) -> list[tuple[str, int]]:
        """Values that contain the words in whatever case, with their training rows, the most frequent first."""
        fitted = self.predictor.schema[attribute]
        wanted, found = words.strip().casefold(), []
        for place, value in enumerate(fitted.values):
            if wanted in value.casefold():
                found.append((value, int(fitted.counts[place + 1])))
                if len(found) == _FOUND:
                    break
        return found

    def neighbours(self, attribute: str, value: str, *, most: int = 5) -> list[tuple[str, float]]:
        """The values whose vectors point most nearly in the direction of one's own, with the cosine of the angle.

        Raises:
            ConfigError: for a value that has no vector.
        """
        fitted, vectors = self.predictor.schema[attribute], self._vectors(attribute)
        listed = list(fitted.values[: len(vectors)])
        if value not in listed:
            raise ConfigError(f"attribute {attribute!r} has no vector of {value!r} among its {len(listed):,} first")
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        cosines = unit @ unit[listed.index(value)]
        order = [place for place in np.argsort(-cosines, kind="stable").tolist() if listed[place] != value]
        return [(listed[place], float(cosines[place])) for place in order[:most]]

    def map(self, attribute: str) -> ValueMap | None:
        """Where the vectors of an attribute's values lie; None for a model without such vectors, or fewer than three.

        The two directions are those of the largest variance (principal components) of all that the model keeps of a
        value, side by side.
        """
        vectors, fitted = self._vectors(attribute), self.predictor.schema[attribute]
        if len(vectors) < 3 or not vectors.shape[1]:
            return None
        centred = vectors - vectors.mean(axis=0)
        _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
        places = centred @ directions[:2].T
        if places.shape[1] < 2:
            places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
        total = float((sizes**2).sum())
        return ValueMap(
            values=list(fitted.values[: len(vectors)]),
            places=places,
            rows=fitted.counts[1 : len(vectors) + 1],
            means=self._means(fitted, len(vectors)),
            explained=float((sizes[:2] ** 2).sum()) / total if total else 0.0,
        )

    @property
    def averaged(self) -> list[str]:
        """What the mean labels on a map are of."""
        if self.training is None:
            return []
        return list(_label_numbers(self.predictor.task, self.training.labels[:1]))

    def _vectors(self, attribute: str) -> Array:
        """(values, numbers): what the model keeps of each of the most frequent values."""
        model, fitted = self.predictor.model, self.predictor.schema[attribute]
        count = min(_MAPPED, len(fitted.values))
        if not isinstance(model, ConditionedModel):
            return np.zeros((count, 0))
        tables = [model.get_parameter(name) for name, of in model.rows_of_values().items() if of == attribute]
        with torch.no_grad():
            parts = [table[1 : count + 1].flatten(1).double().cpu().numpy() for table in tables]
        return np.concatenate(parts, axis=1) if parts else np.zeros((count, 0))

    def _means(self, fitted: FittedAttribute, count: int) -> dict[str, Array]:
        if self.training is None:
            return {}
        ids = self.predictor.schema.encode(self.training.rows)[0][:, fitted.start : fitted.start + fitted.slots]
        rows, slots = np.nonzero((ids > 0) & (ids <= count))
        places = ids[rows, slots] - 1
        held = np.bincount(places, minlength=count).astype(np.float64)
        held[held == 0] = np.nan
        return {
            name: np.bincount(places, weights=numbers[rows], minlength=count) / held
            for name, numbers in _label_numbers(self.predictor.task, self.training.labels).items()
        }


def _label_numbers(task: Task, labels: Array) -> dict[str, Array]:
    """Labels as numbers (n,) whose mean says something: the rating, the number, or 1 where a row has a class."""
    if isinstance(task, Regression):
        return {"number": labels.reshape(-1) * task.std + task.mean}
    if isinstance(task, Rating):
        values = np.array([float(name) for name in task.classes])
        return {"rating": np.where(labels >= 0, values[labels.clip(min=0)], values.mean())}
    if isinstance(task, Classification):
        has = labels[:, : task.outputs] > 0 if task.multi_label else labels[:, None] == np.arange(task.outputs)
        return {f"share of {name}": has[:, place].astype(np.float64) for place, name in enumerate(task.class_names)}
    assert isinstance(task, Aspects)
    return {
        f"share of {name} {label}": (labels[:, number] == place).astype(np.float64)
        for number, (name, classes) in enumerate(zip(task.names, task.class_lists, strict=True))
        for place, label in enumerate(classes)
    }


def _in_words(prediction: Mapping[str, Any]) -> str:
    said = []
    for name, value in prediction.items():
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        text = f"{text:.4g}" if isinstance(text, float) else str(text)
        said.append(text if name == "prediction" else f"{name} {text}")
    return "; ".join(said)


def takes_several(attribute: FittedAttribute) -> bool:
    """Whether a row may have several values of an attribute."""
    return isinstance(attribute.spec, MultiLabel)


def is_listed(attribute: FittedAttribute) -> bool:
    """Whether an attribute has a list of values to pick from."""
    return not isinstance(attribute.spec, Numeric) and len(attribute.values) > 0
