"""Labels that are distributions over classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from drawn_values import drawn_labels
from sklearn.linear_model import LogisticRegression
from task_checks import figures, through_json

from attribune.data.clusters import TEXT, judgement_metrics
from attribune.errors import AttribuneError, ConfigError, DataError
from attribune.models.linear import LinearModel
from attribune.models.word_features import LinearFeatures
from attribune.schema import Schema
from attribune.tasks import Classification, Ordinal, Rating, Task
from attribune.tasks.losses import row_soft_cross_entropy, share_weights

CELLS = ['{"no": 0.75, "yes": 0.25}', {"yes": np.float32(1), "no": None}, None, "", '{"yes": 0.66, "no": 0.33}']
STARS = ['{"1": 0.5, "2": 0.5}', '{"2": 0.25, "4": 0.75}', '{"10": 1}', '{"1": 0, "2": 1.0}']


def soft(**options: Any) -> Classification:
    return Classification.fit([CELLS], soft_labels=True, **options)


def test_labels_are_shares_of_the_classes() -> None:
    task = soft()
    assert task.classes == ("no", "yes")
    labels, keep = task.encode_labels([CELLS])
    assert labels.dtype == np.float32
    np.testing.assert_allclose(labels, [[0.75, 0.25], [0, 1], [0, 0], [0, 0], [1 / 3, 2 / 3]])
    assert keep.tolist() == [True, True, False, False, True]
    assert (task.main_metric, task.higher_is_better) == ("cross_entropy", False)
    assert through_json(task) == task
    assert "soft_labels" not in Classification(classes=2).to_dict()
    assert task.unseen_labels([CELLS]) == {}


@pytest.mark.parametrize("kind", [Rating, Ordinal])
def test_those_of_ordered_numbers_are_sorted_as_numbers(kind: type[Rating]) -> None:
    task = kind.fit([STARS], soft_labels=True)
    assert task.classes == ("1", "2", "4", "10")
    labels, _ = task.encode_labels([['{"4.0": 0.5, "10.00": 0.5}', *STARS]])
    assert labels[0].tolist() == [0, 0, 0.5, 0.5]
    if isinstance(task, Ordinal):
        below = (labels[1:].sum(axis=0) + 0.5).cumsum()[:-1] / (labels[1:].sum() + 2)
        np.testing.assert_allclose(task.cut_points, np.log(below / (1 - below)), atol=1e-6)
    with pytest.raises(ConfigError, match=r"the ratings \['x'\] are not numbers"):
        kind.fit([[*STARS, '{"x": 1}']], soft_labels=True)


def test_the_loss_is_that_of_a_slow_loop() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(13, 5, generator=generator, dtype=torch.float64) * 4
    shares = torch.rand(13, 5, generator=generator, dtype=torch.float64)
    shares = shares / shares.sum(dim=1, keepdim=True)
    for weights in (None, (0.5, 2.0, 1.0, 3.0, 0.1)):
        found = row_soft_cross_entropy(logits, shares, weights)
        counts = share_weights(shares, weights)
        for row in range(13):
            total = math.fsum(math.exp(float(x)) for x in logits[row])
            loss = count = 0.0
            for answer in range(5):
                c = 1.0 if weights is None else weights[answer]
                loss -= c * float(shares[row, answer]) * (float(logits[row, answer]) - math.log(total))
                count += c * float(shares[row, answer])
            assert (float(found[row]), float(counts[row])) == pytest.approx((loss, count), rel=1e-10)


@pytest.mark.parametrize("weights", [None, (0.5, 1.0, 4.0)])
def test_a_distribution_that_has_one_class_is_its_label(weights: tuple[float, ...] | None) -> None:
    logits, ids = torch.randn(7, 3), torch.tensor([0, 1, 2, 2, 1, 0, 0])
    plain = Classification(classes=3, class_weights=weights)
    task = Classification(classes=3, class_weights=weights, soft_labels=True)
    shares = torch.nn.functional.one_hot(ids, 3).float()
    torch.testing.assert_close(task.loss(logits, shares), plain.loss(logits, ids))
    torch.testing.assert_close(task.row_losses(logits, shares), plain.row_losses(logits, ids))
    found = figures(task.metrics(logits.numpy(), shares.numpy()))
    assert found.items() >= figures(plain.metrics(logits.numpy(), ids.numpy())).items()
    assert list(found)[:3] == ["cross_entropy", "manhattan", "jensen_shannon"]
    drawn = drawn_labels(task, logits, torch.Generator().manual_seed(0))
    assert drawn.argmax(dim=1).tolist() == drawn_labels(plain, logits, torch.Generator().manual_seed(0)).tolist()
    half = logits.bfloat16().requires_grad_()
    loss = task.loss(half, shares)
    loss.backward()
    assert loss.dtype == torch.float32
    assert half.grad.isfinite().all()


def test_the_loss_of_shares_is_that_of_the_judgements_behind_them() -> None:
    """Weighted by their number: what is learned of a text is the same, whichever form its answers have."""
    logits, counts = torch.randn(2, 3), torch.tensor([[2.0, 1, 0], [1, 1, 3]])
    task, single = Classification(classes=3, soft_labels=True), Classification(classes=3)
    shares, judges = counts / counts.sum(dim=1, keepdim=True), counts.sum(dim=1)
    rows = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1])
    answers = torch.tensor([0, 0, 1, 0, 1, 2, 2, 2])
    torch.testing.assert_close(task.weighted_loss(logits, shares, judges), single.loss(logits[rows], answers))


def test_of_a_tie_each_answer_counts_as_right() -> None:
    task = Classification(classes=3, soft_labels=True)
    shares = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [0.2, 0.2, 0.6]], dtype=np.float32)
    logits = np.array([[2.0, 1, 0], [1, 2, 0], [0, 1, 2], [2, 1, 0]])
    assert task.codec.true_classes(shares, logits).tolist() == [0, 1, 1, 2]
    assert task.metrics(logits, shares)["accuracy"].value() == 0.5
    cells = ['{"a": 0.5, "b": 0.5}', '{"a": 0.6, "b": 0.4}', None]
    notes = Classification.fit([cells], soft_labels=True).codec.notes([cells])
    assert notes == ["1 of 2 labels have several most frequent classes, each of which counts as right"]


def test_the_prior_is_the_mean_of_the_shares() -> None:
    shares = np.array([[0.5, 0.5], [1.0, 0.0]], dtype=np.float32)
    tasks: list[Task] = [Classification(classes=2, soft_labels=True), Rating(classes=("1", "2"), soft_labels=True)]
    for task in tasks:
        np.testing.assert_allclose(np.exp(task.prior(shares)), [0.75, 0.25])
        majority = task.majority(shares, shares)["cross_entropy"].value()
        assert majority == pytest.approx(-(1.5 * math.log(0.75) + 0.5 * math.log(0.25)) / 2)


def test_balanced_class_weights_are_those_of_the_shares() -> None:
    assert soft(class_weights="balanced").class_weights == pytest.approx((3 / 2 / (13 / 12), 3 / 2 / (23 / 12)))
    with pytest.raises(DataError, match="no training row has the class 'c'"):
        Classification.fit([['{"a": 1, "b": 0, "c": 0}', '{"b": 1}']], soft_labels=True, class_weights="balanced")


def test_metrics_of_ordered_answers_have_the_distance_on_the_scale() -> None:
    task = Ordinal.fit([STARS], soft_labels=True, score_by="wasserstein")
    labels, _ = task.encode_labels([STARS])
    logits = np.log(np.maximum(labels, 1e-9))
    found = figures(task.metrics(logits, labels))
    names = ["wasserstein", "cross_entropy", "manhattan", "jensen_shannon", "rmse", "mae", "kappa", "accuracy"]
    assert list(found) == names
    assert found["wasserstein"] == pytest.approx(0, abs=1e-6)
    assert found["accuracy"] == 1
    shifted = task.metrics(np.roll(logits, 1, axis=1), labels)
    assert shifted["wasserstein"].value() == pytest.approx((1.5 + 5 + 9 + 2) / 4, abs=1e-5)


def test_rows_of_shares_have_no_metrics_of_single_judgements() -> None:
    shares = np.full((4, 2), 0.5, dtype=np.float32)
    clusters = {TEXT: np.array([1, 1, 2, 2], dtype=np.uint64)}
    assert judgement_metrics(Classification(classes=2, soft_labels=True), np.zeros((4, 2)), shares, clusters) == {}


def test_the_linear_baseline_learns_shares() -> None:
    """As scikit-learn learns a row of each answer with its share for a weight."""
    texts = ["good film", "bad film", "good", "bad bad", "film"]
    cells = [f'{{"a": {share}, "b": {1 - share}}}' for share in (0.9, 0.2, 0.75, 0.0, 0.5)]
    task = Classification.fit([cells], soft_labels=True)
    labels, _ = task.encode_labels([cells])
    none, ids = Schema.fit({"text": texts}, []), np.zeros((5, 0), dtype=np.int64)
    features = LinearFeatures.fit(texts, none, max_features=100)
    matrix = features.transform(texts, ids).toarray()
    model = LinearModel.from_matrix(features, matrix, labels=labels, task=task, C=1.0, weights=np.arange(1, 6))
    weights = (labels * np.arange(1, 6)[:, None]).T.reshape(-1)
    expected = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(
        np.vstack([matrix, matrix]), [0] * 5 + [1] * 5, sample_weight=weights
    )
    np.testing.assert_allclose(model.weight[:, 1] - model.weight[:, 0], expected.coef_[0], atol=1e-3)
    np.testing.assert_allclose(model.bias[1] - model.bias[0], expected.intercept_[0], atol=1e-3)


HOSTILE = {
    "a label": ("yes", "is 'yes', not a distribution: give an object of shares that sum to 1"),
    "a number": (0.5, "is '0.5', not a distribution"),
    "a list": ([0.5, 0.5], "is '[0.5, 0.5]', not a distribution"),
    "JSON that is no object": ("[0.5, 0.5]", "not a distribution"),
    "half an object": ('{"yes": 0.5', "not a distribution"),
    "too deep": ("[" * 100_000, "not a distribution"),
    "empty": ("{}", "is an empty distribution"),
    "nothing but null": ({"yes": None}, "is an empty distribution"),
    "too little": ('{"yes": 0.5, "no": 0.4}', "has shares that sum to 0.9, and not to 1"),
    "too much": ('{"yes": 1, "no": 0.25}', "has shares that sum to 1.25, and not to 1"),
    "counts": ('{"yes": 3, "no": 1}', "gives the class 'yes' the share 3, not one from 0 to 1"),
    "nothing": ('{"yes": 0, "no": 0}', "has shares that sum to 0, and not to 1"),
    "negative": ('{"yes": 1.5, "no": -0.5}', "gives the class 'yes' the share 1.5, not one from 0 to 1"),
    "below zero": ('{"no": -0.5, "yes": 1.0}', "gives the class 'no' the share -0.5, not one from 0 to 1"),
    "NaN": ('{"yes": NaN, "no": 1}', "gives the class 'yes' the share nan, not one from 0 to 1"),
    "infinite": ('{"yes": Infinity}', "the share inf"),
    "text": ('{"yes": "1"}', "gives the class 'yes' the share 1, not one from 0 to 1"),
    "true": ('{"yes": true}', "the share True"),
    "nested": ('{"yes": {"a": 1}}', "the share [('a', 1)], not one from 0 to 1"),
    "twice": ('{"yes": 0.5, "yes": 0.5}', "names the class 'yes' twice"),
    "twice but for spaces": ('{"yes": 0.5, " yes": 0.5}', "names the class 'yes' twice"),
    "without a name": ('{"": 1}', "has a class without a name"),
}


@pytest.mark.parametrize("kind", list(HOSTILE))
def test_a_cell_that_is_no_distribution_is_named_with_its_row(kind: str) -> None:
    cell, message = HOSTILE[kind]
    for column in ([cell], [CELLS[0], cell]):
        with pytest.raises(DataError, match=f"the label of row {len(column)} ") as error:
            soft().encode_labels([column])
        assert message in str(error.value)
    with pytest.raises(DataError, match="the label of row 2 "):
        Classification.fit([[CELLS[0], cell]], soft_labels=True)


def test_an_unknown_class_is_an_error_unless_it_has_no_share() -> None:
    with pytest.raises(DataError) as error:
        soft().encode_labels([['{"yes": 1}', '{"yes": 0.5, "perhaps": 0.5}']], first_row=6)
    assert str(error.value) == (
        "the label of row 7 gives the share 0.5 to 'perhaps', which is not among the classes ('no', 'yes'): name all "
        "of them with task.classes"
    )
    assert soft().encode_labels([['{"yes": 1, "perhaps": 0}']])[0].tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multi_label": True}, "leave multi_label or them out"),
        ({"soft_labels": "yes"}, "soft_labels is 'yes': give true or false"),
        ({"score_by": "log_loss"}, "score_by is ['log_loss']"),
        ({"classes": ["a"]}, "at least 2 are needed"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AttribuneError) as error:
        Classification.fit([CELLS], **{"soft_labels": True, **options})
    assert message in str(error.value)
