"""Rows that are not independent: which texts and judges are found, and the note about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from attribune.data.clusters import (
    ClusterSettings,
    clustered,
    clusters_note,
    find_clusters,
    packed_clusters,
    unpacked_clusters,
)
from attribune.errors import ConfigError, DataError
from attribune.metrics.bootstrap import interval
from attribune.metrics.formulas import accuracy
from attribune.runs.recipe import EvaluationRecipe

Columns = dict[str, list[Any]]


def judgements(texts: int = 30, each: int = 4, judges: int = 8) -> Columns:
    """Every text is judged by some of the judges; a community is the text's own."""
    text = [f"text {number}" for number in range(texts) for _ in range(each)]
    judge = [f"j{(number + 3 * place) % judges}" for number in range(texts) for place in range(each)]
    return {"text": text, "judge": judge, "community": [f"c{one[-1]}" for one in text]}


def found(columns: Columns, cluster: Any = "auto", **changes: Any) -> dict[str, list[int]]:
    """The clusters of a table, numbered in the order in which they come."""
    settings = {"texts": ("text",), "judges": ("community", "judge")} | changes
    clusters = find_clusters(pa.table(columns), ClusterSettings(cluster=cluster, **settings))
    return {name: numbered(kind.tolist()) for name, kind in clusters.items()}


def numbered(values: list[Any]) -> list[int]:
    known = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return [known[value] for value in values]


def test_texts_and_their_judges_are_found() -> None:
    columns = judgements()
    expected = {name: numbered(columns[name]) for name in ("text", "judge")}
    assert found(columns) == expected
    assert found(columns, judges=("community",)) == {"text": expected["text"]}
    assert found(columns, judges=()) == {"text": expected["text"]}


def test_rows_alone_are_no_clusters() -> None:
    columns = judgements()
    once = [f"{text} {row}" for row, text in enumerate(columns["text"])]
    for texts in (once, ["one"] * len(once)):
        assert found({**columns, "text": texts}) == {}


def test_a_few_texts_that_stand_twice_are_no_judgements() -> None:
    columns = judgements(each=1, texts=100)
    columns["text"][:3] = ["same"] * 3
    assert found(columns) == {}
    columns["text"][:10] = ["same"] * 10
    assert set(found(columns, judges=("judge",))) == {"text"}  # some judged it twice


def speeches(speakers: int, each: int = 5) -> Columns:
    """Every speech is by one speaker, of one of three parties."""
    speaker = [f"s{row % speakers}" for row in range(speakers * each)]
    party = [f"p{row % 3}" for row in range(len(speaker))]
    return {"text": [f"speech {row}" for row in range(len(speaker))], "speaker": speaker, "party": party}


@pytest.mark.parametrize(
    ("speakers", "each", "are_found"), [(20, 5, True), (19, 5, False), (60, 2, True), (60, 1, False)]
)
def test_speakers_of_texts_that_are_not_shared_are_found(speakers: int, each: int, are_found: bool) -> None:
    columns = speeches(speakers, each)
    judges = ("party", "speaker")
    assert found(columns, judges=judges) == ({"speaker": numbered(columns["speaker"])} if are_found else {})
    assert found(columns, "rows", judges=judges) == {}


def test_two_columns_that_repeat_are_no_clusters() -> None:
    """Of reviews, neither users nor products would be enough."""
    columns = speeches(30)
    columns["product"] = [f"p{row // 4}" for row in range(150)]
    assert found(columns, judges=("speaker", "product")) == {}
    assert set(found(columns, judges=("product",))) == {"product"}
    assert set(found(columns, ("speaker", "product"))) == {"speaker", "product"}
    columns["text"][:40] = columns["text"][40:80]  # shared texts come first
    assert "text" in found(columns, judges=("speaker",))


def test_judges_who_judge_once_are_no_clusters() -> None:
    columns = judgements()
    columns["judge"] = [f"j{row}" for row in range(len(columns["text"]))]
    assert set(found(columns)) == {"text"}


def test_both_texts_of_a_pair_tell_texts_apart() -> None:
    columns = judgements() | {"reply": [f"reply {row // 2}" for row in range(120)]}
    assert len(set(found(columns, texts=("text", "reply"))["text"])) == 60


@pytest.mark.parametrize("cluster", ["judge", ("judge",), ["judge"]])
def test_a_column_is_taken_as_it_is(cluster: Any) -> None:
    columns = judgements()
    assert found(columns, cluster) == {"judge": numbered(columns["judge"])}
    assert set(found(columns, ("community", "text"))) == {"community", "text"}
    assert found(columns, "rows") == {}


def test_values_are_compared_as_attributes_are_and_a_missing_one_is_alone() -> None:
    columns = {"text": ["a"] * 6, "judge": [" 7", "7.0", None, None, "", "8"]}
    assert found(columns, "judge") == {"judge": [0, 0, 1, 2, 3, 4]}
    assert found({"text": ["a", "b", "a"], "tags": [["x"], ["x"], []]}, "tags") == {"tags": [0, 0, 1]}


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match=r"'rater', which the rows do not have: choose from text, judge, c"):
        found(judgements(), ("text", "rater"))


@pytest.mark.parametrize("cluster", ["", (), ("a", "b", "c"), ("a", "a"), ("text", "auto"), ("rows", "a"), ("a", "")])
def test_settings_that_cannot_be_are_refused(cluster: Any) -> None:
    with pytest.raises(ConfigError, match=r"cluster"):
        EvaluationRecipe.from_dict({"cluster": cluster})


def test_the_note_says_what_intervals_are_over() -> None:
    settings = ClusterSettings(cluster="auto", texts=("text",), judges=("judge", "not there"))
    clusters = find_clusters(pa.table(judgements()), settings)
    note = "120 rows are of 30 texts and 8 values of judge, and not independent: intervals are over these"
    assert clusters_note(clusters) == note
    assert clusters_note({}) is None
    again = unpacked_clusters({"rows": np.arange(120), **packed_clusters(clusters)})
    assert {name: kind.tolist() for name, kind in again.items()} == {
        name: kind.tolist() for name, kind in clusters.items()
    }


def test_metrics_of_other_rows_stay_as_they_are() -> None:
    clusters = {"text": np.arange(4, dtype=np.uint64) // 2}
    metrics = {"accuracy": accuracy([0, 1, 1, 0], [0, 1, 0, 0]), "other": accuracy([0, 1], [0, 1])}
    given = clustered(metrics, clusters)
    assert [len(metric.clusters) for metric in given.values()] == [1, 0]
    assert given["accuracy"].value() == metrics["accuracy"].value()


def test_intervals_do_not_depend_on_the_order_of_the_kinds() -> None:
    rng = np.random.default_rng(0)
    kinds = {name: rng.integers(0, 20, 200).astype(np.uint64) for name in ("text", "judge")}
    metrics = {"accuracy": accuracy(rng.integers(0, 2, 200), rng.integers(0, 2, 200))}
    one, other = (clustered(metrics, dict(order))["accuracy"] for order in (kinds.items(), reversed(kinds.items())))
    assert interval(one, resamples=200) == interval(other, resamples=200)


def test_a_few_repeated_texts_of_a_large_table_are_no_judgements() -> None:
    """Though they are more than a tenth of a small part of it."""
    settings = ClusterSettings(cluster="auto", texts=("text",), judges=())
    part = pa.table({"text": ["a", "a", "b", "b", *(f"text {number}" for number in range(16))]})
    rest = pa.table({"text": [f"other {number}" for number in range(200)]})
    assert find_clusters(part, settings)
    assert find_clusters(part, settings, parts=[part])
    assert find_clusters(part, settings, parts=[rest, part]) == {}
    judged = pa.table(judgements())
    assert find_clusters(judged, settings, parts=[rest, judged])


def test_speakers_of_a_large_table_are_those_of_its_parts() -> None:
    """Parts of one table have the same kinds, so that their metrics can be pooled."""
    settings = ClusterSettings(cluster="auto", texts=("text",), judges=("speaker",))
    whole = pa.table(speeches(30))
    part, rest = whole.slice(0, 15), whole.slice(15)
    assert find_clusters(part, settings) == {}
    assert len(np.unique(find_clusters(part, settings, parts=[part, rest])["speaker"])) == 15
    lists = pa.table({"text": whole["text"], "speaker": [[one] for one in whole["speaker"].to_pylist()]})
    assert find_clusters(lists, settings) == {}
