"""Columns of dates: their parts as attributes, how formats are found, and what is said of cells that cannot be read."""

from __future__ import annotations

import datetime as dt
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import small_runs
from datasets import Dataset
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.data.checking.table_check import check
from attribune.errors import AttribuneError, ConfigError
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.schema import Categorical, Date, Number, Numeric, Schema
from attribune.schema.schema import assigned_ids

MOMENTS = [dt.datetime(2023, 5, 31, 13, 7), dt.datetime(2024, 12, 2), dt.datetime(2024, 5, 17, 23, 59)]
DAYS = ["2023-05-31", "2024-12-02", "2024-05-17"]


def values(schema: Schema, cells: Any) -> dict[str, list[str | None]]:
    """The value of each cell that the schema finds, by attribute with a vocabulary."""
    ids = schema.encode({"posted": cells})[0]
    listed = [one for one in schema if one.spec.lists_values]
    return {
        one.name: [one.values[id_ - 1] if id_ else None for id_ in ids[:, one.columns.start].tolist()] for one in listed
    }


@pytest.mark.parametrize(
    ("cells", "has_hours"),
    [
        (DAYS, False),
        ([day.replace("-", "/") for day in DAYS], False),
        (["31.5.2023", "2.12.2024", "17.5.2024"], False),
        (["5/31/2023 1:07 PM", "12/2/2024 12:00 AM", "5/17/2024 11:59 PM"], True),
        (pd.Series(MOMENTS), True),
        (pa.array(MOMENTS, pa.timestamp("ms")), True),
        (pa.array([one.date() for one in MOMENTS]), False),
        ([one.replace(tzinfo=dt.UTC).timestamp() for one in MOMENTS], True),
        ([str(int(one.replace(tzinfo=dt.UTC).timestamp() * 1000)) for one in MOMENTS], True),
    ],
)
def test_parts_are_the_same_however_dates_are_written(cells: Any, has_hours: bool) -> None:
    schema = Schema.fit({"posted": cells}, [Date("posted")])
    found = values(schema, cells)
    assert found["posted.year"] == ["2023", "2024", "2024"]
    assert found["posted.month"] == ["May", "December", "May"]
    assert found["posted.weekday"] == ["Wednesday", "Monday", "Friday"]
    assert found.get("posted.hour") == (["13", "0", "23"] if has_hours else None)
    years = schema["posted.age"].description.features[1:, 0]
    assert (np.diff(years) > 0).all()
    assert schema.sources == ("posted",)
    again = Schema.from_dict(schema.to_dict())
    assert again.names == schema.names
    np.testing.assert_array_equal(again.encode({"posted": cells})[0], schema.encode({"posted": cells})[0])


def test_other_formats_and_parts_by_name() -> None:
    schema = Schema.fit({"posted": ["May 31, 2023"]}, [Date("posted", date_format="%b %d, %Y", parts=["month", "age"])])
    assert schema.names == ("posted.month", "posted.age")
    assert values(schema, ["May 02, 2030", "2023-05-31", "31.05.23"]) == {"posted.month": ["May", "May", None]}
    given = Schema.fit({"posted": ["5 Jan. 2024"]}, [Date("posted", date_format="%d %b. %Y", parts=["month"])])
    assert values(given, ["6 Jan. 2025", "2025-01-06"]) == {"posted.month": ["January", "January"]}
    turned = Schema.fit({"posted": ["2024-05-06"]}, [Date("posted", date_format="%Y-%d-%m", parts=["month"])])
    assert values(turned, ["2025-07-06", "2024-05-31"]) == {"posted.month": ["June", None]}


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (["3/4/2024", "5/6/2024"], {}, "give Date('posted', date_format='day-first') or .*'month-first'"),
        (["soon", "later", "2024-05-01"], {}, "2 of 3 distinct texts are not recognised as dates, such as 'soon'"),
        ([None, "?"], {}, "'posted' has no date in any training row"),
        (DAYS, {"date_format": "dd.mm"}, "date_format is 'dd.mm' (it has no %): choose one of iso, .*milliseconds"),
        (DAYS, {"parts": ["year", "year"]}, "name each part once"),
        (DAYS, {"parts": ["century"]}, "parts"),
        (DAYS, {"unseen": "hash"}, "few values, which are not hashed"),
    ],
)
def test_what_cannot_be_dates_is_refused(cells: list[Any], options: dict[str, Any], message: str) -> None:
    pattern = re.escape(message).replace(re.escape(".*"), ".*")
    with pytest.raises(AttribuneError, match=pattern):
        Schema.fit({"posted": cells}, [Date("posted", **options)])


def test_the_end_of_a_cycle_is_next_to_its_beginning() -> None:
    table = {"posted": ["2023-01-01 00:00", "2023-12-31 23:00", "2023-07-02 12:00", "2023-04-02 06:00"]}
    schema = Schema.fit(table, [Date("posted", parts=["season", "daytime"])])
    waves = [f"posted.{cycle}.{wave}" for cycle in ("season", "daytime") for wave in ("sine", "cosine")]
    assert list(schema.names) == waves
    assert schema.sources == ("posted",)
    seasons, daytimes = (
        np.array([[float(attribute.spec.value_of(text)) for attribute in pair] for text in table["posted"]])  # type: ignore[arg-type]
        for pair in (list(schema)[:2], list(schema)[2:])
    )
    np.testing.assert_allclose(seasons, [[0, 1], [0, 1], [0, -1], [1, 0]], atol=0.02)
    np.testing.assert_allclose(daytimes, [[0, 1], [-0.26, 0.97], [0, -1], [1, 0]], atol=0.01)
    assert schema[waves[0]].spec.value_of("0.5") == "0.5"
    assert schema[waves[0]].spec.value_of("1.5") is None


def test_a_part_is_not_called_like_another_attribute() -> None:
    table = {"posted": DAYS, "posted.year": ["a", "b", "c"]}
    with pytest.raises(ConfigError, match=r"attribute 'posted\.year' is given twice"):
        Schema.fit(table, [Date("posted"), Categorical("posted.year")])


def test_cells_that_cannot_be_read_are_missing_and_said() -> None:
    schema = Schema.fit({"posted": [*DAYS, "soon", "soon", None, "-"]}, [Date("posted")])
    said = schema.fit_report.lines()
    assert all("rows without a value: 4" in line for line in said)
    assert sum("'soon' (2)" in line for line in said) == 1
    ids, report = schema.encode({"posted": ["later", None, "2024-05-17", "2031-05-17", "9999-12-31"]})
    assert not ids[:2].any()
    assert ids[2].all()
    years, ages = report.attributes["posted.year"], report.attributes["posted.age"]
    assert (years.missing, years.unread, years.unseen) == (2, 1, 2)
    assert ages.clipped == 2
    assert ids[3, 3] == ids[4, 3] == schema["posted.age"].size - 1
    assert sum("such as 'later', which count as missing: 1" in line for line in report.lines()) == 1
    assert any("numbers beyond those of training, read as the nearest of these: 2" in line for line in report.lines())


def test_values_by_hand() -> None:
    schema = Schema.fit({"posted": DAYS}, [Date("posted", parts=["year", "month", "age"])])
    whole = assigned_ids(schema, {"posted": ["2024-05-17"]})
    np.testing.assert_array_equal(whole, schema.encode({"posted": ["2024-05-17"]})[0][0])
    assert assigned_ids(schema, {"posted.month": ["May"]}).tolist() == [0, whole[1], 0]
    assert assigned_ids(schema, {"posted": ["2031-05-17"]})[0] == 0
    for given, message in [
        ({"posted": ["soon"]}, "'soon' is not an ISO date"),
        ({"posted.year": ["1999"]}, "no value"),
    ]:
        with pytest.raises(ConfigError, match=message):
            assigned_ids(schema, given)


def test_a_missing_number_is_neither_zero_nor_the_mean() -> None:
    """A missing number is the unknown value, with id 0, and counted; no number that a row has reads like it."""
    numbers = [-1.0, 0.0, 1.0, None, "n/a", float("nan")]
    schema = Schema.fit({"one": numbers, "two": numbers}, [Number("one"), Numeric("two", bins=2)])
    ids = schema.encode({"one": numbers, "two": numbers})[0]
    assert (ids[:3] > 0).all()
    assert not ids[3:].any()
    read = schema["one"].description.features[ids[:, 0]]
    assert read[1].tolist() == pytest.approx([0, 1], abs=1e-7)
    assert read[3].tolist() == [0, 0]
    assert all("rows without a value: 3" in line for line in schema.fit_report.lines())


def test_the_check_proposes_the_flag() -> None:
    rows = small_runs.reviews(60, seed=4)
    told = pd.DataFrame(rows).assign(posted=[f"{1 + number % 28}/3/2024" for number in range(60)])
    open_ = told.assign(posted=[f"{1 + number % 9}/{1 + number % 7}/2024" for number in range(60)])
    for table, said in [(told, "Date('posted')"), (open_, "'day-first') or Date('posted', date_format='month-first')")]:
        (found,) = [one for one in check(table).findings if one.code == "dates-not-read"]
        assert said in found.text


def dated_rows() -> list[dict[str, Any]]:
    chance = random.Random(5)
    rows = small_runs.reviews(90, seed=3)
    for row in rows:
        day = dt.date(2022, 1, 1) + dt.timedelta(days=chance.randrange(700))
        row["posted"] = chance.choices([f"{day:%d/%m/%Y}", "", "soon"], [8, 1, 1])[0]
    return rows


@pytest.fixture(params=["injector", "linear", "boosting"])
def dated_run(request: pytest.FixtureRequest, trained_runs: TrainedRuns) -> Path:
    return trained_runs(request.param, "--date", "posted", "--no-baselines", rows=dated_rows())


def test_runs_read_one_column(dated_run: Path) -> None:
    recipe, predictor = load_run(dated_run)
    assert recipe.data.attributes[-1] | {"kind": "date", "name": "posted"} == recipe.data.attributes[-1]
    assert predictor.columns == ("text", "user", "posted")
    table = Dataset.from_list(dated_rows())
    hidden = [predictor.logits(table, hide_attributes=[name])[0] for name in ("posted", "posted.year")]
    given, unread = predictor.logits(table)[0], np.array([cell in ("", "soon") for cell in table["posted"]])
    np.testing.assert_allclose(hidden[0][unread], given[unread], atol=1e-5)
    assert np.abs(hidden[0] - given).max() > 1e-4
    if "boosting" not in RunFolder.of(dated_run).read_recipe().method["name"]:  # whose few trees may split on one part
        assert np.abs(hidden[0] - hidden[1]).max() > 1e-4
    if (judged := RunFolder.of(dated_run).read_results().verdict) is not None and judged.by_attribute:
        assert [gain.attribute for gain in judged.by_attribute] == ["user", "posted"]


def test_a_year_is_forgotten(dated_run: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    run = trained_runs.copy(dated_run, tmp_path / "run")
    assert main(["forget", str(run), "--attribute", "posted.year", "--value", "2022"]) == 0
    assert "2022" not in load_run(run)[1].schema["posted.year"].values
