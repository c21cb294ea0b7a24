"""The task that compares vectors: what rows have, the ranks and the correlations, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from task_checks import figures, through_json

from attribune.errors import ConfigError, DataError
from attribune.metrics import formulas
from attribune.tasks import Similarity, fit_task
from attribune.tasks.base import validation_score

QUERIES = ["cats", "dogs", "cats", "fish", "birds"]
FOUND = ["on cats", "on dogs", "on cats ", "on fish", "on birds"]
OTHERS = ["on dogs", "on cats", "on fish", "on birds", "on cats"]
SIZE = 6


def fitted(columns: Sequence[Sequence[Any]], form: str, **options: Any) -> Similarity:
    task = fit_task("similarity", columns, form=form, **options)
    assert isinstance(task, Similarity)
    return task


def test_pairs_have_the_numbers_of_their_second_texts() -> None:
    task = fitted([QUERIES, FOUND], "pairs")
    labels, is_usable = task.encode_labels([[*QUERIES, "a", "b", "c", None], [*FOUND, " ", None, "c ", "d"]])
    assert is_usable.tolist() == [True] * 5 + [False] * 4, "nothing is learned of a text that is missing or is the same"
    assert labels.dtype == np.int64
    assert labels.min() >= 0
    assert labels[0] == labels[2], "texts are trimmed"
    assert len({*labels[:5].tolist()}) == 4
    assert task.codec.notes([[*QUERIES, "a"], [*FOUND, "a "]]) == ["1 row has the same text twice and is left out"]


def test_triplets_need_texts_that_differ() -> None:
    task = fitted([QUERIES, FOUND, OTHERS], "triplets")
    labels, is_usable = task.encode_labels([["a", "b", "a", ""], ["x", "y", "a", "x"], ["y", "y ", "x", "z"]])
    assert is_usable.tolist() == [True, False, True, False]
    assert labels.tolist() == [0] * 4
    assert task.codec.notes([["a"], ["x"], ["x"]]) == ["1 row has the same text twice and is left out"]


def test_scores_are_cosines() -> None:
    task = fitted([["0.5", 1, -1, 0, ""], QUERIES, FOUND], "scores")
    labels, is_usable = task.encode_labels([[0.25, None, -1, 1], ["a", "b", "", "c"], ["x", "y", "z", "c"]])
    assert labels.dtype == np.float32
    assert labels[[0, 2, 3]].tolist() == [0.25, -1, 1]
    assert is_usable.tolist() == [True, False, False, True], "equal texts may have a score"
    assert task.encode_labels([[0.25, "nan"]])[1].tolist() == [True, False], "scores alone"
    assert task.unseen_labels([[0.7]]) == {}
    columns = [[0.5, "4.5", "high", "", -1.01], ["a"] * 5, ["b"] * 5]
    assert Similarity.codec_for({"form": "scores"}).outside(columns).tolist() == [False, True, True, False, True]
    assert not Similarity.codec_for({"form": "pairs"}).outside([["high"], ["b"]]).any()


def test_ranks_are_those_among_the_distinct_positives(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    anchors, positives = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in chance.normal(size=(2, 5, SIZE)))
    positives[2] = positives[0]
    task = fitted([QUERIES, FOUND], "pairs").with_vector_size(SIZE)
    labels = task.encode_labels([QUERIES, FOUND])[0]
    documents = dict(zip(labels.tolist(), positives, strict=True))
    ranks = []
    for anchor, label in zip(anchors, labels.tolist(), strict=True):
        cosines = {one: float(anchor @ document) for one, document in documents.items()}
        ranks.append(1 + sum(cosine > cosines[label] for cosine in cosines.values()))
    logits = np.concatenate([anchors, positives], axis=1)
    for cells in (2**22, 5):  # of several blocks
        monkeypatch.setattr(formulas, "_CELLS", cells)
        found = figures(task.metrics(logits, labels))
        assert list(found) == ["mrr", "recall_at_1", "recall_at_5", "recall_at_10"]
        assert found["mrr"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
        assert found["recall_at_1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
        assert found["recall_at_5"] == 1
    assert max(ranks) > 1
    assert task.decode(logits).predictions["prediction"] == pytest.approx((anchors * positives).sum(axis=1))


def test_equal_cosines_count_as_a_draw_of_their_order() -> None:
    task = fitted([QUERIES, FOUND], "pairs")
    labels = task.encode_labels([QUERIES, FOUND])[0]
    chance = figures(task.majority(labels, labels))
    expected = {"mrr": (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, "recall_at_1": 1 / 4, "recall_at_5": 1, "recall_at_10": 1}
    assert chance == pytest.approx(expected)
    triplets = fitted([QUERIES, FOUND, OTHERS], "triplets")
    assert triplets.majority(labels, np.zeros(5))["accuracy"].value() == 0.5


def test_metrics_of_scores_and_triplets() -> None:
    task, chance = fitted([[0, 0.5, 1, 1, 0.25], QUERIES, FOUND], "scores"), np.random.default_rng(1)
    true, cosines = chance.uniform(-1, 1, 40).astype(np.float32), chance.uniform(-1, 1, (40, 1))
    found = figures(task.metrics(cosines, true))
    assert list(found) == ["spearman", "pearson", "rmse"]
    assert found["spearman"] == pytest.approx(spearmanr(true, cosines[:, 0]).statistic)
    assert found["pearson"] == pytest.approx(pearsonr(true, cosines[:, 0]).statistic)
    assert found["rmse"] == pytest.approx(np.sqrt(np.square(true - cosines[:, 0]).mean()))
    assert task.prior(true) == pytest.approx([true.mean()])
    by_error = fitted([[0, 0.5, 1], QUERIES[:3], FOUND[:3]], "scores", score_by="rmse")
    assert (by_error.main_metric, by_error.higher_is_better) == ("rmse", False)
    assert next(iter(by_error.metrics(cosines, true))) == "rmse"
    triplets = fitted([QUERIES, FOUND, OTHERS], "triplets")
    cosines = np.array([[0.5, 0.1], [0.1, 0.5], [0.2, 0.2], [0.9, -0.9]])
    assert triplets.metrics(cosines, np.zeros(4))["accuracy"].value() == 2.5 / 4
    assert triplets.decode(cosines).predictions["prediction"].tolist() == [0.5, 0.1, 0.2, 0.9]


COLUMNS: dict[str, list[list[Any]]] = {
    "pairs": [QUERIES, FOUND],
    "triplets": [QUERIES, FOUND, OTHERS],
    "scores": [[0.5, 1, -1, 0, 0.2], QUERIES, FOUND],
}


@pytest.mark.parametrize("form", COLUMNS)
def test_settings_are_compared_by_the_main_metric(form: str) -> None:
    """Labels of pairs and triplets are whole numbers, but no classes."""
    task = fitted(COLUMNS[form], form).with_vector_size(SIZE)
    labels, _ = task.encode_labels(COLUMNS[form])
    logits = np.random.default_rng(0).normal(size=(len(labels), task.outputs))
    expected = -task.metrics(logits, labels)[task.main_metric].value()
    assert validation_score(task, logits, labels) == expected


def test_weights_count_as_repeated_rows() -> None:
    task, generator = Similarity(form="triplets"), torch.Generator().manual_seed(0)
    cosines = torch.rand(4, 2, generator=generator)
    labels, weights = torch.zeros(4, dtype=torch.long), torch.tensor([1.0, 3.0, 0.0, 2.0])
    repeated = cosines.repeat_interleave(weights.long(), dim=0)
    found = task.weighted_loss(cosines, labels, weights)
    torch.testing.assert_close(found, task.loss(repeated, torch.zeros(6, dtype=torch.long)))
    scores = Similarity(form="scores")
    missing = torch.tensor([0.5, float("nan")])
    assert float(scores.loss(torch.tensor([[0.1], [0.9]]), missing)) == pytest.approx(0.16)
    assert scores.row_counts(missing).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("pairs", {"scale": 5.0, "text_attributes": ["user"]}),
        ("triplets", {"margin": 1.5, "pair_attributes": "item"}),
        ("scores", {"score_by": ["pearson"]}),
    ],
)
def test_a_round_trip_through_json(form: str, options: dict[str, Any]) -> None:
    task = fitted(COLUMNS[form], form, **options).with_vector_size(SIZE)
    again = through_json(task)
    assert again == task
    assert again.head.texts == (3 if form == "triplets" else 2)
    assert again.empty_scores(3).shape == (3, {"pairs": 2 * SIZE, "triplets": 2, "scores": 1}[form])


PAIRS, TRIPLETS = COLUMNS["pairs"], COLUMNS["triplets"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (PAIRS, {}, "the task 'similarity' needs form: give it"),
        (PAIRS, {"form": "rows"}, "form is 'rows': choose one of scores, pairs, triplets"),
        (PAIRS, {"form": "scores"}, "takes for scores a column of scores, perhaps with .* given 2: name these"),
        (PAIRS[:1], {"form": "pairs"}, "for pairs the columns of both texts and of pair_attributes, and was given 1"),
        (PAIRS, {"form": "triplets"}, "takes for triplets the columns of the text, the positive and the negative"),
        (PAIRS, {"form": "pairs", "margin": 0.1}, "margin is for triplets, and the rows are pairs"),
        (TRIPLETS, {"form": "triplets", "scale": 2.0}, "scale is for pairs, and the rows are triplets"),
        (PAIRS, {"form": "pairs", "scale": 0.0}, "scale"),
        (PAIRS, {"form": "pairs", "score_by": "spearman"}, "a similarity of pairs has the metrics mrr"),
        (PAIRS, {"form": "pairs", "pair_attributes": 3}, "the attributes of a text are 3: give a list"),
        ([QUERIES, ["same"] * 5], {"form": "pairs"}, "every training row has the same second text"),
        ([QUERIES, QUERIES], {"form": "pairs"}, "no training row can be used"),
        ([QUERIES, FOUND, FOUND], {"form": "triplets"}, "no training row can be used"),
        ([[0.5] * 5, QUERIES, FOUND], {"form": "scores"}, "every training row has the same score"),
        ([[0.5, 4, 1, 0, 0], QUERIES, FOUND], {"form": "scores"}, "the score of row 2 is 4; .* divide others by their"),
        ([["high", 1, 1, 0, 0], QUERIES, FOUND], {"form": "scores"}, "the label of row 1 is 'high'"),
    ],
)
def test_hostile_rows(columns: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        fit_task("similarity", columns, **options)
