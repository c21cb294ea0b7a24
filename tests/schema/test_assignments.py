"""Values that are given by hand."""

from __future__ import annotations

import pytest

from attribune.errors import ConfigError
from attribune.schema import Categorical, MultiLabel, Numeric, Schema
from attribune.schema.schema import assigned_ids, assignments_text, parse_assignments


@pytest.fixture
def schema() -> Schema:
    table = {"user": ["17", "17", "4"], "tags": [["ale", "dark"], ["ale"], []], "year": [1990, 2000, 2010]}
    kinds = [Categorical("user"), MultiLabel("tags"), Numeric("year", bins=3)]
    return Schema.fit(table, kinds)


def test_words_are_read_and_written() -> None:
    given = parse_assignments(["user=u=1", "tags=a b", "tags= c"])
    assert given == {"user": ["u=1"], "tags": ["a b", " c"]}
    assert assignments_text({"user": ["u=1"], "tags": ["a", "b"]}) == "user=u=1 tags=a tags=b"
    assert assignments_text({}) == "no attributes"


@pytest.mark.parametrize("word", ["user", "=u1", "user=", " =x", "user= "])
def test_words_that_name_no_value(word: str) -> None:
    with pytest.raises(ConfigError, match="does not name a value"):
        parse_assignments([word])


def test_ids_are_those_of_a_row(schema: Schema) -> None:
    assert assigned_ids(schema, {}).tolist() == [0, 0, 0, 0]
    given = {"tags": ["dark", "ale"], "user": ["17.0"], "year": ["2005"]}
    row = {"user": ["17"], "tags": [["dark", "ale"]], "year": [2005]}
    assert assigned_ids(schema, given).tolist() == schema.encode(row)[0][0].tolist()
    assert assigned_ids(Schema([]), {}).shape == (0,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uses": ["17"]}, r"no attribute 'uses'; did you mean 'user'\? \(attributes: user, tags, year\)"),
        ({"user": ["171"]}, r"attribute 'user' has no value '171' in training; did you mean '17'\?"),
        ({"tags": ["ale", "drk"]}, r"attribute 'tags' has no value 'drk' in training; did you mean 'dark'\?"),
        ({"user": ["17", "4"]}, "attribute 'user' has one value for each row, but 2 are given"),
        ({"user": ["N/A"]}, "'N/A' means that there is no value: leave it out"),
        ({"year": ["old"]}, r"^year=old: 'year' is a number for the model: .* such as 12\.5, or leave it out"),
        ({"year": ["19,5"]}, r"^year=19,5: 'year' is a number .* decimal point, such as 19\.5, or leave it out"),
    ],
)
def test_what_is_not_known_is_named(schema: Schema, given: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        assigned_ids(schema, given)


def test_hashed_values_are_all_known() -> None:
    schema = Schema.fit({"user": ["a"]}, [Categorical("user", unseen="hash", buckets=8)])
    assert 1 <= assigned_ids(schema, {"user": ["never seen"]})[0] <= 8
    strict = Schema.fit({"user": ["abc"]}, [Categorical("user", unseen="error")])
    with pytest.raises(ConfigError, match=r"'abd' was not seen in training; did you mean 'abc'\?"):
        assigned_ids(strict, {"user": ["abd"]})
