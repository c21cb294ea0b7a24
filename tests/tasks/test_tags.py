"""The task `tags`: labels as lists, their ids, loss, predictions and storage."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from task_checks import through_json

from attribune.errors import ConfigError, DataError
from attribune.metrics.bootstrap import interval
from attribune.tasks import Tags, fit_task
from attribune.tasks.labels import UNSEEN
from attribune.tasks.tokens import TokenRow, TokenWindow, object_array

TASK = Tags(classes=["O", "B-PER", "I-PER"], scheme="conll")


def test_cells_are_lists_or_text() -> None:
    cells = [["O", "B-PER"], "O  B-PER", np.array(["O", "B-PER"], dtype=object), '["O", "B-PER"]', ("O", " B-PER ")]
    labels, keep = TASK.encode_labels([cells])
    assert list(labels) == [(0, 1)] * 5
    assert keep.all()
    labels, keep = TASK.encode_labels([[None, float("nan"), "", "NA", [], "I-PER"]])
    assert keep.tolist() == [False, False, False, False, True, True]
    assert list(labels) == [(), (), (), (), (), (2,)]


@pytest.mark.parametrize(
    ("tags", "words", "message"),
    [
        (["O"], [["a", "b"]], "row 4 has 2 words and 1 tags"),
        (["O O"], ["a b c"], "row 4 has 3 words and 2 tags"),
        ([["O", None]], [["a", "b"]], "row 4 has no tag for word 2"),
        ([["O", " "]], [["a", "b"]], "row 4 has no tag for word 2"),
        ([[["O"]]], [["a"]], "row 4: .* is a list of lists"),
        (['[["O"]]'], [["a"]], "row 4: .* is a list of lists"),
        ([{"a": 1}], [["a"]], "row 4"),
    ],
)
def test_cells_that_cannot_be(tags: list, words: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TASK.encode_labels([tags, words], first_row=4)


def test_unseen_tags_are_not_learned_and_count_as_wrong() -> None:
    labels, _ = TASK.encode_labels([[["O", "B-LOC", "I-PER"]]])
    assert labels[0][1] < UNSEEN
    window = TokenWindow(ids=[1, 2, 3, 4, 5], marks=np.array([-1, 0, 1, -1, 2]))
    assert TASK.window_labels(window, labels[0]).tolist() == [UNSEEN, 0, UNSEEN, UNSEEN, 2]
    assert TASK.unseen_labels([[["O", "B-LOC", "B-LOC"], ["x"], None]]) == {"B-LOC": 1, "x": 1}


def test_the_loss_is_the_mean_over_words() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 3, generator=generator)
    labels = torch.tensor([[UNSEEN, 1, 2], [0, UNSEEN, UNSEEN]])
    nats = -logits.log_softmax(dim=2)
    rows = [float(nats[0, 1, 1] + nats[0, 2, 2]), float(nats[1, 0, 0])]
    assert float(TASK.loss(logits, labels)) == pytest.approx(sum(rows) / 3, abs=1e-5)
    assert TASK.row_losses(logits, labels).tolist() == pytest.approx(rows, abs=1e-5)
    assert float(TASK.loss(logits, torch.full_like(labels, UNSEEN))) == 0


def test_rows_of_any_length_are_decoded_and_stored() -> None:
    generator = np.random.default_rng(3)
    logits = object_array([generator.normal(size=(size, 3)).astype(np.float32) for size in (2, 0, 5)])
    labels = object_array([(0, 1), (), (2, -512, 0, 1, 1)])
    columns = TASK.decode(logits).columns()
    assert [len(tags) for tags in columns["prediction"]] == [2, 0, 5]
    odds = np.exp(logits[2][1])
    assert columns["probability"][2][1] == pytest.approx(odds.max() / odds.sum(), abs=1e-6)
    assert columns["prediction"][2][1] == TASK.classes[int(odds.argmax())]
    stored = TASK.codec.packed({"rows": np.arange(3), "logits": logits, "labels": labels})
    assert {array.dtype.kind for array in stored.values()} <= {"i", "f"}
    again = TASK.codec.unpacked(stored)
    assert np.array_equal(again["labels"], labels)
    assert all(np.array_equal(one, other) for one, other in zip(again["logits"], logits, strict=True))
    nothing = TASK.codec.packed({"logits": TASK.empty_scores(0), "labels": object_array([])})
    assert len(TASK.codec.unpacked(nothing)["labels"]) == 0
    assert TASK.decode(TASK.empty_scores(0)).columns().keys() == columns.keys()


def test_windows_are_merged_word_by_word() -> None:
    marks = ([-1, 0, 1], [-1, -1, 2])
    windows = [TokenWindow(ids=[9, 1, 2], marks=np.array(one)) for one in marks]
    logits = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    parts = [TASK.window_scores(one, window) for one, window in zip(logits, windows, strict=True)]
    merged = TASK.row_scores(parts, TokenRow(windows=tuple(windows), words=3))
    assert np.array_equal(merged, logits[[0, 0, 1], [1, 2, 2]])


def test_metrics_have_intervals_over_rows_and_a_majority() -> None:
    labels = object_array([(0, 1, 2), (0, 0, 0), (1, 2, 0)] * 5)
    figures = TASK.majority(labels, labels)
    assert figures["accuracy"].value() == pytest.approx(5 / 9)
    assert figures["f1"].value() == 0
    bounds = interval(figures["accuracy"], resamples=500)
    assert bounds.low < 5 / 9 < bounds.high
    with pytest.raises(DataError, match="other numbers of words"):
        TASK.metrics(object_array([np.zeros((2, 3))]), object_array([(0,)]))
    with pytest.raises(DataError, match="not finite"):
        TASK.decode(object_array([np.full((2, 3), np.nan)]))


def test_a_task_goes_through_json() -> None:
    fitted = fit_task("tags", [[["O", "B-PER"], None, ["I-PER"]], [["a", "b"], ["c"], ["d"]]])
    assert (fitted.classes, fitted.main_metric) == (("B-PER", "I-PER", "O"), "f1")
    assert through_json(fitted) == fitted
    with pytest.raises(DataError, match="no labelled training row"):
        Tags.fit([[None, []]])
    with pytest.raises(ConfigError, match="scheme"):
        Tags(classes=["a", "b"], scheme="bio")
    with pytest.raises(ConfigError, match="one label column"):
        Tags.fit([[], [], []])


@pytest.mark.parametrize(
    ("tags", "named"),
    [
        (["O", "B-PER", "I-PER", "PER"], "'PER' (2 words)"),
        (["O", "B-PER", "o"], "'o' (2 words)"),
        (["O", "B-PER", "I-PER"], None),
        (["NOUN", "VERB", "X"], None),
    ],
)
def test_tags_that_keep_entities_from_being_counted_are_named(tags: list[str], named: str | None) -> None:
    rows = [tags, tags]
    task = Tags.fit([rows])
    notes = map(str, task.codec.class_notes(task.encode_labels([rows])[0]))
    found = [note for note in notes if "task.scheme=conll" in note]
    assert len(found) == (named is not None)
    assert named is None or f"the tags {named} have no form" in found[0]
    assert Tags.fit([rows], scheme="conll").main_metric == "f1"
