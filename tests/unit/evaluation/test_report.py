"""Tables: exact text for small tables."""

from __future__ import annotations

import pytest

from attribune.evaluation import Interval, ResultRow, format_interval, markdown_table, text_table


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
