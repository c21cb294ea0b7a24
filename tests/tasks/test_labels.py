"""Label cells: what is missing, what is one value, and what is refused."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from attribune.errors import ConfigError, DataError
from attribune.schema.columns import MISSING
from attribune.tasks import Aspects, Classification, Generation, labels

texts = partial(labels.label_texts, missing=MISSING)
lists = partial(labels.label_lists, missing=MISSING, separator=None)
numbers = partial(labels.label_numbers, missing=MISSING)


def test_texts_are_canonical_and_missing_ones_are_none():
    column = [17, 17.0, "17 ", "17.0", None, math.nan, "", "NA", True, 1, 1.0, "007"]
    expected = ["17", "17", "17", "17", None, None, None, None, "true", "1", "1", "007"]
    assert texts(column) == expected


def test_a_known_class_is_not_missing():
    assert texts(["None", "NA"], known=["None"]) == ["None", None]
    assert lists(["None|NA", "None"], separator="|", known=["None"]) == [["None"], ["None"]]


def test_numbers_keep_their_precision():
    column = [0.1, "0.25", 3, np.float32(0.5), None, "nan", np.int64(2**53)]
    np.testing.assert_array_equal(numbers(column), [0.1, 0.25, 3, 0.5, np.nan, np.nan, 2.0**53])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((value, "not a finite number") for value in ("five", "inf", math.inf, True, "1,5", "nan nan")),
        *((value, r"compute with numbers up to 3e\+38") for value in ("1e308", "-1e39", 1e300)),
    ],
)
def test_what_is_no_number_is_named_with_its_row(value, message):
    with pytest.raises(DataError, match=rf"row 102 is .*{message}"):
        numbers([1, value], first_row=101)
    assert numbers(["3.4e38"]).tolist() == [3.4e38]


@pytest.mark.parametrize(
    ("column", "separator", "expected"),
    [
        (["a|b", "b", " a | a ", None, "", "a||"], "|", [["a", "b"], ["b"], ["a"], None, None, ["a"]]),
        ([["a", "b"], [], None, ["b"]], None, [["a", "b"], [], None, ["b"]]),
        ([("a",), ("b", "a")], None, [["a"], ["b", "a"]]),
        ([np.array([1, 2]), np.array([3])], None, [["1", "2"], ["3"]]),
        (["['a', 'b']", '["b"]', "[]", ""], None, [["a", "b"], ["b"], [], None]),
        ([None, None], "|", [None, None]),
        ([], "|", []),
    ],
)
def test_lists(column, separator, expected):
    assert lists(column, separator=separator) == expected


@pytest.mark.parametrize(
    ("read", "error", "message"),
    [
        (lambda: texts(["a", ["b"]], first_row=7), DataError, r"row 8 is the list \['b'\].*multi_label=True"),
        (lambda: lists([None, "a|b"], first_row=4), DataError, r"row 5 is 'a\|b', not a list: give the separator"),
        (lambda: labels.sorted_classes(["a", None, "a"], of="the label column"), DataError, "same label 'a'"),
        (lambda: labels.sorted_classes([None], of="the label column"), DataError, "no labelled training row"),
        (
            lambda: labels.require_columns([[1], [2]], ["label"], task="rating"),
            ConfigError,
            r"takes 1 label column\(s\) \(label\) and was given 2",
        ),
        (lambda: labels.require_columns([[1], [2, 3]], ["a", "b"], task="aspects"), DataError, r"\[1, 2\]"),
        (lambda: Generation(missing="NA"), ConfigError, "missing is 'NA'"),
        (lambda: Generation(missing=[None]), ConfigError, "give a list of texts"),
    ],
)
def test_what_cannot_be_read_is_refused(read, error, message):
    with pytest.raises(error, match=message):
        read()


def test_classes_are_sorted_by_number_or_by_text():
    assert labels.sorted_classes(["10", "9", None, "9", "-1"], of="x") == ("-1", "9", "10")
    assert labels.sorted_classes(["10", "9", "b"], of="x") == ("10", "9", "b")


def test_class_names():
    assert labels.class_names(3, of="x") == ("0", "1", "2")
    assert labels.class_names([1, 2.0, " b"], of="x") == ("1", "2", "b")


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (1, "has 1 class"),
        (0, "has 0 class"),
        (True, "are True"),
        ("ab", "are 'ab'"),
        (None, "are None"),
        (["a", "a "], r"\['a'\] more than once"),
        (["a", ""], "is empty"),
    ],
)
def test_wrong_class_names(classes, message):
    with pytest.raises(ConfigError, match=message):
        labels.class_names(classes, of="x")


def test_ids_and_mask():
    ids, keep = labels.class_ids(["b", "x", None, "a"], ["a", "b"])
    assert ids.tolist() == [1, -100, -100, 0]
    assert keep.tolist() == [True, True, False, True]
    assert (ids.dtype, keep.dtype) == (np.int64, np.bool_)


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (["yes", "Yes", "YES", "no"], [("yes", "Yes", "YES")]),
        (["caf\u00e9", "cafe\u0301", "cafe"], [("caf\u00e9", "cafe\u0301")]),
        (["not so", "notso", "not  So"], [("not so", "notso", "not  So")]),
        (["1", "2", "01"], []),
        (["a", "b"], []),
        (["a", "A", "b", "B"], [("a", "A"), ("b", "B")]),
    ],
)
def test_classes_that_differ_in_capitals_or_spaces_are_named(names, alike):
    notes = [str(one) for one in labels.odd_classes({name: 1_000 + number for number, name in enumerate(names)})]
    assert len(notes) == bool(alike)
    for group in alike:
        written = [ascii(name) if name == "cafe\u0301" else repr(name) for name in group]
        counts = [1_000 + names.index(name) for name in group]
        assert ", ".join(f"{one} ({count:,})" for one, count in zip(written, counts, strict=True)) in notes[0]


@pytest.mark.parametrize(
    ("names", "is_scale"),
    [(["3 stars", "3 Stars", "4 stars"], True), (["4", "★★★★", "-", "3"], True), (["no", "No"], False)],
)
def test_alike_classes_of_a_scale_have_a_task_that_reads_their_numbers(names, is_scale):
    (note,) = map(str, labels.odd_classes(dict.fromkeys(names, 2)))
    assert ("use task='rating' or task='ordinal', which read numbers" in note) == is_scale


def test_aspects_name_the_classes_that_are_alike():
    columns = [["good", "Good", "bad"], ["a", "b", "a"]]
    task = Aspects.fit(columns, names=["food", "place"])
    (note,) = map(str, task.codec.class_notes(task.encode_labels(columns)[0]))
    assert note.startswith("aspect 'food': classes that differ")
    assert "'Good' (1), 'good' (1)" in note


def test_words_for_missing_beside_other_labels_are_named():
    task = Classification(classes=["a", "b"], multi_label=True, separator="|")
    assert task.codec.notes([["a|None", "b|NA|None", "None", "a", ""]]) == [
        "labels left out beside others, since they mean missing (task.missing): 'None' (2), 'NA' (1)"
    ]
    assert Classification(classes=["a", "None"], multi_label=True, separator="|").codec.notes([["a|None"]]) == []
