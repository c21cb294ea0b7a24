"""The verdict on a run: its answers are those of the intervals, and its sentences say no more."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from attribune.metrics.bootstrap import paired
from attribune.metrics.formulas import mean_of
from attribune.metrics.results import Comparison, Condition
from attribune.models.sizes import Sizes
from attribune.runs.recipe import Recipe
from attribune.runs.training_record import TrainingRecord
from attribune.runs.verdict import Verdict, _rare_and_frequent, gains_by_count, run_verdict

SIZES = Sizes(total=9, trained=8, stored=7, stored_bytes=28, outputs=2, encoder=0, injected=0)
CONDITIONS: dict[str, Condition] = {"injector, attributes hidden": "hidden"}
DATA = {"train": "rows.csv", "text": "text", "label": "stars", "attributes": ["user"]}
BETTER, SAME, WORSE = (0.05, 0.01, 0.09), (0.01, -0.02, 0.04), (-0.05, -0.09, -0.01)


def recipe(**changes: Any) -> Recipe:
    return Recipe.from_dict({"data": DATA, "method": {"name": "injector"}, **changes})


def record(**changes: Any) -> TrainingRecord:
    steps: dict[str, Any] = {"steps": 50, "epochs": 5.0, "best_step": 30, "best_value": 0.8125, "checks": 5}
    return TrainingRecord(**{"seconds": 1.0, "parameters": SIZES, "selected_by": "accuracy", **steps, **changes})


def pair(other: str, ends: tuple[float, float, float], metric: str = "accuracy") -> Comparison:
    difference, low, high = ends
    p_value = 0.5 if low <= 0 <= high else 0.001
    shown = {"difference": difference, "low": low, "high": high, "p_value": p_value, "resamples": 10}
    return Comparison(a="injector", b=other, part="test", metric=metric, **shown)


def verdict(
    *pairs: Comparison, trained: TrainingRecord | None = None, metric: str = "accuracy", **more: Any
) -> Verdict:
    settings = recipe(**more)
    return run_verdict(settings, trained or record(), metric=metric, comparisons=pairs, conditions=CONDITIONS)


@pytest.mark.parametrize(
    ("trained", "settings", "said"),
    [
        ({}, {}, ["after epoch 3 of 5, the best check on the validation rows by accuracy (81.25 %)."]),
        ({"best_step": 50}, {}, ["epoch 5 of 5, the best", "may still improve: raise training.epochs (now 5)."]),
        ({"best_step": 50}, {"steps": 50}, ["epoch 5 of 5, the best", "raise training.steps (now 50)."]),
        ({"stopped_early": True}, {}, ["epoch 3 of 5", "stopped early, since no later check was better"]),
        ({"best_step": 50, "checks": 1}, {}, ["the only check on the validation rows by accuracy (81.25 %). To see"]),
        ({"checks": None, "selected_by": None, "best_value": float("nan")}, {}, ["validation rows by accuracy."]),
        ({"selected_by": "loss", "best_value": 0.51234}, {}, ["by loss (0.5123)."]),
        ({"steps": 0}, {}, []),
    ],
)
def test_which_weights_were_kept(trained: dict[str, Any], settings: dict[str, Any], said: list[str]) -> None:
    found = verdict(trained=record(**trained), training=settings).sentences()
    assert len(found) == len(said)
    for sentence, part in zip(found, said, strict=True):
        assert part in sentence


@pytest.mark.parametrize(("ends", "answer"), [(BETTER, "yes"), (SAME, "not shown"), (WORSE, "no")])
@pytest.mark.parametrize("metric", ["accuracy", "rmse"])
def test_answers_are_those_of_the_interval_in_the_direction_of_the_metric(
    ends: tuple[float, float, float], answer: str, metric: str
) -> None:
    if metric == "rmse":
        ends = (-ends[0], -ends[2], -ends[1])
    found = verdict(pair("injector, attributes hidden", ends, metric), pair("linear", ends, metric), metric=metric)
    assert found.attributes is not None
    assert found.baseline is not None
    assert found.attributes.answer == found.baseline.answer == answer
    assert bool(found.baseline.advice) == (answer != "yes")
    text = " ".join(found.sentences())
    assert ("The attributes help: " in text) == (answer == "yes")
    assert ("worse with them" in text) == (answer == "no")
    assert ("not shown whether the attributes help" in text) == (answer == "not shown")
    shown = "accuracy +5.0 points [+1.0, +9.0], p = 0.001"
    if metric == "rmse":
        shown = "rmse -0.050 [-0.090, -0.010], p = 0.001"
    assert (shown in text) == (answer == "yes")


def test_the_best_baseline_counts_and_the_advice_fits_it() -> None:
    found = verdict(pair("majority", BETTER), pair("linear, whole texts", WORSE), pair("linear", SAME)).baseline
    assert found is not None
    assert found.comparison.b == "linear, whole texts"
    assert found.advice == [
        "a longer training (training.epochs, now 5)",
        "a longer window (data.max_length, now 256)",
        "a backbone that is trained as well (backbone.tuning lora or full, now frozen)",
        "or take the baseline, which costs less (`--method linear`)",
    ]
    tuned = verdict(pair("majority", SAME), backbone={"tuning": "full"}).baseline
    assert tuned is not None
    assert tuned.advice == ["a longer training (training.epochs, now 5)"]


def test_better_than_every_baseline_is_shown_for_each() -> None:
    wide = pair("attributes-only", (0.2, -0.1, 0.5))
    found = verdict(pair("linear", BETTER), wide, pair("majority", BETTER)).baseline
    assert found is not None
    assert (found.answer, found.comparison.b) == ("not shown", "attributes-only")
    assert any("attributes-only may be as good" in sentence for sentence in found.sentences())


def test_a_model_trained_without_attributes_says_more_than_hidden_ones() -> None:
    found = verdict(pair("injector, attributes hidden", BETTER), pair("none", BETTER), pair("adapter", SAME)).attributes
    assert found is not None
    assert (found.answer, found.against, found.comparison.b) == ("not shown", "trained without", "adapter")
    assert not any("--compare" in sentence for sentence in found.sentences())


def test_no_attributes_no_verdict_on_them() -> None:
    data = {**DATA, "attributes": []}
    hidden = pair("injector, attributes hidden", BETTER)
    assert verdict(hidden, data=data, method={"name": "adapter"}).attributes is None
    assert verdict(hidden, data={**DATA, "shuffled": True}).attributes is None
    assert verdict(pair("linear", BETTER), method={"name": "linear"}).kept is None


def test_gains_by_count_are_those_of_the_rows_alone() -> None:
    rng = np.random.default_rng(0)
    counts = rng.permutation(np.repeat([0, 2, 3, 40], [30, 50, 40, 100]))
    given, hidden = (rng.integers(0, 2, size=220).astype(float) for _ in range(2))
    given = np.where(counts == 40, 1.0, np.where(counts == 0, hidden, given))
    found = gains_by_count(
        mean_of("accuracy", given),
        mean_of("accuracy", hidden),
        {"user": counts, "kind": np.full(220, 7), "other": np.zeros(3, np.int64)},
    )
    assert [(gain.attribute, gain.low, gain.high, gain.rows, gain.answer) for gain in found] == [
        ("user", 0, 0, 30, "not shown"),
        ("user", 2, 3, 90, found[1].answer),
        ("user", 40, 40, 100, "yes"),
    ], "of one count, or of other rows, there is nothing to compare"
    for gain in found:
        rows = (counts >= gain.low) & (counts <= gain.high)
        assert gain.gain.difference == pytest.approx(given[rows].mean() - hidden[rows].mean())
        by_hand = paired(mean_of("accuracy", given[rows]), mean_of("accuracy", hidden[rows]), resamples=2000)
        assert (gain.gain.low, gain.gain.high) == (by_hand.low, by_hand.high)
    sentences = [gain.sentence("accuracy") for gain in found]
    assert sentences[0].startswith("Where the user has no training row (30 rows): no difference shown, accuracy +0.0 ")
    assert sentences[2].startswith("Where the user has 40 training rows (100 rows): the attributes help, accuracy +")
    assert all(sentence.endswith(", against hidden attributes.") for sentence in sentences)


def test_a_verdict_is_read_back_as_it_was_written() -> None:
    found = verdict(pair("injector, attributes hidden", BETTER), pair("linear", SAME))
    assert Verdict.model_validate(json.loads(found.model_dump_json())) == found


@pytest.mark.parametrize(
    ("counts", "ranges"),
    [
        ([], []),
        ([0] * 19 + [3] * 19, []),
        ([0] * 20 + [3] * 10, [(0, 0)]),
        ([3] * 30, [(3, 3)]),
        ([3] * 30 + [5] * 10, [(3, 5)]),
        ([1] * 20 + [2] * 20 + [9] * 20 + [0] * 5, [(1, 1), (2, 9)]),
        ([0] * 25 + [1] * 20 + [2] * 30 + [9] * 60, [(0, 0), (1, 2), (9, 9)]),
    ],
)
def test_values_are_rare_or_frequent_by_half_of_the_rows(counts: list[int], ranges: list[tuple[int, int]]) -> None:
    assert _rare_and_frequent(np.array(counts, np.int64)) == ranges
