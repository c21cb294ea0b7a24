"""Hierarchies: a row has the path to each of its levels as values; what is missing or unknown leaves those above.

The vocabulary is written by hand: ids follow the number of rows, then the alphabet.
"""

from __future__ import annotations

from typing import Any

import pytest

from attribune.errors import ConfigError, DataError
from attribune.runs.hidden_attributes import known_values
from attribune.schema import Date, Hierarchy, Schema
from attribune.schema.columns import column_batches

PLACES: dict[str, list[Any]] = {
    "country": ["US", "US", "US", "FR", None, "US", "N/A"],
    "state": ["IL", "IL", "MA", "IDF", "X", None, "q"],
    "city": ["Springfield", "Chicago", "Springfield", None, "Y", "Lost", "z"],
}
NAME = "country > state > city"
VALUES = ["US", "US > IL", "FR", "FR > IDF", "US > IL > Chicago", "US > IL > Springfield", "US > MA"]


def fitted(**options: Any) -> Schema:
    return Schema.fit(PLACES, [Hierarchy(["country", "state", "city"], **options)])


def test_a_row_has_the_path_to_each_level_and_children_of_two_parents_are_two_values() -> None:
    schema = fitted()
    assert list(schema[NAME].values) == [*VALUES, "US > MA > Springfield"]
    ids, report = schema.encode(PLACES)
    assert ids.tolist() == [[1, 2, 6], [1, 2, 5], [1, 7, 8], [3, 4, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert report.attributes[NAME].below_empty == 3
    assert report.attributes[NAME].missing == 2
    assert schema.columns == ("country", "state", "city")


def test_beside_dates_a_hierarchy_is_one_source_of_several_columns() -> None:
    table = PLACES | {"posted": ["2024-01-03", "2023-02-05", "2024-05-06", "", "2024-01-03", "", ""]}
    schema = Schema.fit(table, [Hierarchy(["country", "state", "city"]), Date("posted", parts=["year", "age"])])
    assert schema.names == (NAME, "posted.year", "posted.age")
    assert schema.columns == ("country", "state", "city", "posted")
    assert schema.sources == (NAME, "posted")
    assert [[one.name for one in schema.named(name)] for name in schema.sources] == [
        [NAME],
        ["posted.year", "posted.age"],
    ]
    known = known_values(schema, schema.encode(table)[0])
    assert {name: rows.tolist() for name, rows in known.items()} == {
        NAME: [True, True, True, True, False, True, False],
        "posted": [True, True, True, False, True, False, False],
    }


def test_an_unseen_child_is_its_parent() -> None:
    new = {"country": ["US", "US", "DE"], "state": ["IL", "TX", "IL"], "city": ["Nowhere", "Chicago", "Chicago"]}
    ids, report = fitted().encode(new)
    assert ids.tolist() == [[1, 2, 0], [1, 0, 0], [0, 0, 0]]
    assert report.attributes[NAME].unseen == 6
    assert fitted().unknown(new)[NAME][0] == ["US > IL > Nowhere"]


def test_a_rare_child_is_its_parent() -> None:
    schema = fitted(min_count=2)
    assert list(schema[NAME].values) == ["US", "US > IL"]
    assert schema.encode(PLACES)[0].tolist()[:3] == [[1, 2, 0], [1, 2, 0], [1, 0, 0]]


def test_the_report_counts_levels_and_names_under_several_parents() -> None:
    report = fitted().fit_report
    assert report is not None
    levels, shared = report.lines()[-2:]
    assert "2, 3, 3 values" in levels
    assert "1 name stands under several" in shared
    assert "'Springfield' under 'US > IL' and 'US > MA'" in shared


@pytest.mark.parametrize("cells", [["US > MA > Springfield", None], [["US > MA > Springfield"], []]])
def test_paths_may_be_given_by_the_name_of_the_hierarchy(cells: list[Any]) -> None:
    assert fitted().encode({NAME: cells})[0].tolist() == [[1, 7, 8], [0, 0, 0]]


def test_one_column_may_hold_paths() -> None:
    schema = Schema.fit({"shelf": ["Books > Crime", "Books", "Toys"]}, [Hierarchy("shelf")])
    assert list(schema["shelf"].values) == ["Books", "Books > Crime", "Toys"]


def test_values_map_to_themselves_and_bring_the_levels_above() -> None:
    attribute = fitted()[NAME]
    ids = attribute.ids_of_values(list(attribute.values))
    assert ids.max(axis=1).tolist() == list(range(1, 9))
    assert ids[7].tolist() == [1, 7, 8]
    assert attribute.with_levels_below(["US > MA"]) == ["US > MA", "US > MA > Springfield"]


def test_it_is_saved_and_read() -> None:
    schema = fitted(min_count=2)
    read = Schema.from_dict(schema.to_dict())
    assert read[NAME].spec == schema[NAME].spec
    assert read.encode(PLACES)[0].tolist() == schema.encode(PLACES)[0].tolist()


def test_paths_are_the_same_in_batches() -> None:
    batches = [columns[NAME].to_pylist() for _, columns in column_batches(PLACES, [NAME, "city"], batch_size=2)]
    assert [path for batch in batches for path in batch] == next(column_batches(PLACES, [NAME]))[1][NAME].to_pylist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a > a"}, "name each of its columns once"),
        ({"name": ["a", ""]}, "name each of its columns once"),
        ({"name": "a > b", "separator": ";"}, "no separator"),
        ({"name": "a > b", "unseen": "hash"}, "no value is unknown"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Hierarchy(**options)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(DataError, match="no column 'city'"):
        fitted().encode({"country": ["US"], "state": ["IL"]})
