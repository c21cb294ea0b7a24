"""Which rows of a table can be used, and what stands in those that cannot."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pytest

from attribune.data.selection import listed_labels, missing_label_words, rows_with_label
from attribune.schema import MISSING


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"a": ["None", "x", "NA", "None ", ""]}, "'None' (2), 'NA' (1), empty (1)"),
        ({"a": ["", None, "x"]}, ""),
        ({"a": ["x", "y"]}, ""),
        ({"a": ["null", "x", "NA"], "b": ["y", "y", "None"]}, "'null' (1), 'NA' (1), 'None' (1)"),
        ({"a": [["x"], ["None"]]}, ""),
        ({"a": ["None"] * 2_500 + ["x"] * 10 + ["NA"] * 2_000}, "'None' (2,500), 'NA' (2,000)"),
    ],
)
def test_words_that_stand_for_a_missing_label_are_listed(columns: dict[str, list[Any]], expected: str) -> None:
    table, names = datasets.Dataset.from_dict(columns), list(columns)
    lacking = ~rows_with_label(table, names, missing=MISSING)
    assert missing_label_words(table, names, lacking, missing=MISSING) == expected


def test_labels_that_cannot_be_used_are_listed_with_their_first_rows() -> None:
    column = ["a", "x", "y", "x", "b", "c", "d", "e", "f"]
    bad = np.array([one != "a" for one in column])
    listed = listed_labels(column, bad, np.arange(10, 19))
    assert listed.startswith("'x' (2, first in row 12), 'y' (1, first in row 13)")
    assert listed.endswith(", and 2 others")
