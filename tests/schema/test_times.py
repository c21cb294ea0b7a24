"""Times: what is written in different ways is one point in time, and what can be read in two ways is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from attribune.errors import ConfigError, DataError
from attribune.schema.times import check_date_format, read_times

MOMENTS = [dt.datetime(2024, 5, 31, 13, 7, tzinfo=dt.UTC), dt.datetime(2023, 12, 3, 0, 30, tzinfo=dt.UTC)]


def written(template: str) -> list[str]:
    """The moments in the offset of a zone two hours ahead, where the template ends in one."""
    zone = dt.timezone(dt.timedelta(hours=2)) if template.endswith("%z") else dt.UTC
    return [moment.astimezone(zone).strftime(template) for moment in MOMENTS]


@pytest.mark.parametrize(
    ("template", "date_format"),
    [
        ("%Y-%m-%dT%H:%M", None),
        ("%Y-%m-%d %H:%M:%S %z", None),
        ("%Y/%m/%d %H:%M UTC", None),
        ("%Y-%m-%dT%H:%MZ", "iso"),
        ("%Y/%m/%d %I:%M:%S %p GMT+0", None),
        ("%d.%m.%Y %H:%M", None),
        ("%d-%m-%Y %H.%M", None),
        ("%d/%m/%Y %Hh%M", None),
        ("%d/%m/%Y %H:%M:%S.000 %z", "day-first"),
        ("%m/%d/%Y, %I:%M %p", None),
        ("%m-%d-%Y %H:%M GMT", "month-first"),
        ("%d %b %Y at %H.%M", "%d %b %Y at %H.%M"),
        ("%a %b %d %H:%M:%S %Y %z", "%a %b %d %H:%M:%S %Y %z"),
    ],
)
def test_every_way_of_writing_is_the_same_moment(template: str, date_format: str | None) -> None:
    expected = [int(moment.timestamp() * 1_000_000) for moment in MOMENTS]
    assert read_times(written(template), column="when", date_format=date_format).tolist() == expected


def test_seconds_and_milliseconds_keep_their_order() -> None:
    for factor in (1, 1_000):
        numbers = [moment.timestamp() * factor for moment in MOMENTS]
        assert np.array_equal(read_times([str(number) for number in numbers], column="when"), numbers)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["3/4/2024", "5/6/2024"], {}, "'when'.*'3/4/2024' may begin with the day or the month.*='day-first' or "),
        (["31/5/2024", "5/31/2024"], {}, "row 2: the time '5/31/2024' is not a date that begins with the day"),
        (["5/31/2024", "2024-05-31"], {}, "row 2: the time '2024-05-31' is not a date that begins with the month"),
        (["2024-05-31", "31.5.2024"], {}, "row 2: the time '31.5.2024' is not an ISO date"),
        (["1717160820", "1701563400000"], {}, "row 2: .*'1701563400000' looks like milliseconds.*'1717160820', like s"),
        (["1717160820000", "1717160820000", "1701563400"], {}, "row 3: .*looks like seconds"),
        (["5/31/2024", "13:07"], {"date_format": "month-first"}, "row 2: the time '13:07'"),
        (["5/31/2024 13:07 PM", "x"], {}, "row 1"),
        (["5/31/2024 1:07 PST", "x"], {}, "row 1"),
        (["31 May 2024", "31 Mai 2024"], {"date_format": "%d %b %Y"}, "row 2: .*is not of the format %d %b %Y"),
        ([None, "2024"], {}, "row 1 has no time: correct or remove the row"),
        (["2024", None], {}, "row 2 has no time"),
        (["01/Jan/2020"], {}, "row 1: the time '01/Jan/2020' .*: name its format with date_format='%d/%m/%y'"),
        (
            ["2024", "May 31, 2024"],
            {},
            "row 2: .*is not a number, as the first .*: one format reads all .* '2024' is of",
        ),
        (["31/2/2024"], {}, "row 1: the time '31/2/2024'"),
    ],
)
def test_what_is_ambiguous_or_mixed_is_named(texts: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        read_times(texts, column="when", **options)


@pytest.mark.parametrize("name", ["american", "", "%", "%Q-"])
def test_a_format_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="choose one of iso, day-first, month-first"):
        check_date_format(name)
