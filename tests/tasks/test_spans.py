"""The task `spans`: answers in cells, targets of windows, the search for answers, and its threshold."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from task_checks import through_json

from attribune.errors import ConfigError, DataError
from attribune.tasks import Spans, fit_task
from attribune.tasks.labels import UNSEEN
from attribune.tasks.spans import NULL, AnswerSpan, Candidate, SpanScores
from attribune.tasks.tokens import TokenRow, TokenWindow, object_array

CONTEXT = "the cat sat on the mat"
TASK = Spans()


def answers(*cells: object, context: object = CONTEXT) -> tuple[AnswerSpan, ...]:
    labels, keep = TASK.encode_labels([[cell] for cell in (*cells, context)])
    assert keep.all()
    return labels[0]


def test_cells_of_every_form_are_read() -> None:
    place = {"text": "cat", "answer_start": 4}
    squad = {"text": ["cat"], "answer_start": [4]}
    arrays = {"text": np.array(["cat"], dtype=object), "answer_start": np.array([4])}
    one_column = [squad, json.dumps(squad), place, arrays, [place], json.dumps([place]), {"text": ["cat"]}, "cat"]
    several = [["cat", "4"], ["cat", 4.0], ["cat", None, False], [["cat"], [4], "false"]]
    for cells in [*([cell] for cell in one_column), *several]:
        assert answers(*cells) == (AnswerSpan("cat", 4),), cells
    two = {"text": ["cat", "mat"], "answer_start": [4, 19]}
    assert answers(two) == (AnswerSpan("cat", 4), AnswerSpan("mat", 19))
    for cells in ([{"text": [], "answer_start": []}], ["[]"], [[]], ["cat", 4, True], [None, None, "1"]):
        assert answers(*cells) == (), cells
    labels, keep = TASK.encode_labels([[None, float("nan"), " ", "NA"], [CONTEXT] * 4])
    assert not keep.any()
    assert list(labels) == [()] * 4


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["dog"], r"the answer of row 3, 'dog', is in the text 0 times: correct answer_start"),
        (["the"], r"'the', is in the text 2 times"),
        (["the", -1], r"'the', is in the text 2 times, and not at -1"),
        (["the", 10**9], r"and not at 1,000,000,000"),
        ([{"text": ["cat", "mat"], "answer_start": [4]}], "there are 2 texts and 1 starts"),
        ([{"answer_start": [4]}], "there is no text"),
        ([{"text": [7], "answer_start": [4]}], "7 is not text"),
        ([{"text": [""], "answer_start": [4]}], "'' is not text"),
        (["cat", "four"], "cannot be read"),
        (["cat", float("inf")], "cannot be read"),
        (["cat", 4, "perhaps"], "'perhaps' does not say"),
        ([None, None, "false"], "there is no answer, and the row is not marked as unanswerable"),
        (["", 4], "there is no answer, and the row is not marked as unanswerable"),
    ],
)
def test_answers_that_cannot_be(cells: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        TASK.encode_labels([[cell] for cell in (*cells, CONTEXT)], first_row=3)


def test_answers_elsewhere_are_found_and_counted() -> None:
    cells = [{"text": ["cat"], "answer_start": [start]} for start in (4, 5, 4 - len(CONTEXT), 400)]
    labels, _ = TASK.encode_labels([cells, [CONTEXT] * 4])
    assert list(labels) == [(AnswerSpan("cat", 4),)] * 4
    (note,) = TASK.codec.notes([cells, [CONTEXT] * 4])
    assert note.startswith("3 answers are not where their row says")
    assert TASK.codec.notes([cells[:1], [CONTEXT]]) == []


def test_fitting_finds_out_whether_all_have_answers() -> None:
    none, some = {"text": [], "answer_start": []}, {"text": ["cat"], "answer_start": [4]}
    assert not fit_task("spans", [[some, some], [CONTEXT] * 2]).unanswerable
    task = fit_task("spans", [[some, none], [CONTEXT] * 2], n_best=3)
    assert task.unanswerable
    assert through_json(task) == task
    with pytest.raises(DataError, match="no training row has an answer"):
        Spans.fit([[none], [CONTEXT]])
    with pytest.raises(ConfigError, match="max_answer_length is 0"):
        Spans(max_answer_length=0)
    with pytest.raises(ConfigError, match="1 to 3 label columns and the context"):
        Spans.fit([[some]])


def window(first: int, last: int, *, tokens: int = 6) -> TokenWindow:
    """Tokens `first` to `last` of six letters with a space after each; [CLS] and a question are before."""
    places = [(2 * number, 2 * number + 1) for number in range(first, last + 1)]
    bounds = (max(0, 2 * first - 1), 2 * last + 2 if last + 1 < tokens else 2 * tokens)
    marks = np.array([(NULL, NULL), (-1, -1), *places, (-1, -1)])
    return TokenWindow(ids=list(range(len(marks))), marks=marks, bounds=bounds)


@pytest.mark.parametrize(
    ("label", "first", "last", "begin", "end"),
    [
        ([("c", 4)], 0, 5, 4, 4),
        ([("b c", 2)], 0, 5, 3, 4),
        ([(" b c ", 1)], 0, 5, 3, 4),
        ([("b c", 2)], 1, 2, 2, 3),
        ([("b c", 2)], 2, 4, 0, 0),  # begins before the window
        ([("b c", 2)], 0, 1, 0, 0),  # ends behind it
        ([("f", 10)], 3, 5, 4, 4),
        ([], 0, 5, 0, 0),
        ([("c", 4), ("a", 0)], 0, 5, 4, 4),  # the first is learned
    ],
)
def test_targets_of_windows(label: list, first: int, last: int, begin: int, end: int) -> None:
    found = TASK.window_labels(window(first, last), [AnswerSpan(*one) for one in label])
    assert found.tolist()[1] == found.tolist()[-1] == UNSEEN
    assert [int(np.flatnonzero((found >= 0) & (found & bit > 0))[0]) for bit in (1, 2)] == [begin, end]
    assert (found[found >= 0]).sum() == 3


def test_the_loss_is_over_the_tokens_that_may_be() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 5, 2, generator=generator, dtype=torch.float64)
    labels = torch.tensor([[0, UNSEEN, 1, 2, UNSEEN], [3, UNSEEN, 0, UNSEEN, UNSEEN]])
    nats = []
    for row, targets in enumerate([(2, 3), (0, 0)]):
        allowed = [place for place in range(5) if labels[row, place] != UNSEEN]
        for column, target in enumerate(targets):
            nats.append(float(logits[row, allowed, column].logsumexp(0) - logits[row, target, column]))
    assert float(TASK.loss(logits, labels)) == pytest.approx(sum(nats) / 4, abs=1e-6)
    assert TASK.row_losses(logits, labels).tolist() == pytest.approx([sum(nats[:2]), sum(nats[2:])], abs=1e-6)
    logits.requires_grad_(True)
    TASK.loss(logits, labels).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[labels == UNSEEN] == 0).all()


@pytest.mark.parametrize("longest", [1, 2, 3, 30])
def test_the_search_is_that_of_brute_force(longest: int) -> None:
    chance, text = np.random.default_rng(longest), "a b c d e f "
    for count in (1, 4, 50):
        task = Spans(max_answer_length=longest, n_best=count)
        windows = [window(0, 3), window(1, 4), window(2, 5)]
        logits = [chance.normal(size=(len(one.ids), 2)) for one in windows]
        parts = [task.window_scores(scores, one) for scores, one in zip(logits, windows, strict=True)]
        found = task.row_scores(parts, TokenRow(windows=tuple(windows), text=text))
        expected: dict[tuple[int, int], float] = {}
        for scores, one in zip(logits, windows, strict=True):
            places = [place for place, (start, _) in enumerate(one.marks) if start >= 0]
            for i, j in itertools.product(places, places):
                if i <= j < i + longest:
                    span = int(one.marks[i, 0]), int(one.marks[j, 1])
                    expected[span] = max(expected.get(span, -np.inf), scores[i, 0] + scores[j, 1])
        ordered = sorted(expected.items(), key=lambda item: -item[1])[:count]
        assert [(one.start, one.end) for one in found.best] == [span for span, _ in ordered]
        assert [one.score for one in found.best] == pytest.approx([score for _, score in ordered], abs=1e-12)
        assert [one.text for one in found.best] == [text[start:end] for (start, end), _ in ordered]
        assert found.null == pytest.approx(min(scores[0].sum() for scores in logits), abs=1e-12)


def test_scores_that_are_no_numbers_are_told() -> None:
    windows = [window(0, 3), window(2, 5)]
    for order in (windows, windows[::-1]):
        logits = [np.full((len(one.ids), 2), np.nan if one is windows[1] else 1.0) for one in order]
        parts = [TASK.window_scores(scores, one) for scores, one in zip(logits, order, strict=True)]
        scores = TASK.row_scores(parts, TokenRow(windows=tuple(order), text="a b c d e f "))
        with pytest.raises(DataError, match="not finite"):
            TASK.metrics(object_array([scores]), object_array([()]))


def test_a_context_without_tokens_has_no_answer() -> None:
    empty = TokenWindow(ids=[0, 1], marks=np.array([(NULL, NULL), (-1, -1)]))
    scores = TASK.row_scores([TASK.window_scores(np.ones((2, 2)), empty)], TokenRow(windows=(empty,)))
    assert scores == SpanScores(2.0, ())
    columns = TASK.decode(object_array([scores])).columns()
    assert (columns["prediction"], columns["start"].tolist()) == ([""], [-1])
    assert TASK.window_labels(empty, [AnswerSpan("x", 0)]).tolist() == [3, UNSEEN]


def row(difference: float, text: str = "cat") -> SpanScores:
    return SpanScores(difference, (Candidate(0.0, 4, 4 + len(text), text), Candidate(-1.0, 0, 3, "the")))


def test_none_is_answered_where_it_scores_higher() -> None:
    scores = object_array([row(-2.0), row(0.5), row(3.0)])
    assert TASK.decode(scores).predictions["prediction"] == ["cat"] * 3
    task = Spans(unanswerable=True, null_score_diff_threshold=1.0, list_n_best=True)
    columns = task.decode(scores).columns()
    assert columns["prediction"] == ["cat", "cat", ""]
    assert (columns["start"].tolist(), columns["score"].tolist()) == ([4, 4, -1], [2.0, -0.5, -3.0])
    assert [one["text"] for one in json.loads(columns["n_best"][1])] == ["cat", "the"]
    labels = object_array([(AnswerSpan("cat", 4),), (), ()])
    found = task.metrics(scores, labels)
    assert list(found) == ["f1", "exact_match"]
    assert found["exact_match"].value() == task.majority(labels, labels)["f1"].value() == pytest.approx(2 / 3)
    for damaged in (row(float("nan")), SpanScores(0.0, (Candidate(float("inf"), 4, 7, "cat"),))):
        with pytest.raises(DataError, match="not finite"):
            task.decode(object_array([damaged]))
    assert task.decode(task.empty_scores(0)).columns().keys() == columns.keys()


def test_the_threshold_is_the_best_of_all() -> None:
    chance, task = np.random.default_rng(7), Spans(unanswerable=True)
    for _ in range(40):
        count = int(chance.integers(1, 9))
        differences = chance.integers(-3, 4, size=count).astype(float)
        labels = object_array([(AnswerSpan("cat", 4),) if chance.random() < 0.5 else () for _ in range(count)])
        scores = object_array([row(float(one)) for one in differences])
        tried = [
            Spans(unanswerable=True, null_score_diff_threshold=at).metrics(scores, labels)["f1"].value()
            for at in np.arange(-4, 5) + 0.5
        ]
        tuned = task.tuned(scores, labels)
        assert tuned.metrics(scores, labels)["f1"].value() == max(tried)
        assert tuned.null_score_diff_threshold not in differences
    assert task.tuned(object_array([SpanScores(1.0, ())]), object_array([()])) == task
    assert Spans().tuned(scores, labels) == Spans()


def test_scores_and_answers_are_stored() -> None:
    logits = object_array([row(1.5, "c\u00e4t \U0001f600"), SpanScores(0.25, ())])
    labels = object_array([(AnswerSpan("cat", 4), AnswerSpan("the", 0)), ()])
    stored = TASK.codec.packed({"rows": np.arange(2), "logits": logits, "labels": labels})
    assert stored["logits"].dtype == np.uint8
    again = TASK.codec.unpacked(stored)
    assert list(again["logits"]) == list(logits)
    assert np.array_equal(again["labels"], labels)
