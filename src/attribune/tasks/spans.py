"""The part of a text that answers a question."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import AfterValidator, ValidationInfo

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.core.wording import shortened
from attribune.errors import ConfigError, DataError, RowError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, as_written, canonical, json_value
from attribune.tasks.base import Decoded
from attribune.tasks.codecs import LabelCodec
from attribune.tasks.inputs import QuestionAndContext, TaskInput
from attribune.tasks.labels import UNSEEN, Column, Flag, MissingTexts
from attribune.tasks.tokens import TokenRow, TokenTask, TokenWindow, object_array

if TYPE_CHECKING:
    from torch import Tensor


class AnswerSpan(NamedTuple):
    """A true answer and the number of characters before it in the text."""

    text: str
    start: int


@dataclass(frozen=True, kw_only=True)
class AnswerCells:
    """The cells of a row: one with answers; or texts of answers, their starts and whether the question has none.

    Args:
        missing: texts that mean a missing label.
    """

    missing: Sequence[str]

    def read(self, cells: Sequence[Any], context: Any, *, row: int) -> tuple[tuple[AnswerSpan, ...] | None, int]:
        """Return the answers, None where the label is missing, and how many were found elsewhere than it says.

        Raises:
            RowError: for an answer that is not where it says, and not in the text exactly once.
        """
        text = as_written(context)
        try:
            pairs = self._pairs(cells)
        except (DataError, TypeError, ValueError, OverflowError) as error:
            raise RowError("the answers of ", row, f" cannot be read ({error}): {_FORMAT}") from error
        if pairs is None:
            return None, 0
        answers, moved = [], 0
        for answer, start in pairs:
            found = _place(answer, start, text, row=row)
            moved += start is not None and found != start
            answers.append(AnswerSpan(answer, found))
        return tuple(answers), moved

    def _pairs(self, cells: Sequence[Any]) -> list[tuple[str, int | None]] | None:
        """Return texts and starts, None where the label is missing."""
        first = _parsed(cells[0])
        if len(cells) > 2:
            flag = (canonical(cells[2]) or "").lower()
            if flag not in ("", "true", "1", "false", "0"):
                raise DataError(f"{flag!r} does not say whether there is no answer: write true or false")
            if flag in ("true", "1"):
                return []
        if isinstance(first, dict):
            return _zipped(first.get("text"), first.get("answer_start"))
        if isinstance(first, list) and any(isinstance(item, dict) for item in first):
            return [pair for item in first for pair in _zipped(item.get("text"), item.get("answer_start"))]
        if not isinstance(first, list):
            text = first if isinstance(first, str) else canonical(first)
            if text is None or not text.strip() or text.strip() in self.missing:
                if any(canonical(cell) is not None for cell in cells[1:]):
                    raise DataError("there is no answer, and the row is not marked as unanswerable")
                return None
            first = [text]
        return _zipped(first, _parsed(cells[1]) if len(cells) > 1 else None)


_FORMAT = "write {'text': [...], 'answer_start': [...]}, or a column of answers and one of where they start"


def _parsed(cell: Any) -> Any:
    """Return the value that a text spells in JSON, which objects in JSON lines become; other cells as they are."""
    if isinstance(cell, np.ndarray):
        return cell.tolist()
    if not (isinstance(cell, str) and cell[:1] + cell[-1:] in ("{}", "[]")):
        return cell
    found = json_value(cell)
    return cell if found is None else found


def _zipped(texts: Any, starts: Any) -> list[tuple[str, int | None]]:
    """Pair texts with their starts, which may be unknown."""
    texts, starts = (value.tolist() if isinstance(value, np.ndarray) else value for value in (texts, starts))
    if texts is None:
        raise DataError("there is no text")
    listed = [texts] if isinstance(texts, str) else list(texts)
    places = [starts] * len(listed) if starts is None else starts if isinstance(starts, list) else [starts]
    if len(places) != len(listed):
        raise DataError(f"there are {len(listed)} texts and {len(places)} starts")
    if wrong := [text for text in listed if not isinstance(text, str) or not text.strip()]:
        raise DataError(f"{wrong[0]!r} is not text")
    return [(text, _number(place)) for text, place in zip(listed, places, strict=True)]


def _number(value: Any) -> int | None:
    text = canonical(value)
    return None if text is None else int(text)


def _place(answer: str, start: int | None, text: str, *, row: int) -> int:
    """Return where an answer stands."""
    if start is not None and start >= 0 and text.startswith(answer, start):
        return start
    count, shown = text.count(answer), f"{shortened(answer, 60)!r}"
    if count == 1:
        return text.index(answer)
    where = "" if start is None else f", and not at {start:,}, which is the offset given"
    raise RowError(
        "the answer of ",
        row,
        f", {shown}, is in the text {count:,} times{where}: correct answer_start, or remove the row",
    )


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_answer(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def answer_scores(predicted: str, true: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 of an answer, each the highest over the true ones, as the script of SQuAD 2.0 does.

    Of a question without an answer, "" is the true one; so is it where all true answers are normalised to nothing.
    """
    answers = [text for text in map(normalized_answer, true) if text] or [""]
    mine = normalized_answer(predicted)
    return max(float(text == mine) for text in answers), max(_f1(mine.split(), text.split()) for text in answers)


def _f1(predicted: list[str], true: list[str]) -> float:
    if not (predicted and true):
        return float(predicted == true)
    common = (Counter(predicted) & Counter(true)).total()
    return 2 * common / (len(predicted) + len(true))


NULL = -2
"""The mark of the token that stands for no answer."""


class Candidate(NamedTuple):
    """A part of a text as an answer: the sum of its two logits, and its characters from `start` to before `end`."""

    score: float
    start: int
    end: int
    text: str


class SpanScores(NamedTuple):
    """The scores of a row: that of no answer, and the best candidates, the best first."""

    null: float
    best: tuple[Candidate, ...]

    @property
    def difference(self) -> float:
        """The score of no answer less that of the best candidate; infinite without one."""
        return self.null - self.best[0].score if self.best else np.inf


@dataclass(frozen=True, kw_only=True)
class Answers(LabelCodec):
    """The true answers to a question; the label of a row is a tuple of them, and labels are (n,).

    Columns are the answers, with their starts and whether there are none if these are columns of their own; and the
    context.
    """

    def check(self, columns: Sequence[Column], *, task: str) -> None:
        """Check the number of columns."""
        if not 2 <= len(columns) <= 4:
            raise ConfigError(
                f"the task {task!r} takes 1 to 3 label columns and the context, and was given {len(columns)} columns: "
                "name the answers, or answer, answer_start and is_impossible"
            )

    def _read(self, columns: Sequence[Column], first_row: int) -> list[tuple[tuple[AnswerSpan, ...] | None, int]]:
        cells = AnswerCells(missing=self.missing)
        rows = zip(*columns, strict=True)
        return [cells.read(row[:-1], row[-1], row=number) for number, row in enumerate(rows, start=first_row)]

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return a tuple of answers per row, and the mask of labelled rows."""
        read = [answers for answers, _ in self._read(columns, first_row)]
        return object_array([answers or () for answers in read]), np.array(
            [one is not None for one in read], dtype=bool
        )

    def notes(self, columns: Sequence[Column]) -> list[str]:
        """Say how many answers are elsewhere in the text than their start says."""
        moved = sum(count for _, count in self._read(columns, 1))
        return [f"{moved:,} answers are not where their row says, and were found by their text"] if moved else []

    def _nats(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropies (B, 2) of the first and of the last token."""
        import torch

        from attribune.core.device import at_least_float32

        scores = at_least_float32(logits).masked_fill((labels == UNSEEN).unsqueeze(-1), -torch.inf).log_softmax(dim=1)
        targets = torch.stack([((labels >= 0) & (labels & bit > 0)).long().argmax(dim=1) for bit in (1, 2)], dim=1)
        return -scores.gather(1, targets.unsqueeze(1)).squeeze(1)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean of the cross-entropies of first and last token, among those that may be, over windows."""
        return self._nats(logits, labels).mean()

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of both cross-entropies of each window."""
        return self._nats(logits, labels).sum(dim=1)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return 2 for each window, whose loss has two cross-entropies."""
        return 2 * super().row_counts(labels)

    def packed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Store scores and labels as JSON in bytes."""
        texts = {name: json.dumps(list(arrays[name])) for name in ("logits", "labels")}
        return {**arrays, **{name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}}

    def unpacked(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Undo `packed`."""
        scores, labels = (json.loads(arrays[name].tobytes()) for name in ("logits", "labels"))
        logits = [SpanScores(null, tuple(Candidate(*one) for one in best)) for null, best in scores]
        answers = [tuple(AnswerSpan(*one) for one in label) for label in labels]
        return {**arrays, "logits": object_array(logits), "labels": object_array(answers)}


def _at_least_one(value: int, info: ValidationInfo) -> int:
    if value < 1:
        raise ConfigError(f"{info.field_name} is {value}: give at least 1")
    return value


Count = Annotated[int, AfterValidator(_at_least_one)]


@checked_dataclass(kw_only=True)
class Spans(TokenTask):
    """Find the part of a text, the context, that answers a question; the head has a start and an end logit per token.

    Devlin et al. 2019, *BERT*, sections 4.2 and 4.3: an answer is scored by the start logit of its first token and the
    end logit of its last one, no answer by those of the first token ([CLS]), the lowest over the windows of a context;
    a window without the answer learns the latter. The label of a row is a tuple of true answers, empty for a question
    without one; the first is learned. The scores of a row are `SpanScores`.

    Args:
        unanswerable: whether a question may have no answer, as in the training rows; otherwise one is always returned.
        null_score_diff_threshold: no answer is given where its score is higher by more than this; fitted on the
            validation rows.
        max_answer_length: maximum number of tokens of an answer.
        n_best: number of candidates kept per row.
        list_n_best: whether to list all of them, as JSON.
        doc_stride: tokens from the beginning of a window to that of the next; by default a third of the window, 128 of
            384 in the paper.
        max_question_length: maximum number of tokens read of a question.
        missing: texts that mean a missing label.
    """

    kind: ClassVar[str] = "spans"
    pipeline: ClassVar[str] = "question-answering"
    input: ClassVar[TaskInput] = QuestionAndContext()
    main_metric: ClassVar[str] = "f1"
    outputs: ClassVar[int] = 2
    changeable: ClassVar[tuple[str, ...]] = (
        "missing",
        "null_score_diff_threshold",
        "max_answer_length",
        "n_best",
        "list_n_best",
    )
    unanswerable: Flag = False
    null_score_diff_threshold: float = 0.0
    max_answer_length: Count = 30
    n_best: Count = 20
    list_n_best: Flag = False
    doc_stride: Count | None = None
    max_question_length: Count = 64
    missing: MissingTexts = MISSING

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        unanswerable: bool | None = None,
        null_score_diff_threshold: float = 0.0,
        max_answer_length: int = 30,
        n_best: int = 20,
        list_n_best: bool = False,
        doc_stride: int | None = None,
        max_question_length: int = 64,
        missing: Sequence[str] = MISSING,
    ) -> Self:
        """Return the task; `unanswerable`, unless given, says whether a training row has no answer."""
        task = cls(
            null_score_diff_threshold=null_score_diff_threshold,
            max_answer_length=max_answer_length,
            n_best=n_best,
            list_n_best=list_n_best,
            doc_stride=doc_stride,
            max_question_length=max_question_length,
            missing=missing,
        )
        labels, keep = task.encode_labels(label_columns)
        if not any(labels[keep]):
            raise DataError("no training row has an answer: name the column that holds the answers")
        has_none = any(label == () for label in labels[keep])
        return replace(task, unanswerable=has_none if unanswerable is None else unanswerable)

    @property
    def codec(self) -> Answers:
        """What the labels of a row are."""
        return Answers(missing=self.missing)

    def window_labels(self, window: TokenWindow, label: Sequence[AnswerSpan]) -> Array:
        """Return 1 at the first token of the answer, plus 2 at the last one, 0 at others that may be, and `UNSEEN`.

        Where the window does not have the whole answer, both are the token that stands for none.
        """
        starts = window.marks[:, 0]
        labels = np.where(starts == -1, UNSEEN, 0)
        null = int(np.flatnonzero(starts == NULL)[0])
        first, last = (_tokens_of(label[0], window) if label else None) or (null, null)
        labels[first] += 1
        labels[last] += 2
        return labels

    def is_learned(self, windows: Sequence[TokenWindow], label: Sequence[AnswerSpan]) -> bool:
        """Whether a window has the whole answer, if there is one."""
        return not label or any(_tokens_of(label[0], window) is not None for window in windows)

    def window_scores(self, logits: Array, window: TokenWindow) -> SpanScores:
        """Return the score of no answer, and the best candidates, yet without their texts."""
        if not np.isfinite(logits).all():
            return SpanScores(np.nan, ())
        starts, ends = window.marks.T
        null = float(logits[np.flatnonzero(starts == NULL)[0]].sum(dtype=np.float64))
        places = np.flatnonzero(starts >= 0)
        if not len(places):
            return SpanScores(null, ())
        first, last = np.full((2, len(logits)), -np.inf)
        first[places], last[places] = logits[places, 0], logits[places, 1]
        length = min(self.max_answer_length, len(logits))
        padded = np.append(last, np.full(length - 1, -np.inf))
        sums = first[:, None] + np.lib.stride_tricks.sliding_window_view(padded, length)
        count = min(self.n_best, sums.size)
        flat = sums.reshape(-1)
        least = np.partition(flat, flat.size - count)[flat.size - count]
        best = np.flatnonzero((flat >= least) & (flat > -np.inf))
        best = best[np.argsort(-flat[best], kind="stable")][:count]
        pairs = [(divmod(int(index), length), float(flat[index])) for index in best]
        return SpanScores(
            null, tuple(Candidate(sum_, int(starts[i]), int(ends[i + more]), "") for (i, more), sum_ in pairs)
        )

    def row_scores(self, windows: Sequence[SpanScores], row: TokenRow) -> SpanScores:
        """Return the best candidates of all windows, each once, and the lowest score of no answer."""
        highest: dict[tuple[int, int], float] = {}
        for window in windows:
            for score, start, end, _ in window.best:
                highest[start, end] = max(score, highest.get((start, end), -np.inf))
        ordered = sorted(highest.items(), key=lambda item: (-item[1], item[0]))[: self.n_best]
        best = tuple(Candidate(score, start, end, row.text[start:end]) for (start, end), score in ordered)
        return SpanScores(float(np.min([window.null for window in windows])), best)

    def _answers(self, logits: Array) -> list[Candidate | None]:
        """Return the answer to each question, None for none."""
        if not all(
            np.isfinite(scores.null) and np.isfinite([one.score for one in scores.best]).all() for scores in logits
        ):
            raise DataError(
                "the model's output is not finite: the training diverged; lower the learning rate or train in float32"
            )
        return [
            None
            if not scores.best or (self.unanswerable and scores.difference > self.null_score_diff_threshold)
            else scores.best[0]
            for scores in logits
        ]

    def decode(self, logits: Array) -> Decoded:
        """Return the answers, where they start (-1 for none), and the score of the best one less that of none.

        The score is NaN where the context has no token.
        """
        answers = self._answers(logits)
        predictions: dict[str, Any] = {
            "prediction": ["" if answer is None else answer.text for answer in answers],
            "start": np.array([-1 if answer is None else answer.start for answer in answers], dtype=np.int64),
            "score": np.array([-scores.difference if scores.best else np.nan for scores in logits], dtype=np.float64),
        }
        if self.list_n_best:
            predictions["n_best"] = [
                json.dumps(
                    [{"text": one.text, "start": one.start, "score": one.score - scores.null} for one in scores.best],
                    ensure_ascii=False,
                )
                for scores in logits
            ]
        return Decoded(predictions=predictions, probabilities=None, probability_columns=())

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return F1 and exact match of the answers, as the script of SQuAD 2.0 does, as shares."""
        return _figures(["" if one is None else one.text for one in self._answers(logits)], labels)

    def majority(self, train_labels: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of never giving an answer."""
        return _figures([""] * len(labels), labels)

    @property
    def is_tuned(self) -> bool:
        """Whether there is a threshold to fit."""
        return self.unanswerable

    def tuned(self, logits: Array, labels: Array) -> Self:
        """Return the task with the threshold that has the highest F1 on these rows; itself if all have answers."""
        if not self.unanswerable or not len(logits):
            return self
        order = np.argsort([scores.difference for scores in logits], kind="stable")
        differences = np.array([logits[row].difference for row in order])
        given = [
            answer_scores(logits[row].best[0].text if logits[row].best else "", _texts(labels[row])) for row in order
        ]
        withheld = [answer_scores("", _texts(labels[row])) for row in order]
        gain = np.cumsum([0.0, *(one[1] - other[1] for one, other in zip(given, withheld, strict=True))])
        # The first k are answered; a threshold lies between two differences that are not equal.
        bounds = np.concatenate([differences[:1] - 1, differences, differences[-1:] + 1])
        apart = np.isfinite(bounds[:-1]) & (bounds[:-1] < bounds[1:])
        if not apart.any():
            return self
        k = int(np.argmax(np.where(apart, gain, -np.inf)))
        low, high = bounds[k], bounds[k + 1]
        return replace(self, null_score_diff_threshold=float((low + high) / 2 if np.isfinite(high) else low + 1))


def _tokens_of(answer: AnswerSpan, window: TokenWindow) -> tuple[int, int] | None:
    """Return the first and the last token of an answer; None in a window that does not have all of it."""
    starts, ends = window.marks.T
    begin = answer.start + len(answer.text) - len(answer.text.lstrip())
    end = answer.start + len(answer.text.rstrip())
    is_candidate = starts >= 0
    after, before = np.flatnonzero(is_candidate & (ends > begin)), np.flatnonzero(is_candidate & (starts < end))
    is_whole = window.bounds[0] <= begin and end <= window.bounds[1]
    if is_whole and len(after) and len(before) and after[0] <= before[-1]:
        return int(after[0]), int(before[-1])
    return None


def _texts(label: Sequence[AnswerSpan]) -> list[str]:
    return [answer.text for answer in label]


def _figures(predicted: Sequence[str], labels: Array) -> dict[str, Metric]:
    if len(predicted) != len(labels):
        raise DataError(f"{len(labels)} labels for {len(predicted)} rows: give one label per row")
    pairs = np.array([answer_scores(text, _texts(label)) for text, label in zip(predicted, labels, strict=True)])
    exact, f1 = pairs.reshape(-1, 2).T
    return {"f1": metric.mean_of("f1", f1), "exact_match": metric.mean_of("exact_match", exact)}
