from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.schema import Categorical, EncodingReport, MultiLabel, Numeric, Schema

USERS = ["b", "a", "b ", None, "c", "N/A", "a", "b", 17.0, "17"]


def encode(schema: Schema, **columns: Any) -> list[list[int]]:
    return schema.encode(columns)[0].tolist()


def test_values_are_numbered_by_falling_count_and_then_by_text() -> None:
    schema = Schema.fit({"user": USERS}, [Categorical("user")])
    user = schema["user"]
    assert user.values == ("b", "17", "a", "c")
    assert user.counts.tolist() == [2, 3, 2, 2, 1]
    assert (user.size, user.start, user.slots, schema.slots, len(schema)) == (5, 0, 1, 1, 1)
    ids, report = schema.encode({"user": [*USERS, "new"]})
    assert ids.dtype == np.int64
    assert ids[:, 0].tolist() == [1, 3, 1, 0, 4, 0, 3, 1, 2, 2, 0]
    assert report.lines() == [
        "attribute 'user' in 11 rows: rows without a value: 2; values not in the vocabulary: 1; "
        "values trimmed of spaces: 1"
    ]


@pytest.mark.slow
@given(st.lists(st.sampled_from(["a", "b", "c", "d", " a", "", "NA"]), min_size=1))
def test_counts_are_those_of_a_slow_count(values: list[str]) -> None:
    plain = Counter(value.strip() for value in values if value.strip() not in ("", "NA"))
    if not plain:
        return
    user = Schema.fit({"u": values}, [Categorical("u")])["u"]
    ordered = sorted(plain, key=lambda value: (-plain[value], value))
    assert list(user.values) == ordered
    assert user.counts.tolist() == [len(values) - plain.total(), *(plain[value] for value in ordered)]


def test_rare_values_and_values_beyond_the_cap_are_left_out_and_counted() -> None:
    users = ["a"] * 4 + ["b"] * 3 + ["c"] * 3 + ["d"] * 2 + ["e", None]
    schema = Schema.fit({"u": users}, [Categorical("u", min_count=2, max_values=2)])
    assert schema["u"].values == ("a", "b")
    assert schema["u"].counts.tolist() == [7, 4, 3]
    fit = schema.fit_report.attributes["u"]
    assert (fit.found, fit.kept, fit.rare, fit.beyond_cap, fit.left_out_cells, fit.missing) == (5, 2, 1, 2, 6, 1)
    assert "values below min_count left out: 1; values beyond max_values left out: 2" in schema.fit_report.lines()[0]


def test_several_values_take_slots_and_the_rest_is_dropped_and_counted() -> None:
    rows = [["x", "y", "x"], [], None, ["z", "q", "x", "y"], ["nan"]]
    schema = Schema.fit({"tags": rows, "u": list("aabbb")}, [MultiLabel("tags", max_per_row=3), Categorical("u")])
    assert schema["tags"].values == ("x", "y", "q", "z")
    assert schema["tags"].counts.tolist() == [3, 2, 2, 1, 1]
    assert (schema["tags"].slots, schema["u"].start, schema.slots) == (3, 3, 4)
    ids, report = schema.encode({"tags": [*rows, ["new", "y", "q"]], "u": list("abcdef")})
    assert ids.tolist() == [[1, 2, 0, 2], [0, 0, 0, 1], [0, 0, 0, 0], [4, 3, 1, 0], [0, 0, 0, 0], [2, 3, 0, 0]]
    tags = report.attributes["tags"]
    assert (tags.rows, tags.missing, tags.unseen, tags.dropped) == (6, 3, 1, 1)
    assert "values dropped for lack of slots: 1" in report.lines()[0]


def test_slots_follow_the_longest_training_row() -> None:
    schema = Schema.fit({"tags": ["a|b", "c"]}, [MultiLabel("tags", separator="|")])
    assert schema.slots == 2
    assert encode(schema, tags=["c | b|a", "", "||a"]) == [[3, 2], [0, 0], [1, 0]]


@pytest.mark.parametrize(
    "column",
    [
        ["['a', \"it's\"]", "[]", "['1']"],
        ['["a", "it\'s"]', "", "[1]"],
        [["a", "it's"], None, [1.0]],
        pa.array([["a", "it's"], None, ["1"]], pa.large_list(pa.string())),
        pa.array([["a", "it's"], None, ["1", None]], pa.list_(pa.string(), 2)),
        pd.Series([np.array(["a", "it's"]), np.array([]), np.array(["1"])]),
    ],
)
def test_lists_come_as_lists_or_as_their_text(column: Any) -> None:
    schema = Schema.fit({"tags": [["a"], ["a", "it's"], ["1", "it's", "a"]]}, [MultiLabel("tags")])
    assert schema["tags"].values == ("a", "it's", "1")
    assert encode(schema, tags=column) == [[1, 2, 0], [0, 0, 0], [3, 0, 0]]


NUMBERS = ["twelve", "inf", "1_000", "true", "1,5"]


@pytest.mark.parametrize(
    ("kind", "column", "message"),
    [
        (MultiLabel, ["['a']", "a;b"], r"column 'c', row 2 holds text such as 'a;b', not a list: .*separator=';'"),
        (MultiLabel, ["['a'"], r"row 1 holds text"),
        (MultiLabel, ["['a', x]"], r"row 1: .* cannot be read as one"),
        (MultiLabel, ["[" * 5000 + "]" * 5000], r"cannot be read as one"),
        (MultiLabel, ["[['a']]"], r"column 'c', row 1: .*cannot be read as one"),
        (MultiLabel, [[["a"]]], r"holds lists of list<.*>: make each row one list"),
        (MultiLabel, [["a"], "b"], r"row 2: 'b' is not a list"),
        (Categorical, [None, ["a"]], r"column 'c', row 2: .* MultiLabel\('c'\)"),
        *((Numeric, ["1", "", one, one], rf"column 'c', row 3: '{one}' is not a finite number") for one in NUMBERS),
    ],
)
def test_what_is_not_of_the_kind_is_refused(kind: Any, column: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Schema.fit({"c": column}, [kind("c")])


def test_numbers_fall_into_quantile_bins_without_an_empty_one() -> None:
    schema = Schema.fit({"n": ["1", 2, 3.0, None, 4, 5, 6, "NaN"]}, [Numeric("n", bins=3)])
    number = schema["n"]
    assert (number.edges, number.values) == ((3.0, 5.0), ("below 3", "3 to below 5", "5 and above"))
    assert number.counts.tolist() == [2, 2, 2, 2]
    assert encode(schema, n=[-100, 2.9, 3, 4.99, 5, 1e9, None]) == [[1], [1], [2], [2], [3], [3], [0]]


@pytest.mark.slow
@given(st.lists(st.integers(-20, 20), min_size=1), st.integers(1, 12))
def test_every_bin_has_training_rows(numbers: list[int], bins: int) -> None:
    number = Schema.fit({"n": numbers}, [Numeric("n", bins=bins)])["n"]
    assert 1 <= len(number.values) <= bins
    assert (number.counts[0], number.counts[1:].min() > 0, number.counts.sum()) == (0, True, len(numbers))
    assert bins == 1 or len(set(numbers)) == 1 or len(number.values) > 1


def test_an_unseen_value_can_stop_everything() -> None:
    schema = Schema.fit({"u": ["anna", "bert", None]}, [Categorical("u", unseen="error")])
    assert encode(schema, u=["bert", None]) == [[2], [0]]
    with pytest.raises(DataError, match=r"attribute 'u', row 12: the value 'anne' .* did you mean 'anna'\?"):
        schema.encode({"u": ["anna", "anne"]}, first_row=11)


def test_hashed_values_are_listed_nowhere(tmp_path: Path) -> None:
    users = [f"person {number}" for number in range(500)]
    schema = Schema.fit({"u": [*users, None]}, [Categorical("u", unseen="hash", buckets=64, salt="pepper")])
    assert (schema["u"].size, schema["u"].values) == (65, ())
    assert (schema["u"].counts[0], schema["u"].counts.sum()) == (1, 501)
    schema.save(tmp_path / "schema.json")
    assert "person" not in (tmp_path / "schema.json").read_text()
    again = Schema.load(tmp_path / "schema.json")
    new = [*users, "someone new", None]
    ids = again.encode({"u": new})[0]
    assert (ids == schema.encode({"u": new})[0]).all()
    assert (ids[:-1].min() >= 1, ids[-1]) == (True, 0)
    assert np.bincount(ids[:500, 0], minlength=65)[1:].tolist() == schema["u"].counts[1:].tolist()
    plain = Schema.fit({"u": users}, [Categorical("u", unseen="hash", buckets=64)])
    assert (plain.encode({"u": users})[0] != ids[:500]).mean() > 0.9


def test_values_that_share_a_bucket_are_counted() -> None:
    users = [f"u{number}" for number in range(2000)]
    kind = Categorical("u", unseen="hash", buckets=1000)
    schema = Schema.fit({"u": users}, [kind])
    ids = schema.encode({"u": users})[0][:, 0].tolist()
    several = {bucket for bucket, times in Counter(ids).items() if times > 1}
    shared = schema.fit_report.attributes["u"].shared
    assert shared == sum(bucket in several for bucket in ids)
    assert schema.fit_report.attributes["u"].kept == len(set(ids))
    assert shared / 2000 == pytest.approx(1 - (1 - 1 / 1000) ** 1999, abs=0.03)
    assert f"values that share a bucket with another: {shared:,}" in schema.fit_report.lines()[0]


def test_hash_ids_do_not_change_between_releases() -> None:
    schema = Schema.fit({"u": ["anna", "bert"]}, [Categorical("u", unseen="hash", buckets=4096)])
    assert encode(schema, u=["anna", "bert"]) == [[1233], [3807]]


def test_two_values_in_one_bucket_take_one_slot() -> None:
    schema = Schema.fit({"t": [["a", "b", "c"]]}, [MultiLabel("t", unseen="hash", buckets=1)])
    assert encode(schema, t=[["a", "b"]]) == [[1, 0, 0]]


def test_a_salt_from_the_environment_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Categorical("u", unseen="hash", salt="env:PEPPER")
    with pytest.raises(ConfigError, match=r"environment variable 'PEPPER' .* is not set"):
        Schema.fit({"u": ["a"]}, [spec])
    monkeypatch.setenv("PEPPER", "secret" * 20)
    schema = Schema.fit({"u": ["a"]}, [spec])
    schema.save(tmp_path / "schema.json")
    assert "secret" not in (tmp_path / "schema.json").read_text()
    loaded = Schema.load(tmp_path / "schema.json")
    assert encode(loaded, u=["a", "b"]) == encode(schema, u=["a", "b"])
    monkeypatch.setenv("PEPPER", "another")
    with pytest.raises(ConfigError, match="the salt in env:PEPPER is not the one of training"):
        encode(loaded, u=["a"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical(""), "needs the name of its column"),
        (lambda: Categorical("u", min_count=0), "min_count=0 must be a whole number of at least 1"),
        (lambda: Categorical("u", max_values=0), "max_values=0"),
        (lambda: Categorical("u", buckets=True), "buckets=True"),
        (lambda: Categorical("u", unseen="ignore"), "must be 'unknown', 'error' or 'hash'"),
        (lambda: Categorical("u", unseen="error", min_count=2), "refuses every value outside the vocabulary"),
        (lambda: Categorical("u", unseen="hash", max_values=5), "lists no values"),
        (lambda: Categorical("u", salt="x"), "a salt needs unseen='hash'"),
        (lambda: Categorical("u", unseen="hash", salt="env:"), "is empty"),
        (lambda: MultiLabel("u", max_per_row=0), "max_per_row=0"),
        (lambda: MultiLabel("u", separator=""), "the separator is empty"),
        (lambda: Numeric("u", bins=0), "bins=0"),
        (lambda: Schema.fit({"u": ["a"]}, [5]), r"such as Categorical\('user'\)"),
        (lambda: Schema.fit({"u": ["a"]}, [Categorical("u"), Numeric("u")]), "'u' is given twice"),
        (lambda: Schema.fit({"u": ["a"]}, [Categorical("u")], missing="nan"), "must be a list of texts"),
        (lambda: Schema([])["u"], "no attribute 'u'"),
        (lambda: fitted()["uu"], r"no attribute 'uu'; did you mean 'u'\? \(attributes: u, t, n, h\)"),
        (lambda: Numeric("year", bin=3), "bin: there is no such setting"),
    ],
)
def test_settings_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (["", None], {}, "has no value in any of the 2 training rows"),
        (["a", "b"], {"min_count": 3}, "none of its 2 values is in 3 training rows: lower min_count"),
        (["NA", "NA", "None"], {}, r"no value in any of the 3 .*'NA' \(2\), 'None' \(1\)\): leave it out"),
    ],
)
def test_an_attribute_without_any_value_is_refused(values: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Schema.fit({"u": values}, [Categorical("u", **options)])


def test_what_means_missing_is_a_setting() -> None:
    schema = Schema.fit({"u": ["NA", "none", "a"]}, [Categorical("u")], missing=["none "])
    assert schema["u"].values == ("NA", "a")
    assert Schema.from_dict(schema.to_dict()).encode({"u": ["none", "NA"]})[0].tolist() == [[0], [1]]


def test_without_attributes_there_are_rows_without_slots() -> None:
    schema = Schema.fit({"text": ["a", "b"]}, [])
    for table in ({"text": ["a", "b"]}, datasets.Dataset(pa.table({"text": ["a", "b"]})), pd.DataFrame({"t": [1, 2]})):
        assert schema.encode(table)[0].shape == (2, 0)


def test_order_of_rows_and_batches_does_not_matter() -> None:
    random = np.random.default_rng(3)
    users = [f"u{number}" for number in random.zipf(1.5, 50_011) % 997]
    forward = Schema.fit({"u": users}, [Categorical("u")])
    backward = Schema.fit(datasets.Dataset(pa.table({"u": users[::-1]})), [Categorical("u")])
    assert forward.to_dict() == backward.to_dict()
    ids, report = forward.encode({"u": users})
    assert [forward["u"].values[number - 1] for number in ids[::997, 0]] == users[::997]
    assert report.attributes["u"].rows == 50_011


def test_reports_add_up() -> None:
    schema = Schema.fit({"u": ["a"]}, [Categorical("u")])
    report = sum((schema.encode({"u": values})[1] for values in (["a", None], ["b"])), EncodingReport({}))
    assert report.attributes["u"].rows == 3
    assert (report.attributes["u"].missing, report.attributes["u"].unseen) == (1, 1)


def fitted() -> Schema:
    table = {"u": ["é", "b", "b"], "t": ["x|y", "", "x"], "n": [1, 2, 3], "h": ["p", "q", "r"]}
    kinds = [
        Categorical("u", min_count=1),
        MultiLabel("t", separator="|"),
        Numeric("n", bins=2),
        Categorical("h", unseen="hash", buckets=7, salt="s"),
    ]
    return Schema.fit(table, kinds, missing=["", "-"])


ROWS = {"u": ["é", "-", "c"], "t": ["y", "z|x", ""], "n": [0, 9, None], "h": ["p", "new", "-"]}


def test_a_schema_survives_file_copy_and_pickle(tmp_path: Path) -> None:
    schema = fitted()
    schema.save(tmp_path / "schema.json")
    want = schema.encode(ROWS)[0].tolist()
    for other in (Schema.load(tmp_path / "schema.json"), copy.deepcopy(schema), pickle.loads(pickle.dumps(schema))):
        assert other.to_dict() == schema.to_dict()
        assert other.encode(ROWS)[0].tolist() == want
        assert [part.start for part in other] == [0, 1, 3, 4]
    assert "é" in (tmp_path / "schema.json").read_text(encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["schema.json"]


@pytest.fixture
def long_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vocabularies of more than one value count as long."""
    monkeypatch.setattr("attribune.schema.serialization._LISTED", 1)


@pytest.mark.usefixtures("long_lists")
def test_a_long_vocabulary_has_a_file_of_its_own(tmp_path: Path) -> None:
    schema = fitted()
    schema.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    assert loaded.to_dict() == schema.to_dict()
    assert loaded.encode(ROWS)[0].tolist() == schema.encode(ROWS)[0].tolist()
    assert "é" not in (tmp_path / "schema.json").read_text(encoding="utf-8")
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert len(names) == 3, names  # of u and t; bins and hashed values are no lists
    loaded.save(tmp_path / "schema.json")  # over the files that are mapped
    assert sorted(entry.name for entry in tmp_path.iterdir()) == names
    assert loaded.encode(ROWS)[0].tolist() == schema.encode(ROWS)[0].tolist()
    other = Schema.fit({"u": ["f", "g", "h"]}, [Categorical("u")])
    other.save(tmp_path / "schema.json")
    assert len(list(tmp_path.iterdir())) == 2
    assert Schema.load(tmp_path / "schema.json").to_dict() == other.to_dict()


def _foreign(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema({"value": pa.string()})) as file:
        file.write_batch(pa.record_batch({"value": pa.array(["a", "b"])}))


def _index_outside(path: Path) -> None:
    table = pa.ipc.open_file(str(path)).read_all()
    table = table.set_column(3, "place", pa.array(np.arange(len(table)) + 1))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)


@pytest.mark.usefixtures("long_lists")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_bytes(b""), "truncated or foreign"),
        (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "truncated or foreign"),
        (lambda path: path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xfe")), "truncated or foreign"),
        (_foreign, "truncated or foreign"),
        (_index_outside, "index points outside"),
    ],
)
def test_a_damaged_file_of_values_is_named(tmp_path: Path, spoil: Callable[[Path], Any], message: str) -> None:
    schema = Schema.fit({"u": ["é", "b", "é", "c"]}, [Categorical("u")])
    schema.save(tmp_path / "schema.json")
    (name,) = Schema.files_beside(tmp_path / "schema.json")
    file = tmp_path / name
    assert file.is_file()
    spoil(file)
    with pytest.raises(ModelFolderError, match=message) as caught:
        Schema.load(tmp_path / "schema.json")
    assert file.name in str(caught.value)


@pytest.mark.usefixtures("long_lists")
@pytest.mark.parametrize("name", ["../values.arrow", "/etc/passwd", 7])
def test_values_are_read_beside_the_schema_alone(tmp_path: Path, name: Any) -> None:
    Schema.fit({"u": ["a", "b"]}, [Categorical("u")]).save(tmp_path / "schema.json")
    data = json.loads((tmp_path / "schema.json").read_text())
    data["attributes"][0]["values_file"] = name
    (tmp_path / "schema.json").write_text(json.dumps(data))
    with pytest.raises(ModelFolderError, match="not a file beside"):
        Schema.load(tmp_path / "schema.json")


def change(path: tuple[Any, ...], value: Any) -> Any:
    def apply(data: dict[str, Any]) -> dict[str, Any]:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return data

    return apply


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change(("format",), "other"), "not a schema"),
        (change(("version",), 99), "schema version 99"),
        (lambda data: {**data, "attributes": [{"kind": "categorical"}]}, "lacks 'spec'"),
        (lambda data: [], "not a schema"),
        (change(("attributes", 0, "kind"), "matrix"), "unknown kind of attribute 'matrix'"),
        (change(("attributes", 0, "counts"), [1, 2]), "counts of shape"),
        (change(("attributes", 0, "counts"), [1, -2, 3]), "or negative ones"),
        (change(("attributes", 0, "counts"), "many"), "contradicts itself"),
        (change(("attributes", 0, "values"), ["b", "b"]), "lists .b. twice"),
        (change(("attributes", 0, "values"), ["b", 3]), "not text"),
        (change(("attributes", 0, "spec", "min_count"), 0), "min_count=0"),
        (change(("attributes", 0, "spec", "colour"), "red"), "contradicts itself"),
        (change(("attributes", 0, "edges"), [1.0]), "edges"),
        (change(("attributes", 0, "slots"), 2), "has 2 slots, not 1 to 1"),
        (change(("attributes", 1, "slots"), 33), "has 33 slots, not 1 to 32"),
        (change(("attributes", 2, "edges"), ["x"]), "contradicts itself"),
        (change(("attributes", 2, "edges"), []), "counts of shape"),
        (change(("attributes", 3, "spec", "buckets"), 8), "for 9 ids"),
        (change(("attributes", 3, "values"), ["p"]), "lists 1 values for 8 ids"),
        (change(("attributes", 1, "spec", "name"), "u"), "given twice"),
        (change(("attributes",), 5), "contradicts itself"),
    ],
)
def test_a_foreign_or_damaged_schema_is_refused(tmp_path: Path, spoil: Any, message: str) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(spoil(fitted().to_dict())), encoding="utf-8")
    with pytest.raises(ModelFolderError, match=message) as caught:
        Schema.load(path)
    assert str(path) in str(caught.value)


def test_a_truncated_missing_or_unwritable_schema_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    with pytest.raises(ModelFolderError, match=r"schema\.json: the schema file is missing"):
        Schema.load(path)
    fitted().save(path)
    whole = path.read_bytes()
    for content in (b"", whole[:1], whole[: len(whole) // 2], b"\xff" + whole):
        path.write_bytes(content)
        with pytest.raises(ModelFolderError, match=r"schema\.json: the schema is truncated or not JSON"):
            Schema.load(path)
    with pytest.raises(ModelFolderError, match="cannot be written"):
        fitted().save(tmp_path / "nowhere" / "schema.json")
    with pytest.raises(ModelFolderError, match="cannot be read"):
        Schema.load(tmp_path)


def test_all_wrong_settings_of_an_attribute_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Categorical("user", min_count=0, buckets=-1, unseen="perhaps")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "attribute 'user': min_count=0 must be a whole number of at least 1; attribute 'user': unseen='perhaps' must "
        "be 'unknown', 'error' or 'hash'; attribute 'user': buckets=-1 must be a whole number of at least 1"
    )


@pytest.mark.parametrize(
    ("spec", "cells", "missing", "said"),
    [
        (Categorical("u"), ["NA", "DE", "NA ", "None", "", None], 5, "'NA' (2), 'None' (1)"),
        (MultiLabel("u", separator="|"), ["NA|DE", "NA", "x|None", "", "DE"], 2, "'NA' (2), 'None' (1)"),
        (MultiLabel("u"), [["NA", "DE"], ["DE"], []], 1, "'NA' (1)"),
        (MultiLabel("u"), ["NA", "['DE', 'NA']"], 1, "'NA' (2)"),
        (Numeric("u"), ["NA", "1", "2"], 1, "'NA' (1)"),
        (Categorical("u"), ["DE", "", None], 2, None),
    ],
)
def test_cells_that_mean_no_value_are_named(spec: Any, cells: list[Any], missing: int, said: str | None) -> None:
    report = Schema.fit({"u": cells}, [spec]).fit_report
    assert report.attributes["u"].missing == missing
    (line,) = report.lines()
    assert ("cells that mean no value (data.missing): " in line) == (said is not None)
    assert said is None or line.endswith(said)
