"""The page of a run, and the figures behind its sentences."""

from __future__ import annotations

import functools
import json
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
import small_runs
from commands import Outcome
from datasets import Dataset
from sklearn.metrics import precision_recall_fscore_support
from trained_runs import ROWS, TrainedRuns

from attribune.analysis.diagnostics import (
    Calibration,
    ScoredRows,
    ValueFigure,
    calibration,
    class_figures,
    heads,
    largest_mistakes,
    random_row_range,
    row_bins,
    value_figures,
)
from attribune.analysis.run_rows import RunRows, rows_of_run
from attribune.apps.cli import main
from attribune.apps.report.run_page import _training, _training_loss, run_page
from attribune.core.checksums import CHECKSUMS
from attribune.metrics.formulas import mean_of, spearman
from attribune.schema import Categorical, Schema
from attribune.tasks import Aspects, Classification, Rating, Regression, Similarity, Task

TAKEN, WRONG, SURE = "Confusion matrix", "Largest mistakes", "Calibration"
TEST = small_runs.reviews(420, seed=5)[200:]
NEW = [row | {"user": f"n{row['user']}"} for row in small_runs.reviews(60, seed=5)]
"""Rows of values that no training row has."""
Runs = Callable[[str], Path]


@pytest.fixture(scope="module")
def data(trained_runs: TrainedRuns) -> Path:
    """The test rows."""
    return trained_runs.table(TEST + NEW)


@pytest.fixture(scope="module")
def run_of(trained_runs: TrainedRuns, data: Path) -> Runs:
    return lambda method: trained_runs(method, "--test", str(data), "--epochs", "3")


@pytest.fixture(scope="module")
def read_of(run_of: Runs) -> Callable[[str], RunRows]:
    """What the page of a run is made of, read once."""
    return functools.cache(lambda method: rows_of_run(run_of(method)))


def scored_rows(task: Task, logits: Any, labels: Any, **more: Any) -> ScoredRows:
    return ScoredRows(task=task, logits=np.asarray(logits, float), labels=np.asarray(labels), **({"counts": {}} | more))


def two_classes(right: Any, **more: Any) -> ScoredRows:
    """Rows of which the second class is true, predicted where `right`."""
    logits = np.stack([np.zeros(len(right)), np.where(right, 1.0, -1.0)], axis=1)
    return scored_rows(Classification(classes=("no", "yes")), logits, np.ones(len(right), dtype=int), **more)


# The figures


def test_confusions_are_counted_by_hand() -> None:
    task = Classification(classes=("a", "b", "c"))
    (head,) = heads(scored_rows(task, np.eye(3)[[0, 1, 1, 2, 0, 0]] * 4, [0, 0, 1, 2, 2, -100]))
    assert head.confusion().tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert head.classes == ("a", "b", "c")
    aspects = Aspects(names=("look", "taste"), classes={"look": ["1", "2"], "taste": ["x", "y", "z"]})
    look, taste = heads(scored_rows(aspects, [[2, 0, 0, 0, 5], [0, 2, 0, 5, 0]], [[0, 1], [1, 1]]))
    assert look.confusion().tolist() == [[1, 0], [0, 1]]
    assert taste.confusion().tolist() == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]


def test_calibration_of_probabilities_that_are_right_and_too_sure() -> None:
    rng = np.random.default_rng(0)
    said = rng.uniform(0.5, 1, size=4000)
    true = np.where(rng.uniform(size=4000) < said, 1, 0)
    task = Classification(classes=("no", "yes"))
    logit = np.log(said / (1 - said))

    def calibrated(factor: int) -> Calibration:
        return calibration(scored_rows(task, np.stack([0 * logit, factor * logit], axis=1), true))

    right, sure = calibrated(1), calibrated(3)
    assert right.gap.low < 0 < right.gap.high
    assert right.error < 0.03
    confidence = 1 / (1 + np.exp(-3 * logit))
    assert sure.gap.value == pytest.approx((confidence - true).mean())
    assert sure.gap.low > 0.05
    bins = np.array_split(np.argsort(confidence), 10)
    by_hand = sum(len(b) * abs(confidence[b].mean() - true[b].mean()) for b in bins) / 4000
    assert sure.error == pytest.approx(by_hand)


def test_calibration_of_several_labels_and_of_numbers() -> None:
    rng = np.random.default_rng(1)
    several = Classification(classes=("a", "b"), multi_label=True)
    logits = rng.normal(size=(200, 2))
    labels = (rng.uniform(size=(200, 2)) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    found = calibration(scored_rows(several, logits, np.pad(labels, ((0, 0), (0, 1)))))
    assert sum(one.rows for one in found.bins) == 400
    assert found.gap.value == pytest.approx((1 / (1 + np.exp(-logits)) - labels).mean())
    numbers = calibration(scored_rows(Regression(mean=10.0, std=2.0), np.zeros((60, 1)), np.ones(60)))
    assert (numbers.quantity, numbers.gap.value) == ("number", pytest.approx(-2.0))
    assert calibration(scored_rows(Regression(mean=0.0, std=1.0), np.zeros((5, 1)), np.ones(5))) is None


def test_bins_hold_all_rows_and_the_metric_of_theirs() -> None:
    counts = {"user": np.repeat([0, 5, 40], 100), "words": np.full(300, 7)}
    bins = row_bins(two_classes(np.repeat([False, True, True], 100), counts=counts))
    assert list(bins) == ["user"], "one length makes no bins"
    found = [(one.name, one.rows, one.figure.value) for one in bins["user"]]
    assert found == [("0", 100, 0.0), ("5", 100, 1.0), ("40", 100, 1.0)]


def by_user(users: list[str], right: Any) -> list[ValueFigure]:
    schema = Schema.fit({"user": users}, [Categorical("user")])
    return value_figures(two_classes(right, ids=schema.encode({"user": users})[0]), schema["user"])


@pytest.mark.slow
def test_a_value_that_differs_stands_out_and_chance_does_not() -> None:
    """Of twenty values, one has all rows wrong; the others are as right as chance has it."""
    rng = np.random.default_rng(2)
    users = rng.integers(20, size=2000)
    right = np.where(users == 7, False, rng.uniform(size=2000) < 0.8)
    found = by_user([f"u{one}" for one in users], right)
    assert len(found) == 20
    assert [one.value for one in found if one.stands_out] == ["u7"]
    assert found[0].figure == 0
    assert found[-1].figure == max(right[users == int(one.value[1:])].mean() for one in found)


def test_right_in_all_of_a_few_rows_does_not_stand_out() -> None:
    found = by_user(["a"] * 30 + ["b"] * 170, [True] * 190 + [False] * 10)
    assert not any(one.stands_out for one in found)


def test_texts_of_a_value_are_ranked_among_those_of_all() -> None:
    """Among the texts of its own rows alone each value would look better than random rows."""
    chance, users = np.random.default_rng(2), np.repeat(["a", "b", "c"], 40)
    schema = Schema.fit({"user": users}, [Categorical("user")])
    vectors = chance.normal(size=(2, 120, 4))
    vectors[1] += 2 * vectors[0]
    logits = np.concatenate(vectors / np.linalg.norm(vectors, axis=2, keepdims=True), axis=1)
    ids, task = schema.encode({"user": users})[0], Similarity(form="pairs", size=4)
    rows = scored_rows(task, logits, np.arange(120), ids=ids, counts={"words": np.repeat([1, 30], 60)})
    whole = rows.metric.value()
    found, bins = value_figures(rows, schema["user"]), row_bins(rows)["words"]
    assert np.mean([one.figure for one in found]) == pytest.approx(whole)
    assert np.mean([one.figure.value for one in bins]) == pytest.approx(whole)


@pytest.mark.slow
def test_ranges_of_a_correlation_need_no_more_memory_than_others() -> None:
    """Its statistics are as many as there are rows."""
    metric, chance = spearman(*np.random.default_rng(0).normal(size=(2, 1000))), np.random.default_rng(0)
    tracemalloc.start()
    try:
        low, high = random_row_range(metric, 100, chance, tests=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert -0.35 < low < 0 < high < 0.35
    assert peak < 150 * 2**20


def test_figures_of_classes_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    true = rng.integers(-1, 4, size=211)
    true[true == -1] = -100  # a label that no training row has
    logits = rng.normal(size=(211, 5)) + 1.5 * np.eye(5)[true.clip(min=0)]
    logits[:, 4] = -9  # never predicted, and never true
    found = class_figures(scored_rows(Classification(classes=("a", "b", "c", "d", "e")), logits, true))
    expected = precision_recall_fscore_support(true, logits.argmax(axis=1), labels=range(5), zero_division=0)
    for one, precision, recall, f1, rows in zip(found, *expected, strict=True):
        assert (one.rows, one.f1.value) == (rows, pytest.approx(f1))
        if one.name == "e":
            assert (one.precision, one.recall) == (None, None)
        else:
            assert (one.precision.value, one.recall.value) == pytest.approx((precision, recall))
            assert one.precision.low < precision < one.precision.high

    task = Classification(classes=("x", "y"), multi_label=True)
    labels = rng.integers(2, size=(97, 2))
    scores = rng.normal(size=(97, 2))
    several = class_figures(scored_rows(task, scores, np.pad(labels, ((0, 0), (0, 1)))))
    expected = precision_recall_fscore_support(labels, scores > 0)
    assert [one.f1.value for one in several] == pytest.approx(expected[2])
    assert [one.recall and one.recall.value for one in several] == pytest.approx(expected[1])


def test_the_largest_mistakes_are_wrong_rows_by_their_loss() -> None:
    task = Classification(classes=("a", "b"))
    logits = [[3, 0], [1, 0], [0, 1], [0, 5], [2, 0]]
    found = largest_mistakes(scored_rows(task, logits, [1, 1, 1, 0, 0]), limit=2)
    assert [(one.row, one.predicted) for one in found] == [(3, "b"), (0, "a")]
    assert found[0].probability == pytest.approx(1 / (1 + np.exp(5)))
    assert largest_mistakes(scored_rows(task, logits, [0, 0, 1, 1, 0]), limit=2) == []
    weighted = Classification(classes=("a", "b"), class_weights=(1.0, 100.0))
    found = largest_mistakes(scored_rows(weighted, logits, [1, 1, 1, 0, 0]), limit=2)
    assert [one.row for one in found] == [3, 0], "class weights say what counts in training, and not what is wrong"
    numbers = Regression(mean=10.0, std=2.0)
    far = largest_mistakes(scored_rows(numbers, [[0.0], [1.0], [0.5]], np.array([0.1, -2, 0.5], np.float32)), limit=2)
    assert [(one.row, one.predicted, one.probability) for one in far] == [(1, "12", None), (0, "10", None)]
    aspects = Aspects(names=("look", "taste"), classes=("1", "2"))
    (one,) = largest_mistakes(scored_rows(aspects, [[1, 0, 0, 1], [1, 0, 0, 1]], [[0, 1], [0, 0]]), limit=5)
    assert (one.row, one.predicted) == (1, "look 1; taste 2")


def test_the_mean_of_numbers_is_a_metric() -> None:
    assert mean_of("gap", np.array([1.0, 2.0, 6.0])).value() == pytest.approx(3.0)


# The page


@pytest.mark.slow
def test_the_page_of_a_run_says_what_its_files_hold(trained_runs: TrainedRuns, run_of: Runs, tmp_path: Path) -> None:
    run = trained_runs.copy(run_of("injector"), tmp_path / "run")
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    for title in ("Metrics", "Training", "Confusion matrix", "Calibration", "By value of user"):
        assert f"<h2>{title}</h2>" in page
    assert "Frequent and rare values of user" in page
    assert "Short and long texts" in page
    results = json.loads((run / "metrics.json").read_text())
    accuracy = results["results"][0]["parts"]["test"]["accuracy"]["value"]
    assert f"{100 * accuracy:.1f} [" in page
    best = results["training"]["best_step"] / (results["training"]["steps"] / results["training"]["epochs"])
    assert f"The weights are those after epoch {best:.3g} of 3" in page
    assert not re.findall(r'(?:src|href)="?http', page), "nothing is loaded from elsewhere"


@pytest.mark.exhaustive
@browser.needs_browser
def test_the_page_of_a_run_in_a_browser(run_of: Runs, tmp_path: Path) -> None:
    assert main(["report", str(run_of("injector")), "--output", str(tmp_path / "page.html")]) == 0
    assert browser.page_findings(tmp_path / "page.html", tmp_path) == []


def test_a_curve_of_losses_is_their_mean_over_steps() -> None:
    """The last entry of a pass may be of one small batch, which must not look like a fall of the loss."""
    lines = [{"step": step, "loss": 1.0, "epoch": step / 100} for step in range(10, 810, 10)]
    lines += [
        {"step": 801, "loss": 0.0, "epoch": 8.01},
        *({"step": s, "loss": 2.0, "epoch": s / 100} for s in (810, 820)),
    ]
    curve = _training_loss(lines)
    assert len(curve.y) == 41
    assert curve.y[:40] == (1.0,) * 40
    assert curve.y[40] == pytest.approx((0.0 * 1 + 2.0 * 19) / 20)
    assert curve.x[-1] == 8.2


@pytest.mark.slow
def test_stored_rows_and_the_same_rows_scored_again_give_the_same_figures(run_of: Runs, data: Path) -> None:
    own, again = rows_of_run(run_of("injector")), rows_of_run(run_of("injector"), data)
    np.testing.assert_allclose(own.scored_rows.logits, again.scored_rows.logits, atol=1e-5)
    np.testing.assert_array_equal(own.scored_rows.labels, again.scored_rows.labels)
    np.testing.assert_array_equal(own.scored_rows.ids, again.scored_rows.ids)
    for name, counts in own.scored_rows.counts.items():
        np.testing.assert_array_equal(counts, again.scored_rows.counts[name])
    assert [row.name for row in again.results] == ["injector", "attributes hidden"]
    assert again.comparisons[0].b == "attributes hidden"


@pytest.mark.slow
def test_words_are_counted_and_values_are_known_from_training(read_of: Callable[[str], RunRows]) -> None:
    rows = read_of("injector").scored_rows
    assert rows.counts["words"].tolist() == [len(row["text"].split()) for row in TEST + NEW]
    training = [row["user"] for row in ROWS]
    at_most = np.array([training.count(row["user"]) for row in TEST + NEW])
    assert (rows.counts["user"] <= at_most).all()
    assert (rows.counts["user"] >= 0.6 * at_most).all(), "some training rows became validation rows"


@pytest.mark.slow
def test_values_that_were_added_later_were_unknown_when_the_rows_were_scored(
    trained_runs: TrainedRuns, run_of: Runs, read_of: Callable[[str], RunRows], tmp_path: Path
) -> None:
    """Stored scores did not know the values that `enrol` adds: their rows stay those of unknown values."""
    run, before = trained_runs.copy(run_of("injector"), tmp_path / "run"), read_of("injector")
    assert main(["enrol", str(run), str(trained_runs.table(NEW))]) == 0
    after = rows_of_run(run)
    assert (before.scored_rows.ids == 0).sum() == len(NEW)
    np.testing.assert_array_equal(after.scored_rows.ids, before.scored_rows.ids)
    np.testing.assert_array_equal(after.scored_rows.counts["user"], before.scored_rows.counts["user"])
    assert after.verdict == before.verdict


@pytest.mark.slow
def test_clusters_and_hidden_scores_are_read_without_the_table(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    rows = [row | {"user": f"u{judge}"} for row in small_runs.reviews(60, seed=3) for judge in range(4)]
    small_runs.write_csv(tmp_path / "judged.csv", rows)
    words = small_runs.train_command(
        tmp_path / "judged.csv", tmp_path / "run", backbone=trained_runs.backbone(), method="attributes-only"
    )
    assert main([*words, "--no-baselines"]) == 0
    before = rows_of_run(tmp_path / "run").scored_rows
    (tmp_path / "judged.csv").unlink()
    after = rows_of_run(tmp_path / "run").scored_rows
    assert list(after.clusters) == list(before.clusters) == ["text", "user"]
    assert after.hidden is not None
    assert class_figures(after) == class_figures(before)


@pytest.mark.parametrize(("steps", "has_curve"), [(0, False), (1, False), (5, True)])
def test_one_point_is_no_curve(steps: int, has_curve: bool, read_of: Callable[[str], RunRows]) -> None:
    log = [{"loss": 1.0, "epoch": step / 5, "step": step} for step in range(1, steps + 1)]
    log.append({"eval_loss": 0.5, "epoch": 1.0, "step": steps})
    (section,) = _training(replace(read_of("injector"), log=log))
    assert len(section.figures) == has_curve
    assert section.sentences == ["The loss on validation rows was 0.5 at the only check, after epoch 1."]


@pytest.mark.parametrize(
    ("selected_by", "then"),
    [("loss", "from there on the model overfits"), ("last", "the last weights are kept all the same")],
)
def test_a_loss_that_rises_is_said(selected_by: str, then: str, read_of: Callable[[str], RunRows]) -> None:
    log = [{"eval_loss": loss, "epoch": float(epoch)} for epoch, loss in enumerate([0.5, 0.6], start=1)]
    rows = read_of("injector")
    training = rows.training.model_copy(update={"selected_by": selected_by})
    (section,) = _training(replace(rows, log=log, training=training))
    assert section.sentences == [
        f"The loss on validation rows was lowest after epoch 1 and 20 % higher at the end: {then}."
    ]


@pytest.mark.slow
def test_a_linear_baseline_has_a_page_without_learning_curves(read_of: Callable[[str], RunRows]) -> None:
    page = run_page(read_of("linear"))
    assert "<h2>Training</h2>" not in page
    assert "<h2>Confusion matrix</h2>" in page


@pytest.fixture
def own_table(trained_runs: TrainedRuns, run_of: Runs, data: Path, tmp_path: Path) -> Path:
    """Where the copy of a run, in the folder beside it, has its test rows, which are gone."""
    recipe = trained_runs.copy(run_of("injector"), tmp_path / "run") / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(str(data), str(tmp_path / "test.csv")))
    (recipe.parent / CHECKSUMS).unlink()
    return tmp_path / "test.csv"


@pytest.mark.slow
def test_without_its_table_the_page_has_what_is_left(
    own_table: Path, tmp_path: Path, attribune: Callable[..., Outcome]
) -> None:
    code, _, err = attribune("report", tmp_path / "run", "--output", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert (code, "could not be read" in err) == (0, True)
    assert not [part for part in (str(own_table), "could not be read", "<h2>Calibration</h2>") if part not in page]
    assert "By value of" not in page


@pytest.mark.slow
def test_a_table_that_changed_is_not_taken_for_the_one_of_then(own_table: Path, tmp_path: Path) -> None:
    small_runs.write_csv(own_table, (TEST + NEW)[::-1])
    rows = rows_of_run(tmp_path / "run")
    assert (rows.scored_rows.counts, rows.scored_rows.ids, rows.attributes) == ({}, None, [])
    assert "has other labels than in the training of the run" in rows.notes[0]


@pytest.mark.slow
def test_shuffled_attributes_are_not_told_of_rows(trained_runs: TrainedRuns) -> None:
    rows = rows_of_run(trained_runs("linear", "--shuffled", "--no-baselines"))
    assert (list(rows.scored_rows.counts), list(rows.attributes)) == (["words"], [])


def page_of(own: RunRows, task: Task, labels: Any, **more: Any) -> str:
    """The page of the same run with 60 other rows."""
    logits = np.random.default_rng(0).normal(size=(60, task.outputs))
    rows = scored_rows(task, logits, labels, **more)
    return run_page(replace(own, scored_rows=rows, attributes=[], comparisons=[], results=[]))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("task", "labels", "titles"),
    [
        (Rating(classes=("1", "2", "3")), np.arange(60) % 3, [TAKEN, "Each class", WRONG, SURE]),
        (Regression(mean=0.0, std=1.0), np.linspace(-1, 1, 60), [WRONG, f"{SURE}: predicted and true numbers"]),
        (
            Aspects(names=("look", "taste"), classes=("1", "2")),
            np.stack([np.arange(60) % 2] * 2, axis=1),
            [f"{TAKEN}: look", f"{TAKEN}: taste", "Each class: look", "Each class: taste", WRONG, SURE],
        ),
        (
            Classification(classes=("a", "b"), multi_label=True),
            np.stack([np.arange(60) % 2, np.arange(60) % 3 > 0, np.zeros(60)], axis=1),
            ["Each class", WRONG, SURE],
        ),
        (Classification(classes=30), np.arange(60) % 30, [TAKEN, "Each class", WRONG, SURE]),
    ],
    ids=["rating", "numbers", "aspects", "several labels", "many classes"],
)
def test_every_task_has_a_page(task: Task, labels: Any, titles: list[str], read_of: Callable[[str], RunRows]) -> None:
    page = page_of(read_of("linear"), task, labels, counts={"words": np.arange(60)})
    rare = "What the attributes change for rare and frequent values"
    assert re.findall("<h2>(.*?)</h2>", page) == ["Verdict", rare, "Metrics", *titles, "Short and long texts"]


@pytest.mark.slow
def test_names_of_classes_are_escaped(read_of: Callable[[str], RunRows]) -> None:
    task = Classification(classes=("<script>alert(1)</script>", "$x_1$ & y", "fine"))
    assert "<script>" not in page_of(read_of("linear"), task, np.arange(60) % 3)


HOSTILE = ["<script>alert(1)</script>", "\u202eمرحب", "x" * 5000, '"><img src=x onerror=alert(1)>', "", "{{ 7 * 7 }}"]


@pytest.mark.slow
def test_texts_and_values_are_shown_as_text_and_cut(read_of: Callable[[str], RunRows]) -> None:
    own = read_of("linear")
    texts = [HOSTILE[row % len(HOSTILE)] for row in range(60)]
    table = own.table.select(range(60)).to_pandas().assign(text=texts, user=texts[::-1])
    changed = replace(own, scored_rows=two_classes([False] * 60), attributes=[], comparisons=[], results=[])
    page = run_page(replace(changed, notes=[HOSTILE[0]], table=Dataset.from_pandas(table)))
    assert page.count("<article>") == 12
    shown = ["&lt;script&gt;alert(1)&lt;/script&gt;", '<p class="text" dir="auto">\u202eمرحب</p>', "{{ 7 * 7 }}"]
    shown += ["(no text)", "x" * 399 + "…"]
    assert [part for part in shown if part not in page] == []
    assert [part for part in ("<script", "<img", "x" * 400) if part in page] == []


@pytest.mark.slow
def test_the_page_opens_with_the_verdict_and_folds_what_shows_nothing(read_of: Callable[[str], RunRows]) -> None:
    own = read_of("injector")
    (pair,) = [one for one in own.comparisons if one.b == "linear"]
    shown = replace(pair, b="majority", difference=0.3, low=0.2, high=0.4, p_value=0.001)
    page = run_page(replace(own, comparisons=[replace(pair, low=-0.1, high=0.1, p_value=0.9), shown]))
    assert page.index(f'<p class="headline">{own.verdict.headline}') < page.index("<h2>Verdict</h2>")
    assert own.verdict.headline == f"{own.verdict.attributes.headline} {own.verdict.baseline.headline}"
    assert f"Do the attributes help? <strong>{own.verdict.attributes.answer.capitalize()}</strong>" in page
    metrics = page[page.index("<h2>Metrics</h2>") : page.index("<h2>Training</h2>")]
    assert metrics.index("injector against majority") < metrics.index("<details>")
    assert metrics.index("<details>") < metrics.index("injector against linear") < metrics.index("</details>")
    assert own.training.finished[:10] in page
    links = re.findall(r'<li><a href="#(.*?)">', page)
    assert links == re.findall(r'<section id="(.*?)"', page)
    assert len(set(links)) == len(links) > 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["{run}", "missing.csv"], "missing.csv"),
        (["{run}", "--output", "{run}"], "cannot be written"),
        (["{run}", "--output", "{run}/no/page.html"], "there is no folder"),
        (["{run}", "{folder}/empty.csv"], "empty"),
    ],
)
def test_mistakes_are_told_with_the_cure(
    words: list[str], said: str, run_of: Runs, tmp_path: Path, fails: Callable[..., str]
) -> None:
    (tmp_path / "empty.csv").write_text("")
    run = run_of("linear")
    assert said in fails("report", *(word.format(run=run, folder=tmp_path) for word in words))
