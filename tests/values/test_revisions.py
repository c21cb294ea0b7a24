"""Schemas to which values are added, and from which they are taken."""

from __future__ import annotations

from typing import Any

import pytest

from attribune import Categorical, MultiLabel, Numeric, Schema
from attribune.errors import ConfigError
from attribune.schema.schema import Revision

SCHEMA = Schema.fit(
    {"user": ["a", "a", "b", "c", None], "tags": ["x;y", "y", "z", "", "y"], "price": [1, 2, 3, 4, 5]},
    [Categorical("user"), MultiLabel("tags", separator=";"), Numeric("price")],
)


def test_a_value_is_added_behind_the_others() -> None:
    revision = Revision.adding(SCHEMA, {"user": {"d": 3, "e": 1}, "tags": {}})
    user = revision.schema["user"]
    assert (list(user.values), user.counts.tolist()) == (["a", "b", "c", "d", "e"], [1, 2, 1, 1, 3, 1])
    assert {name: ids.tolist() for name, ids in revision.ids.items()} == {"user": [0, 1, 2, 3, 0, 0]}
    assert revision.schema["tags"].values == SCHEMA["tags"].values
    rows = {"user": ["e", "c", "new"], "tags": ["x", "y", ""], "price": [1, 2, 3]}
    assert revision.schema.encode(rows)[0][:, 0].tolist() == [5, 3, 0]


def test_a_value_is_removed_and_those_behind_move_up() -> None:
    revision = Revision.removing(SCHEMA, {"tags": ("y",)})
    tags = revision.schema["tags"]
    assert (list(tags.values), tags.counts.tolist()) == (["x", "z"], [1 + 3, 1, 1])
    assert revision.ids["tags"].tolist() == [0, 2, 3]
    assert revision.schema.slots == SCHEMA.slots


def test_what_was_added_is_removed_without_a_trace() -> None:
    added = Revision.adding(SCHEMA, {"user": {"d": 3}, "tags": {"w": 2}}).schema
    back = Revision.removing(added, {"user": ("d",), "tags": ("w",)}, count_rows=False).schema
    assert back.to_dict() == SCHEMA.to_dict()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Numeric("user", bins=2), "is of the kind numeric, which has no list of values"),
        (Categorical("user", unseen="hash", buckets=5), "is hashed: a value shares its vector"),
    ],
)
def test_attributes_without_a_list_of_values(spec: Any, message: str) -> None:
    fitted = Schema.fit({"user": [1, 2, 3, 4]}, [spec])
    with pytest.raises(ConfigError, match=message):
        Revision.adding(fitted, {"user": {"9": 1}})
    with pytest.raises(ConfigError, match=message):
        Revision.removing(fitted, {"user": ("1",)})
