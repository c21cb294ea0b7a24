"""How similar two texts are, for whoever asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from pydantic import BeforeValidator, PositiveFloat

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.core.door import as_argument
from attribune.core.hashing import text_number
from attribune.core.wording import did_you_mean
from attribune.errors import ConfigError, DataError, RowError
from attribune.metrics import formulas as metric
from attribune.metrics.formulas import RECALL_AT, mean_reciprocal_rank, positive_ranks, recall_at
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, NO_NUMBER, canonical
from attribune.tasks.base import Decoded, ScoreBy, Task, TaskHead, check_metrics, checked_logits
from attribune.tasks.codecs import LabelCodec, Numbers
from attribune.tasks.inputs import ComparedTexts, InputSettings, TaskInput
from attribune.tasks.labels import (
    Column,
    MissingTexts,
    compared_texts,
    label_numbers,
    number_of,
    same_text_note,
    texts_differ,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attribune.tasks.inputs import Spans

Form = Literal["scores", "pairs", "triplets"]
"""What a row has: two texts and a score, two texts that belong together, or also one that does not."""


def _names(names: Any) -> Any:
    given = (names,) if isinstance(names, str) else names
    if given is not None and (
        not isinstance(given, list | tuple) or not all(isinstance(name, str) and name for name in given)
    ):
        raise ConfigError(f"the attributes of a text are {names!r}: give a list of names")
    return None if given is None else tuple(given)


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
_ATTRIBUTES_OF_TEXTS = ("text_attributes", "pair_attributes")


class _SimilarTexts(ComparedTexts):
    """Two or three texts whose vectors are compared, in one of three forms, as the columns say."""

    reads_negative = True

    def _check_texts(self, settings: InputSettings, task: str) -> None:
        """Refuse settings with which nothing is learned of the similarity of texts, or not what is meant."""
        from attribune.methods import check_gives_vectors  # here, since tasks are also used without torch

        if not settings.pair:
            raise ConfigError(
                "task 'similarity' compares two texts: name the column of the second one with "
                f"{as_argument('data.text_pair')}, and with {as_argument('data.label')} that of scores, or with "
                f"{as_argument('data.text_negative')} that of a text that fits less, if there is one"
            )
        if any(len(names) > 1 for names in (settings.text, settings.pair, settings.negative)):
            raise ConfigError(
                f"task 'similarity' compares one column with another: name one with {as_argument('data.text')}, one "
                f"with {as_argument('data.text_pair')} and at most one with {as_argument('data.text_negative')}, and "
                "join others beforehand"
            )
        if settings.label and settings.negative:
            raise ConfigError("task 'similarity' learns from scores or from triplets: leave label or text_negative out")
        if settings.prompt:
            raise ConfigError("task 'similarity' reads no prompt: name its column with the text, and leave prompt out")
        form = self._form(settings)
        if (given := settings.options.get("form", form)) != form:
            raise ConfigError(f"task.form is {given!r}, and the columns that are named make {form}: leave it out")
        if form == "pairs" and settings.batch_size < 2:
            raise ConfigError(
                "training.batch_size is 1, and pairs are learned from the other rows of a batch: give at least 2"
            )
        if settings.head_size is not None:
            raise ConfigError("task 'similarity' has no head: leave backbone.head_size out")
        check_gives_vectors(settings.in_backbone(task, lacks="compares no texts"), task=task)
        self._task(settings).head.check_attributes(settings.attributes)

    def options(self, settings: InputSettings) -> dict[str, Any]:
        return {"form": self._form(settings)}

    def label_columns(self, settings: InputSettings) -> tuple[str, ...]:
        return (*super().label_columns(settings), *self._task(settings).label_attributes)

    def prediction_words(self, settings: InputSettings, *, outputs: int, spans: Spans) -> str:
        return f"of {spans(settings.texts)} by the cosine of their vectors, learned from {self._form(settings)}"

    def label_words(self, settings: InputSettings, *, spans: Spans) -> str:
        return spans(settings.label) or "none"

    @staticmethod
    def _form(settings: InputSettings) -> Form:
        return "triplets" if settings.negative else "scores" if settings.label else "pairs"

    def _task(self, settings: InputSettings) -> Similarity:
        """Return the task with the attributes of each text."""
        names = {name: settings.options[name] for name in _ATTRIBUTES_OF_TEXTS if name in settings.options}
        return Similarity(form=self._form(settings), **names)


@dataclass(frozen=True, kw_only=True)
class _TextVectors(TaskHead):
    """The vectors of two or three texts, of which the first has attributes of its own."""

    rows: _Rows
    text_attributes: tuple[str, ...] | None
    pair_attributes: tuple[str, ...]

    def logits(self, outputs: Tensor) -> Tensor:
        return self.rows.logits(outputs.view(-1, self.texts, outputs.shape[1]))

    def check_attributes(self, names: Sequence[str]) -> None:
        """Check that texts read attributes that there are, and that each attribute has a text that reads it.

        Raises:
            ConfigError: naming the attribute and the option.
        """
        for option in _ATTRIBUTES_OF_TEXTS:
            for name in getattr(self, option) or ():
                if name not in names:
                    raise ConfigError(
                        f"task.{option} has {name!r}, which is none of the attributes {', '.join(names) or '(none)'}"
                        f"{did_you_mean(name, names)}"
                    )
        super().check_attributes(names)

    def reads_attribute(self, name: str, *, place: int) -> bool:
        """Whether the first text or the others, by their place, are read with an attribute."""
        if place > 0:
            return name in self.pair_attributes
        return name not in self.pair_attributes if self.text_attributes is None else name in self.text_attributes


@checked_dataclass(kw_only=True)
class Similarity(Task):
    """Learn vectors of texts by the cosine of two of them, each with its attributes.

    The attributes of a row condition its first text, the anchor, so that one query has other neighbours for each user;
    `pair_attributes` condition the other texts. A model for this task has no head; `AttributeModel.encode` returns the
    vectors whose cosine it learns. The form of the rows decides what is learned:

    - ``scores``: the mean squared error of the cosine from scores between -1 and 1 (Reimers and Gurevych 2019); the
      logits (n, 1) are the cosines.
    - ``pairs``: the second texts of the other rows of a batch are negatives (Henderson et al. 2017); labels are numbers
      of the second texts, equal for equal ones with equal `pair_attributes`, and the logits (n, 2 * size) are both
      vectors, of length 1.
    - ``triplets``: the positive is nearer than the negative, by a margin (Schroff, Kalenichenko and Philbin 2015); the
      logits (n, 2) are the cosines with both, and labels are 0.

    Args:
        form: what a row has: ``scores``, ``pairs`` or ``triplets``; a recipe takes it from its columns.
        scale: factor of the cosines of pairs, the inverse of the temperature; by default 20.
        margin: for triplets, by how much the squared distance of the negative must be larger; by default 0.2.
        text_attributes: attributes that condition the first text; by default all but `pair_attributes`.
        pair_attributes: attributes that condition the other texts.
        missing: texts that mean a missing label.
        score_by: metrics that come first, beginning with the main one: of scores ``spearman``, ``pearson`` or ``rmse``,
            of pairs ``mrr``, ``recall_at_1``, ``recall_at_5`` or ``recall_at_10``, of triplets ``accuracy``.
        size: H, of the vectors; 0 as long as there is no model.
    """

    kind: ClassVar[str] = "similarity"
    pipeline: ClassVar[str] = "sentence-similarity"
    input: ClassVar[TaskInput] = _SimilarTexts()
    no_label: ClassVar[tuple[str, ...]] = NO_NUMBER
    form: Form
    scale: PositiveFloat = 20.0
    margin: PositiveFloat = 0.2
    text_attributes: Names | None = None
    pair_attributes: Names = ()
    missing: MissingTexts = MISSING
    score_by: ScoreBy = ()
    size: int = 0

    def __post_init__(self) -> None:
        """Check the names of metrics."""
        check_metrics(self.score_by, self.codec.metrics, task=f"a similarity of {self.form}")

    @classmethod
    def codec_for(cls, options: Mapping[str, Any]) -> LabelCodec:
        """Return the labels of the form; those of texts alone have no scale."""
        if options.get("form") != "scores":
            return LabelCodec()
        return _Scores(missing=options.get("missing", MISSING))

    @property
    def codec(self) -> _Rows:
        """What the rows of the form have, and what is learned and measured of them."""
        return _FORMS[self.form](
            size=self.size,
            scale=self.scale,
            margin=self.margin,
            pair_attributes=self.pair_attributes,
            missing=self.missing,
        )

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        form: Form,
        scale: float | None = None,
        margin: float | None = None,
        text_attributes: str | Sequence[str] | None = None,
        pair_attributes: str | Sequence[str] = (),
        missing: Sequence[str] = MISSING,
        score_by: str | Sequence[str] = (),
    ) -> Self:
        """Check that the training rows have something to learn."""
        if form not in get_args(Form):
            raise ConfigError(f"form is {form!r}: choose one of {', '.join(get_args(Form))}")
        given = {name: value for name, value in {"scale": scale, "margin": margin}.items() if value is not None}
        if idle := [name for name in given if name != _FORMS[form].option]:
            right = next(name for name, rows in _FORMS.items() if rows.option == idle[0])
            raise ConfigError(f"{idle[0]} is for {right}, and the rows are {form}: leave it out")
        options: dict[str, Any] = {"text_attributes": text_attributes, "pair_attributes": pair_attributes, **given}
        task = cls(form=form, missing=missing, score_by=score_by, **options)  # type: ignore[arg-type]
        labels, is_usable = task.encode_labels(label_columns)
        if not is_usable.any():
            raise DataError(f"no training row can be used: all have {task.codec.unusable}")
        distinct = np.unique(labels[is_usable])
        if (same := task.codec.same) is not None and len(distinct) < 2:
            raise DataError(
                f"every training row has the same {same}: nothing can be learned; give rows of at least two"
            )
        return task

    @property
    def head(self) -> _TextVectors:
        """The vectors themselves, of two or three texts."""
        return _TextVectors(
            outputs=0,
            texts=self.codec.candidates,
            rows=self.codec,
            text_attributes=self.text_attributes,
            pair_attributes=self.pair_attributes,
        )

    @property
    def outputs(self) -> int:
        """The cosines with the other texts; of pairs both vectors."""
        return self.codec.outputs

    @property
    def main_metric(self) -> str:
        """The first of `score_by`, else ``spearman``, ``mrr`` or ``accuracy``."""
        return (*self.score_by, *self.codec.metrics)[0]

    @property
    def output_names(self) -> list[str]:
        """Names of the cosines; vectors have none."""
        return list(self.codec.output_names)

    @property
    def label_attributes(self) -> tuple[str, ...]:
        """The attributes that tell the second texts of pairs apart, beside their words."""
        return self.codec.label_attributes

    def with_vector_size(self, size: int) -> Self:
        """Return the task of a model whose vectors of texts have this size."""
        return replace(self, size=size)

    def decode(self, logits: Array) -> Decoded:
        """Return the cosine of the first two texts."""
        cosines = self.codec.cosines(checked_logits(logits, self.outputs))[:, 0]
        return Decoded(predictions={"prediction": cosines}, probabilities=None, probability_columns=())

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of the form; those of `score_by` come first.

        Correlations are of cosine and score. A positive is ranked among the distinct positives of all rows. Of triplets
        whose two cosines are equal, half are right.
        """
        labels, names = np.asarray(labels), dict.fromkeys([*self.score_by, *self.codec.metrics])
        if labels.shape != (len(logits),):
            raise DataError(f"{labels.size} labels for {len(logits)} rows: give one label per row")
        return self.codec.measured(checked_logits(logits, self.outputs), labels, names)


@dataclass(frozen=True, kw_only=True)
class _Rows(LabelCodec, ABC):
    """What the rows of one form have, and what is learned and measured of them.

    Columns are the scores, if there are any; then the texts, which may be left out behind scores; and
    `label_attributes`. Logits are made by `logits`; `cosines` are (n, candidates - 1), of the first text
    with the others.
    """

    size: int = 0
    scale: float = 20.0
    margin: float = 0.2
    pair_attributes: tuple[str, ...] = ()

    form: ClassVar[Form]
    metrics: ClassVar[tuple[str, ...]]
    needed: ClassVar[str]
    candidates: ClassVar[int] = 2
    option: ClassVar[str | None] = None
    output_names: ClassVar[tuple[str, ...]] = ()
    unusable: ClassVar[str] = "no texts that can be compared, or no score"
    has_comparable_loss: ClassVar[bool] = False  # it depends on the batch, or on the margin
    same: ClassVar[str | None] = None

    @property
    def outputs(self) -> int:
        """Number of logits of a row: by default one for each cosine."""
        return self.candidates - 1

    @property
    def label_attributes(self) -> tuple[str, ...]:
        """The attributes that tell texts apart, beside their words."""
        return ()

    def takes(self, columns: int) -> bool:
        """Whether labels have so many columns."""
        return columns == self.candidates + len(self.label_attributes)

    def check(self, columns: Sequence[Column], *, task: str) -> None:
        """Check the number of columns."""
        if not self.takes(len(columns)):
            raise ConfigError(
                f"the task {task!r} takes for {self.form} {self.needed}, and was given {len(columns)}: name these"
            )

    def notes(self, columns: Sequence[Column]) -> list[str]:
        """Say how many rows with texts are left out, since they have the same one twice."""
        return same_text_note(sum(texts_differ(row[: self.candidates]) is False for row in compared_texts(columns)))

    def logits(self, vectors: Tensor) -> Tensor:
        """Return the logits (B, outputs) of the vectors (B, candidates, H) of texts."""
        from attribune.tasks.losses import cosines_with_first

        return cosines_with_first(vectors)

    def cosines(self, logits: Array) -> Array:
        """Return the cosines (n, candidates - 1) of finite logits."""
        return logits

    @abstractmethod
    def measured(self, logits: Array, labels: Array, names: Iterable[str]) -> dict[str, Metric]:
        """Return metrics by name."""

    def prior(self, labels: Array) -> Array:
        """Return logits that are the same for all rows: by default those of equal vectors."""
        return np.zeros(self.outputs)


@dataclass(frozen=True, kw_only=True)
class _Scores(Numbers, _Rows):
    form = "scores"
    metrics = ("spearman", "pearson", "rmse")
    needed = "a column of scores, perhaps with those of both texts behind it"
    output_names = ("similarity",)
    has_comparable_loss = True  # the squared error
    same = "score"

    @property
    def scale_words(self) -> str:
        return "; scores are cosines, from -1 to 1: divide others by their maximum"

    def takes(self, columns: int) -> bool:
        return columns in (1, 3)

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        scores = label_numbers(columns[0], missing=self.missing, first_row=first_row)
        wrong = np.flatnonzero(np.abs(scores) > 1)
        if len(wrong):
            row = int(wrong[0])
            raise RowError("the score of ", first_row + row, f" is {scores[row]:g}{self.scale_words}")
        texts = compared_texts(columns[1:])
        has_texts = np.array([all(row) for row in texts], dtype=bool) if texts else True
        return scores.astype(np.float32), ~np.isnan(scores) & has_texts

    def outside(self, columns: Sequence[Column]) -> Array:
        numbers = [number_of(canonical(value) or "") for value in columns[0]]
        return super().outside(columns) | [number is not None and abs(number) > 1 for number in numbers]

    def numbers(self, labels: Array) -> None:
        return None  # cosines have the order of the scores, and need not be as large

    def notes(self, columns: Sequence[Column]) -> list[str]:
        return []

    def measured(self, logits: Array, labels: Array, names: Iterable[str]) -> dict[str, Metric]:
        true = labels.astype(np.float64)
        if not np.isfinite(true).all():
            raise DataError(
                f"{int((~np.isfinite(true)).sum())} of {len(true)} scores are missing: leave these rows out"
            )
        return {name: getattr(metric, name)(true, logits[:, 0]) for name in names}


class _Pairs(_Rows):
    form = "pairs"
    metrics = ("mrr", *(f"recall_at_{k}" for k in RECALL_AT))
    needed = "the columns of both texts and of pair_attributes"
    option = "scale"
    has_row_losses = False  # the texts of other rows are negatives
    same = "second text"

    @property
    def outputs(self) -> int:
        return 2 * self.size

    @property
    def label_attributes(self) -> tuple[str, ...]:
        return self.pair_attributes

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        texts = compared_texts(columns)
        is_usable = np.array([texts_differ(row[:2]) is True for row in texts], dtype=bool)
        return np.array([_number(row[1:]) for row in texts], dtype=np.int64), is_usable

    def logits(self, vectors: Tensor) -> Tensor:
        from attribune.tasks.losses import unit_vectors

        return unit_vectors(vectors)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        from attribune.tasks.losses import row_multiple_negatives

        return row_multiple_negatives(logits, labels, scale=self.scale)

    def cosines(self, logits: Array) -> Array:
        first, second = np.split(logits, 2, axis=1)
        return np.asarray((first * second).sum(axis=1, keepdims=True))

    def measured(self, logits: Array, labels: Array, names: Iterable[str]) -> dict[str, Metric]:
        anchors, positives = np.split(logits, 2, axis=1)
        ranks = positive_ranks(anchors, positives, labels)
        made = {"mrr": mean_reciprocal_rank(ranks)} | {f"recall_at_{k}": recall_at(k, ranks) for k in RECALL_AT}
        return {name: made[name] for name in names}


class _Triplets(_Rows):
    form = "triplets"
    metrics = ("accuracy",)
    needed = "the columns of the text, the positive and the negative"
    candidates = 3
    option = "margin"
    output_names = ("similarity", "similarity_negative")

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        texts = compared_texts(columns)
        is_usable = np.array([texts_differ(row) is True for row in texts], dtype=bool)
        return np.zeros(len(texts), dtype=np.int64), is_usable

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        from attribune.tasks.losses import row_triplet_margin

        return row_triplet_margin(logits, margin=self.margin)

    def measured(self, logits: Array, labels: Array, names: Iterable[str]) -> dict[str, Metric]:
        hits = (1 + np.sign(logits[:, 0] - logits[:, 1])) / 2
        return {name: metric.mean_of(name, hits) for name in names}


_FORMS: Mapping[str, type[_Rows]] = {"scores": _Scores, "pairs": _Pairs, "triplets": _Triplets}


def _number(texts: Sequence[str]) -> int:
    """Return a number of 63 bits, not negative, that is the same for equal texts."""
    return text_number("\0".join(texts)) >> 1
