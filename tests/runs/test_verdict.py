"""The verdict on a run: its answers are those of the intervals, and its sentences say no more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from attribune.metrics.bootstrap import PairedResult, YesOrNo, paired
from attribune.metrics.formulas import mean_of
from attribune.metrics.results import AttributeUse, Comparison, HiddenEffect
from attribune.models.sizes import Sizes
from attribune.runs.attribute_gains import (
    AttributeGain,
    _rare_and_frequent,
    attribute_gains,
    gains_by_count,
    holm,
    value_counts,
)
from attribune.runs.recipe import Recipe
from attribune.runs.training_record import TrainingRecord
from attribune.runs.verdict import Verdict, run_verdict
from attribune.schema import Categorical, MultiLabel, Schema

SIZES = Sizes(total=9, trained=8, stored=7, stored_bytes=28, outputs=2, encoder=0, injected=0)
HIDDEN = "injector, attributes hidden"
CONDITIONS: dict[str, AttributeUse] = {HIDDEN: "hidden"}
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
    *pairs: Comparison,
    trained: TrainingRecord | None = None,
    metric: str = "accuracy",
    proper: Sequence[Comparison] = (),
    by_attribute: Sequence[AttributeGain] = (),
    figures: Mapping[str, float] | None = None,
    **more: Any,
) -> Verdict:
    given = {"proper": proper, "by_attribute": by_attribute, "figures": figures or {}}
    return run_verdict(
        recipe(**more), trained or record(), metric=metric, comparisons=pairs, conditions=CONDITIONS, **given
    )


def gain(name: str, answer: YesOrNo = "not shown", difference: float = 0.0, metric: str = "log_loss") -> AttributeGain:
    low, high = difference - 0.1, difference + 0.1
    shown = PairedResult(difference=difference, low=low, high=high, p_value=0.5, resamples=10)
    return AttributeGain(attribute=name, metric=metric, answer=answer, gain=shown, p_value=0.5, rows=9)


@pytest.mark.parametrize(
    ("trained", "settings", "said"),
    [
        ({}, {}, ["after epoch 3 of 5, which had the best validation accuracy, 81.25 %."]),
        (
            {"best_step": 50},
            {},
            ["epoch 5 of 5, which had", "may still improve: raise training.epochs (now 5)."],
        ),
        ({"best_step": 50}, {"steps": 50}, ["epoch 5 of 5, which had the best", "raise training.steps (now 50)."]),
        ({"stopped_early": True}, {}, ["epoch 3 of 5", "stopped early, since no later check was better"]),
        ({"best_step": 50, "checks": 1}, {}, ["the only check (validation accuracy, 81.25 %). To see"]),
        ({"checks": None, "selected_by": None, "best_value": float("nan")}, {}, ["the best validation accuracy."]),
        ({"selected_by": "loss", "best_value": 0.51234}, {}, ["the best validation loss, 0.5123."]),
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
    found = verdict(pair(HIDDEN, ends, metric), pair("linear", ends, metric), metric=metric)
    assert found.attributes.answer == found.baseline.answer == answer
    assert bool(found.baseline.advice) == (answer != "yes")
    assert found.baseline.readable is None
    text, shown = " ".join(found.sentences()), "accuracy +5.0 points [+1.0, +9.0], p = 0.001"
    if metric == "rmse":
        shown = "rmse -0.050 [-0.090, -0.010], p = 0.001"
    for part, of in (
        (f"the attributes help on {metric}: ", "yes"),
        (f"the attributes hurt on {metric}: ", "no"),
        ("the attributes are not shown to help or hurt", "not shown"),
        ("What to do: use this model.", "yes"),
        ("leave the columns of the attributes out, and train again", "no"),
        (shown, "yes"),
    ):
        assert (part in text) == (answer == of), part


LONGER = "a longer training (training.epochs, now 5)"


def test_the_best_baseline_counts_and_the_advice_fits_it() -> None:
    pairs = [pair("majority", BETTER), pair("linear, whole texts", WORSE), pair("linear", SAME)]
    found = verdict(*pairs, trained=record(best_step=50)).baseline
    assert found.comparison.b == "linear, whole texts"
    assert found.advice == [
        LONGER,
        "a longer window (data.max_length, now 256)",
        "a backbone that is trained as well (backbone.tuning=lora or full; it is frozen)",
        "or take the baseline, which costs less (`train(..., method='linear')`)",
    ]
    for best_step, advice in ((50, [LONGER]), (10, [])):  # which does not help where an early check was the best
        trained = record(best_step=best_step)
        assert verdict(pair("majority", SAME), trained=trained, backbone={"tuning": "full"}).baseline.advice == advice


def test_a_baseline_without_attributes_that_is_as_good_says_to_leave_them_out() -> None:
    found = verdict(pair("linear", BETTER), pair("linear, text only", WORSE)).baseline
    assert (found.answer, found.comparison.b) == ("no", "linear, text only")
    assert found.advice[0] == "a training without the attributes, which this baseline does not read"
    assert found.advice[-1].endswith("(`train(..., method='linear')`, without attributes)")


def test_linear_without_attributes_is_the_same_model_trained_without_them() -> None:
    pairs = pair(HIDDEN, BETTER), pair("linear, text only", WORSE)
    found = verdict(*pairs, method={"name": "linear"}).attributes
    assert (found.answer, found.against) == ("no", "trained without")
    said = "Against linear, text only, trained without attributes, the attributes hurt"
    assert any(said in line for line in found.sentences())
    found = verdict(*pairs).attributes
    assert (found.answer, found.against) == ("yes", "hidden")


LOWER, AS_LOW, HIGHER = (-0.05, -0.09, -0.01), (-0.01, -0.04, 0.02), (0.05, 0.01, 0.09)


@pytest.mark.parametrize(
    ("proper", "main", "answer", "said"),
    [
        (LOWER, SAME, "yes", "-0.050 [-0.090, -0.010], p = 0.001; accuracy +1.0 points [-2.0, +4.0], p = 0.500 (not"),
        (HIGHER, SAME, "no", "p = 0.500 (not conclusive)"),
        (AS_LOW, BETTER, "yes", "p = 0.001; log loss -0.010 [-0.040, +0.020], p = 0.500 (not conclusive)"),
        (AS_LOW, WORSE, "no", "on accuracy: accuracy -5.0 points"),
        (AS_LOW, SAME, "not shown", "p = 0.500; accuracy +1.0 points"),
        (LOWER, BETTER, "yes", "on log loss and accuracy"),
        (HIGHER, BETTER, "no", "p = 0.001; accuracy +5.0 points"),
        (LOWER, WORSE, "yes", "p = 0.001; accuracy -5.0 points"),
    ],
)
def test_the_proper_score_decides_before_the_main_metric(
    proper: tuple[float, float, float], main: tuple[float, float, float], answer: str, said: str
) -> None:
    names = "linear", HIDDEN
    found = verdict(*(pair(name, main) for name in names), proper=[pair(name, proper, "log_loss") for name in names])
    assert found.baseline.answer == found.attributes.answer == answer
    for part in (found.baseline, found.attributes):
        assert (part.comparison.metric, part.readable and part.readable.metric) == ("log_loss", "accuracy")
        assert any(said in sentence for sentence in part.sentences())


@pytest.mark.parametrize(
    ("proper", "main", "better", "worse"),
    [(HIGHER, BETTER, "accuracy", "log loss"), (LOWER, WORSE, "log loss", "accuracy")],
)
def test_metrics_that_contradict_each_other_are_named(
    proper: tuple[float, float, float], main: tuple[float, float, float], better: str, worse: str
) -> None:
    names = "linear", HIDDEN
    found = verdict(*(pair(one, main) for one in names), proper=[pair(one, proper, "log_loss") for one in names])
    text = found.text()
    for part in (
        f"better than the cheap baseline 'linear' on {better} and worse on {worse}: ",
        f"the attributes help on {better} and hurt on {worse}: ",
        f"Keep them if {better} counts more for you.",
        "Take the one that is better on what counts for you.",
        "- Differences are the model minus what it is compared with; less is better for log loss",
    ):
        assert part in text
    assert not [part for part in ("take the baseline", "leave the columns", "use this model") if part in text]


def test_what_to_do_follows_from_the_answers() -> None:
    pairs = pair(HIDDEN, BETTER), pair("linear", BETTER)
    open_case = verdict(pair(HIDDEN, SAME), pair("linear", BETTER)).text()
    assert "What to do: use this model, which may be as good without its attributes." in open_case
    hurting = verdict(*pairs, by_attribute=[gain("user", "no"), gain("film", "yes")]).text()
    assert "What to do first: leave out user, and train again." in hurting
    assert "use this model" not in hurting
    unclear = verdict(*pairs, by_attribute=[gain("user"), gain("film")]).text()
    assert "Together, the attributes help, and these rows do not show which one does: keep them all." in unclear


@pytest.mark.parametrize(
    ("low", "high", "p_value", "answer", "said"),
    [
        (-0.3, -0.1, 0.0, "not shown", True),
        (-0.3, -0.1, 0.0, "no", True),
        (-0.3, -0.1, 0.0, "yes", False),
        (-0.3, 0.1, 0.5, "yes", False),
    ],
)
def test_the_score_that_decides_is_named_where_the_other_one_differs(
    low: float, high: float, p_value: float, answer: YesOrNo, said: bool
) -> None:
    other = PairedResult(difference=-0.2, low=low, high=high, p_value=p_value, resamples=10)
    found = gain("user", answer).model_copy(update={"readable_metric": "rmse", "readable": other})
    assert ("(log loss decides)" in found.sentences()[0]) == said


def test_baselines_without_a_proper_score_are_compared_by_the_main_metric() -> None:
    found = verdict(pair("linear", BETTER), pair("majority", SAME), proper=[pair("linear", HIGHER, "log_loss")])
    assert (found.baseline.comparison.b, found.baseline.comparison.metric) == ("majority", "accuracy")


@pytest.mark.parametrize(
    ("given", "corrected"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.0001, 0.9], [1.0, 0.0003, 1.0]),
    ],
)
def test_p_values_are_corrected_for_their_number(given: list[float], corrected: list[float]) -> None:
    assert holm(given) == pytest.approx(corrected)


def test_one_attribute_of_three_is_named() -> None:
    """Its own effect is shown, and not that of the attributes that are noise beside it."""
    rng = np.random.default_rng(0)
    given = rng.gamma(2.0, size=300)
    noise = {name: given + rng.normal(scale=0.3, size=300) for name in ("customer", "channel")}
    hits = mean_of("accuracy", rng.integers(0, 2, 300))
    alone = [
        HiddenEffect(
            attributes=(name,),
            pairs={
                "log_loss": paired(mean_of("log_loss", given), mean_of("log_loss", hidden)),
                "accuracy": paired(hits, hits),
            },
            rows=300,
            with_value=300,
        )
        for name, hidden in {**noise, "agent": given + 0.5 + rng.normal(scale=0.3, size=300)}.items()
    ]
    gains = attribute_gains(alone)
    assert [(gain.attribute, gain.answer) for gain in gains] == [
        ("customer", "not shown"),
        ("channel", "not shown"),
        ("agent", "yes"),
    ]
    assert [gain.rows for gain in gains] == [300] * 3
    found = verdict(pair(HIDDEN, BETTER), pair("linear", SAME), by_attribute=gains)
    lines = [one.text for one in found.attribute_findings()]
    assert [line.split(":")[0] for line in lines] == [
        "Each attribute hidden alone in the trained model (p-values are corrected for 3 attributes, intervals are not)",
        "customer is not shown to help or hurt",
        "channel is not shown to help or hurt",
        "agent helps",
    ]
    assert "accuracy +0.0 points" in lines[1]
    assert set(lines) <= set(found.sentences())
    assert verdict(pair(HIDDEN, BETTER), by_attribute=gains[:1]).attribute_findings() == []
    assert len(verdict(pair("adapter", BETTER), by_attribute=gains[:1]).attribute_findings()) == 2
    assert Verdict.model_validate(json.loads(found.model_dump_json())) == found


def test_a_missing_value_is_not_an_unseen_one() -> None:
    train = {"user": ["a", "a", "b"], "tags": ["x|y", "x", ""]}
    schema = Schema.fit(train, [Categorical("user"), MultiLabel("tags", separator="|")])
    rows = {"user": ["a", "new", None, "b", ""], "tags": ["x", "z", "", "y|z", None]}
    counts = value_counts(schema, rows)
    assert counts["user"].tolist() == [2, 0, -1, 1, -1]
    assert counts["tags"].tolist() == [2, 0, -1, 1, -1]
    assert _rare_and_frequent(np.array([-1] * 40 + [0] * 5 + [3] * 30)) == [(3, 3)]


def test_better_than_every_baseline_is_shown_for_each() -> None:
    wide = pair("attributes-only", (0.2, -0.1, 0.5))
    found = verdict(pair("linear", BETTER), wide, pair("majority", BETTER)).baseline
    assert (found.answer, found.comparison.b) == ("not shown", "attributes-only")
    said = "not shown to differ from the cheap baseline 'attributes-only'"
    assert any(said in sentence for sentence in found.sentences())


def test_a_model_trained_without_attributes_says_more_than_hidden_ones() -> None:
    found = verdict(pair(HIDDEN, BETTER), pair("none", BETTER), pair("adapter", SAME)).attributes
    assert (found.answer, found.against, found.comparison.b) == ("not shown", "trained without", "adapter")
    assert not any("--compare" in sentence for sentence in found.sentences())


def test_no_attributes_no_verdict_on_them() -> None:
    hidden = pair(HIDDEN, BETTER)
    assert verdict(hidden, data={**DATA, "attributes": []}, method={"name": "adapter"}).attributes is None
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


@pytest.mark.parametrize(
    ("metric", "value", "majority", "is_told"),
    [
        ("accuracy", 1.0, 0.25, True),
        ("accuracy", 0.985, 0.25, False),
        ("accuracy", 1.0, 0.95, False),
        ("macro_f1", 0.995, 0.1, True),
        ("rmse", 0.05, 1.4, True),
        ("rmse", 0.3, 1.4, False),
        ("kappa", 1.0, 0.0, False),
    ],
)
def test_a_baseline_without_texts_that_is_right_everywhere_is_said(
    metric: str, value: float, majority: float, is_told: bool
) -> None:
    figures = {"attributes-only": value, "majority": majority}
    found = verdict(pair(HIDDEN, BETTER, metric), metric=metric, figures=figures)
    assert (found.given_away is not None) == is_told
    sentences = found.sentences()
    assert sentences[0].startswith("A column gives the label away") == is_told
    assert not (is_told and any(one.startswith("What to") for one in sentences))
    assert not is_told or "Look at the column 'user'" in sentences[0]
    assert Verdict.model_validate(json.loads(found.model_dump_json())) == found


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        ({"user": ("yes", 0.1), "code": ("yes", 0.7), "shop": ("not shown", 0.0)}, "the column 'code':"),
        ({"user": ("not shown", 0.0), "code": ("not shown", 0.0)}, "one of the columns 'user', 'code', 'shop':"),
        ({"user": ("yes", 0.5), "code": ("yes", 0.7)}, "one of the columns 'user', 'code':"),
    ],
)
def test_the_columns_that_count_most_are_named(answers: dict[str, tuple[YesOrNo, float]], named: str) -> None:
    found = verdict(
        data={**DATA, "attributes": ["user", "code", "shop"]},
        by_attribute=[gain(name, answer, by, "accuracy") for name, (answer, by) in answers.items()],
        figures={"attributes-only": 1.0, "majority": 0.2},
    )
    assert named in found.sentences()[0]
    assert found.headline == "A column gives the label away."
