"""Tables that describe values: what is read of them, what is refused, and how it is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attribune.errors import AttribuneError, ConfigError, DataError, ModelFolderError
from attribune.schema import Categorical, Date, MultiLabel, Number, Numeric, Schema, Text, ValueTable, Vector
from attribune.schema.description_kinds import field_from_dict, infer_field
from attribune.schema.descriptions import describe
from attribune.schema.schema import Revision

ROWS = {"user": ["a", "a", "b", "c", None]}
USERS: dict[str, list[Any]] = {
    "user": ["c", "b", "a", "z"],
    "age": [30, None, 50, 1000],
    "city": ["Rome", "Oslo", "Rome", "Nome"],
}


def fitted(users: dict[str, Any] = USERS, **options: Any) -> Schema:
    values = ValueTable(table=users, key="user", source="users.csv", **options)
    return Schema.fit(ROWS, [Categorical("user")], values={"user": values})


def features(schema: Schema) -> np.ndarray:
    return schema["user"].description.features


def test_described_values_have_ids_behind_those_of_training_rows() -> None:
    schema = fitted()
    assert list(schema["user"].values) == ["a", "b", "c", "z"]
    assert schema["user"].counts.tolist() == [1, 2, 1, 1, 0]
    assert schema.encode({"user": ["z", "a", "new"]})[0][:, 0].tolist() == [4, 1, 0]


def test_features_are_standardised_by_the_values_of_training_rows() -> None:
    """Ages 50 and 30 of a and c have the mean 40 and the deviation 10; z, of no row, is 96 deviations away."""
    assert features(fitted()).tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 2], [-1, 1, 1], [96, 1, 0]]
    assert fitted().fit_report.lines()[-1] == (
        "values of 'user': 3 in training rows are described in 4 rows of users.csv by age (number), city (categorical)"
    )


def test_values_that_are_rare_or_beyond_the_limit_stay_if_they_are_described() -> None:
    values = ValueTable(table=USERS, key="user")
    schema = Schema.fit(ROWS, [Categorical("user", min_count=2)], values={"user": values})
    assert list(schema["user"].values) == ["a", "b", "c", "z"]
    few = ValueTable(table={"user": ["b"], "age": [3]}, key="user")
    schema = Schema.fit(ROWS, [Categorical("user", max_values=1)], values={"user": few})
    assert list(schema["user"].values) == ["a", "b"]
    assert "values beyond max_values left out: 1" in schema.fit_report.lines()[0]


def test_a_constant_number_and_a_huge_one_stay_finite() -> None:
    same = fitted({"user": ["a", "b", "z"], "age": [7, 7, 1e300]})
    assert np.isfinite(features(same)).all()
    assert features(same)[:, 0].tolist() == [0, 0, 0, 0, 1e4]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (Number("x"), [[1, 2.5, None], ["1", "2", ""], ["1", "nan", "3"]]),
        (Categorical("x"), [[True, False, None], ["f", "m", "f", "f"]]),
        (MultiLabel("x"), [[["a", "b"], ["c"]], ["['a']", '["b", "c"]']]),
        (Vector("x"), [[[1.0, 2.0], [3.0, 4.0]], ["[1, 2]", "[3, 4e-1]"]]),
        (Text("x"), [[f"she who number {i} reads many long books" for i in range(9)]]),
        (None, [[f"name{i}" for i in range(9)], [None, None], ["", "nan"], []]),
    ],
)
def test_kinds_are_told_by_the_cells(kind: Any, columns: list[list[Any]]) -> None:
    assert [infer_field("x", cells, missing=frozenset(["nan"])) for cells in columns] == [kind] * len(columns)


@pytest.mark.parametrize(
    ("users", "options", "part"),
    [
        ({"user": ["a", "b", "a"], "age": [1, 2, 3]}, {}, "rows 1 and 3 both describe 'a' in column 'user': keep one"),
        ({"user": ["a", "a "], "age": [1, 1]}, {}, "rows 1 and 2 both describe 'a'"),
        ({"user": [1, "1.0"], "age": [1, 1]}, {}, "rows 1 and 2 both describe '1'"),
        ({"user": ["x", "y"], "age": [1, 2]}, {}, "none of the 3 values of 'user' in the training rows ('a',"),
        ({"user": [None, ""], "age": [1, 2]}, {}, "users.csv has no value in its column 'user'"),
        ({"user": [], "age": []}, {}, "users.csv has no value in its column 'user'"),
        ({"user": ["a", "b"], "p": [1e-60, 2e-60]}, {}, "numbers too large or too close to each other"),
        ({"user": ["a", "b"], "p": [1e40, 2e40]}, {}, "(the largest is 2e+40): give them in another unit"),
        ({"user": ["a", "b"]}, {}, "users.csv has no column beside 'user' that describes its values"),
        ({"user": ["a", "b"], "age": [None, ""]}, {}, "users.csv has no column beside 'user'"),
        ({"user": ["a", "b"], "age": [1, 2]}, {"fields": (Number("agee"),)}, "did you mean 'age'?"),
        ({"user": ["a", "b"], "age": [1, 2]}, {"fields": (Number("age"), Number("age"))}, "column age is named twice"),
        ({"user": ["a", "b"], "age": [1, "old"]}, {"fields": (Number("age"),)}, "row 2: 'old' is not a finite number"),
        ({"user": ["a", "b"], "age": [1, "inf"]}, {"fields": (Number("age"),)}, "row 2: 'inf' is not a finite number"),
        ({"user": ["a", "b", "z"], "age": [None, None, 3]}, {}, "column 'age' is empty for all values that training"),
        ({"user": ["a", "b", "z"], "age": [None, None, "m"]}, {"fields": (Categorical("age"),)}, "'age' is empty for"),
        ({"user": ["a", "b"], "v": [[1.0, 2.0], [3.0]]}, {}, "column 'v' has vectors of 1 and 2 numbers"),
        ({"user": ["a", "b"], "v": [[1.0], [float("nan")]]}, {}, "row 2: [None] is not a vector of finite numbers"),
        ({"user": ["a", "b"], "v": [[1.0], [None]]}, {}, "row 2: [None] is not a vector of finite numbers"),
        (
            {"user": ["a", "b"], "v": ["[1,2]", "[1;2]"]},
            {"fields": (Vector("v"),)},
            "'v' has vectors of 1 and 2 numbers",
        ),
        ({"user": ["a", "b"], "v": ["[1,2]", "1,2"]}, {"fields": (Vector("v"),)}, "row 2: '1,2' is not a vector"),
        ({"user": ["a", "b"], "v": [None, None]}, {"fields": (Vector("v"),)}, "column 'v' has no vector"),
        ({"user": ["a", "b"], "v": [{"k": 1}, {"k": 2}]}, {}, "column 'v' holds struct"),
        ({"user": ["a", "b"], "t": ["x", "y"]}, {"fields": (Text("t"),)}, "column 't' is of texts, and there is no"),
        ({"user": [["a"], ["b"]], "age": [1, 2]}, {}, "is not one value"),
    ],
)
def test_tables_that_cannot_be_used_are_refused_with_the_cure(
    users: dict[str, Any], options: dict[str, Any], part: str
) -> None:
    with pytest.raises(AttribuneError) as caught:
        fitted(users, **options)
    message = str(caught.value)
    assert part in message
    assert "\n" not in message
    assert "users.csv" in message or "named twice" in message or "no encoder" in message


def test_what_has_no_list_of_values_cannot_be_described() -> None:
    rows, values = {"user": [1, 2, 3]}, {"user": ValueTable(table=USERS, key="user")}
    with pytest.raises(ConfigError, match="are not listed \\(it is numeric\\)"):
        Schema.fit(rows, [Numeric("user")], values=values)
    with pytest.raises(ConfigError, match="are not listed \\(it is date\\)"):
        Schema.fit(rows, [Date("user")], values=values)
    with pytest.raises(ConfigError, match="are not listed \\(it is hashed\\)"):
        Schema.fit(rows, [Categorical("user", unseen="hash")], values=values)
    with pytest.raises(ConfigError, match="which is no attribute"):
        Schema.fit({"item": ["a"]}, [Categorical("item")], values=values)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"kind": "numbr", "name": "x"}, "unknown kind of column 'numbr'"),
        ({"kind": "number"}, "has no name"),
        ({"kind": "number", "name": "x", "bins": 3}, "has no option bins"),
        ({"name": "x", "unseen": "hash"}, "is for attributes of rows"),
    ],
)
def test_wrong_settings_of_columns(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        field_from_dict(settings)


def test_columns_that_say_nothing_are_passed_over_with_a_note() -> None:
    users = {"user": ["a", "b", "c", "d"], "name": ["Ann", "Bob", "Cid", "Dan"], "age": [1, 2, 3, 4]}
    assert any("column 'name' is not read" in line for line in fitted(users).fit_report.lines())


def described(table: dict[str, Any], schema: Schema) -> Any:
    more = ValueTable(table=table, key="user", source="new.csv")
    return describe(schema["user"].description, more, Categorical("user"), missing=frozenset())


def test_further_values_are_described_as_those_of_training() -> None:
    keys, found = described({"user": ["new", "a"], "age": [45, 0], "city": ["Oslo", "Bonn"]}, fitted())
    assert (keys, found.tolist()) == (["new", "a"], [[0.5, 1, 2], [-4, 1, 0]])
    with pytest.raises(DataError, match="no column 'city'"):
        described({"user": ["n"], "age": [1]}, fitted())
    vectors = fitted({"user": ["a", "b"], "v": [[1.0, 2.0], [3.0, 4.0]]})
    with pytest.raises(DataError, match="has vectors of 3 numbers, but those of the training have 2"):
        described({"user": ["n"], "v": [[1.0, 2.0, 3.0]]}, vectors)


def test_descriptions_move_with_their_values() -> None:
    schema = fitted()
    known = {"user": {"x": np.array([2, 1, 1], np.float32)}}
    grown = Revision.adding(schema, {"user": {"y": 3, "x": 0}}, known).schema
    assert features(grown).tolist() == [*features(schema).tolist(), [0, 0, 0], [2, 1, 1]]
    smaller = Revision.removing(grown, {"user": ("a", "y")}).schema
    assert features(smaller).tolist() == [[0, 0, 0], [0, 0, 2], [-1, 1, 1], [96, 1, 0], [2, 1, 1]]
    other = Schema.fit({"user": ["a", "q"]}, [Categorical("user")])
    assert features(schema.grown(other)).tolist() == [*features(schema).tolist(), [0, 0, 0]]


def test_saved_and_loaded_they_are_the_same(tmp_path: Path) -> None:
    schema = fitted({**USERS, "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0], None], "tags": [["k"], ["k", "l"], [], None]})
    schema.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    for again in (loaded, Schema.from_dict(json.loads(json.dumps(schema.to_dict())))):
        assert np.array_equal(features(again), features(schema))
        for one, other in zip(schema["user"].description.fields, again["user"].description.fields, strict=True):
            assert (one.spec, one.slots, one.categories) == (other.spec, other.slots, other.categories)
            assert np.array_equal(one.mean, other.mean)
            assert np.array_equal(one.scale, other.scale)
    (file,) = tmp_path.glob("schema.features-*.safetensors")
    assert Schema.files_beside(tmp_path / "schema.json") == [file.name]
    fitted().save(tmp_path / "schema.json")
    assert not file.exists()


@pytest.mark.parametrize(
    "change", ["gone", "short", "empty", "other", "elsewhere", "size", "slots", "twice", "nan", "kind"]
)
def test_damaged_descriptions_are_named(tmp_path: Path, change: str) -> None:
    fitted().save(tmp_path / "schema.json")
    (file,) = tmp_path.glob("schema.features-*.safetensors")
    data = json.loads((tmp_path / "schema.json").read_text(encoding="utf-8"))
    about = data["attributes"][0]["description"]
    if change == "gone":
        file.unlink()
    elif change in ("short", "empty"):
        file.write_bytes(file.read_bytes()[: 60 if change == "short" else 0])
    elif change == "other":
        fitted({"user": ["a"], "age": [1]}).save(tmp_path / "other.json")
        (foreign,) = tmp_path.glob("other.features-*.safetensors")
        about["features_file"] = foreign.name
    elif change == "elsewhere":
        about["features_file"] = f"../{tmp_path.name}/{file.name}"
    elif change == "size":
        about["fields"] = about["fields"][:1]
    elif change == "slots":
        about["fields"][1]["slots"] = 2
    elif change == "twice":
        about["fields"][1]["categories"] = ["Rome", "Rome"]
    elif change == "nan":
        about["fields"][0]["scale"] = [0.0]
    else:
        about["fields"][0]["spec"]["kind"] = "numbers"
    (tmp_path / "schema.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"schema\.json: .*; restore the file"):
        Schema.load(tmp_path / "schema.json")
