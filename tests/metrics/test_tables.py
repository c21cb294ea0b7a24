"""Tables: exact text for small tables."""

from __future__ import annotations

import pytest

from attribune.metrics.bootstrap import Interval, PairedResult
from attribune.metrics.metric import metric_info
from attribune.metrics.results import Comparison, ResultRow
from attribune.metrics.tables import (
    comparison_lines,
    format_difference,
    format_interval,
    markdown_table,
    text_table,
)
from attribune.tasks import Aspects, Classification, Generation, Rating, Regression


def made(value, low, high, level=0.95):
    return Interval(value=value, low=low, high=high, level=level, resamples=10)


ROWS = [
    ResultRow(name="majority", metrics={"accuracy": made(0.5, 0.45, 0.55), "rmse": made(1.5, 1.25, 2)}),
    ResultRow(name="injector", metrics={"accuracy": made(0.8432, 0.8311, 0.8545)}),
]


@pytest.mark.parametrize("name", ["accuracy", "f1", "macro_f1", "micro_f1", "subset_accuracy", "accuracy_taste"])
def test_shares_are_per_cent(name):
    assert format_interval(name, made(0.843, 0.831, 0.854)) == "84.3 [83.1, 85.4]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((0.8431, 0.81, 1.2), "0.8431 [0.8100, 1.2000]"),
        ((1.2346, 1.1, 1.3), "1.235 [1.100, 1.300]"),
        ((1234.56, 1200, 1300.4), "1235 [1200, 1300]"),
        ((0.0012345, 0.001, 0.002), "0.001234 [0.001000, 0.002000]"),
        ((0.0, 0.0, 0.5), "0.000 [0.000, 0.500]"),
        ((-0.5, -1, 0), "-0.5000 [-1.0000, 0.0000]"),
    ],
)
def test_other_numbers_have_four_digits(value, expected):
    assert format_interval("rmse", made(*value)) == expected


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("rmse", (-0.0004, -0.0008, -0.00002), "-0.00040 [-0.00080, -0.00002]"),
        ("rmse", (-0.04, -0.08, 0), "-0.040 [-0.080, +0.000]"),
        ("rmse", (-1234.56, -2000, -500.4), "-1235 [-2000, -500]"),
        ("rmse", (0, 0, 0), "+0.000 [+0.000, +0.000]"),
        ("accuracy", (0.0004, 0, 0.0008), "+0.0 [+0.0, +0.1]"),
    ],
)
def test_differences_of_small_and_large_units_can_be_read(metric, value, expected):
    difference, low, high = value
    pair = {"difference": difference, "low": low, "high": high, "p_value": 0.04, "resamples": 10}
    assert format_difference(metric, PairedResult(**pair)) == expected
    line = comparison_lines([Comparison(**pair, metric="rmse", a="x", b="y", part="test")])[0]
    assert f"rmse: {format_difference('rmse', PairedResult(**pair))}, p" in line


def test_markdown_table():
    assert markdown_table(ROWS) == (
        "| 95 % intervals | accuracy (%) | rmse |\n"
        "| --- | ---: | ---: |\n"
        "| majority | 50.0 [45.0, 55.0] | 1.500 [1.250, 2.000] |\n"
        "| injector | 84.3 [83.1, 85.5] | - |"
    )


def test_text_table():
    assert text_table(ROWS) == (
        "95 % intervals       accuracy (%)                  rmse\n"
        "--------------  -----------------  --------------------\n"
        "majority        50.0 [45.0, 55.0]  1.500 [1.250, 2.000]\n"
        "injector        84.3 [83.1, 85.5]                     -"
    )


def test_names_cannot_break_a_markdown_table():
    lines = markdown_table([ResultRow(name="a|b\nc", metrics={"mae": made(1, 1, 1, level=0.9)})]).splitlines()
    assert lines[0] == "| 90 % intervals | mae |"
    assert lines[2].startswith("| a\\|b c |")
    assert len(lines) == 3


def test_differences_are_in_the_unit_of_tables():
    """Shares in points, those of one aspect too; other metrics in their own unit."""
    pair = {"a": "x", "b": "y", "part": "test", "difference": 0.0213, "low": 0.0101, "high": 0.03, "p_value": 0.01}
    lines = comparison_lines(
        Comparison(**pair, metric=metric, resamples=10) for metric in ("accuracy_taste", "mean_accuracy", "rmse", "r2")
    )
    assert lines == [
        "x against y, test accuracy_taste: +2.13 points [+1.01, +3.00], p = 0.0100",
        "x against y, test mean_accuracy: +2.13 points [+1.01, +3.00], p = 0.0100",
        "x against y, test rmse: +0.021 [+0.010, +0.030], p = 0.0100",
        "x against y, test r2: +0.021 [+0.010, +0.030], p = 0.0100",
    ]


@pytest.mark.parametrize(
    "task",
    [
        Classification(classes=("a", "b")),
        Classification(classes=("a", "b"), positive="b"),
        Classification(classes=("a", "b"), multi_label=True),
        Rating(classes=("1", "2")),
        Regression(),
        Aspects(names=("look", "taste"), classes=("1", "2")),
        Generation(),
    ],
)
def test_a_metric_and_its_task_agree_on_what_is_better(task):
    assert metric_info(task.main_metric).higher_is_better == task.higher_is_better


def test_a_metric_knows_its_label():
    assert metric_info("macro_f1").label == "macro f1 (%)"
    assert metric_info("accuracy_taste").label == "accuracy taste (%)"
    assert metric_info("log_loss").label == "log loss"
    assert [metric_info(name).scale for name in ("f1", "r2", "perplexity")] == [100, 1, 1]
