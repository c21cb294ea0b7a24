"""Times in the cells of tables: numbers, ISO dates, dates with the day or the month first, or of a given format."""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np

from attribune.core.arrays import Array
from attribune.core.door import as_argument, as_attribute
from attribune.core.wording import counted
from attribune.errors import ConfigError, RowError
from attribune.findings import Finding
from attribune.schema.columns import number_of

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_CURE = "correct or remove the row, or split by group or at random"
_SETTING = "data.split.date_format"
_ISO_EXAMPLE = "an ISO date such as 2024-05-31"
_NUMERIC_DATE = re.compile(
    r"(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})"
    r"(?:,?[ T](?P<hour>\d{1,2})(?P<colon>[:.h])(?P<minute>\d{2})"
    r"(?:(?P=colon)(?P<second_of_minute>\d{2})(?P<fraction>\.\d{1,6})?)?"
    r"(?: ?(?P<half>[AaPp][Mm]))?(?: ?(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2}))?)?"
)
_ISO_VARIANT = re.compile(r"(?P<year>\d{4})(?P<mark>[./-])(?P<month>\d{2})(?P=mark)(?P<day>\d{2})(?P<rest>.*)")
_ZONE = re.compile(r" (?=[+-]\d{2}:?\d{2}$)| ?(?P<name>UTC|GMT)$")
_SHORT_ZONE = re.compile(r" ?(?:GMT|UTC)(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?$")  # GMT+2
_HALF_DAY = re.compile(r"(?P<hour>\d{1,2})(?P<rest>:\d{2}(:\d{2})?) ?(?P<half>[AaPp][Mm])\b")
_SAMPLE = 200  # cells that are tried as dates
_SECONDS, _MILLISECONDS = (1e8, 1e10), (1e11, 1e13)  # of the years 1973 to 2286

_ORDERS = ("day-first", "month-first")
DATE_FORMATS = ("iso", *_ORDERS)
"""How dates may be written, beside numbers and the formats of ``strptime``."""
_YEAR = "\u5e74"  # the sign behind a year in Chinese and Japanese, before those of month and day
_WRITTEN = (
    *("%d %b %Y", "%b %d, %Y", "%b %d %Y", "%d-%b-%Y", "%d-%b-%y", "%b %Y", "%A, %b %d, %Y"),
    *("%d %b %Y %H:%M", "%d %b %Y %H:%M:%S", "%b %d, %Y %H:%M", "%b %d, %Y %H:%M:%S", "%b %d, %Y %I:%M %p"),
    *(
        "%m %d, %Y",
        "%a, %d %b %Y %H:%M:%S %z",
        "%d %b %Y %H:%M:%S %z",
        "%a %b %d %H:%M:%S %z %Y",
        "%a %b %d %H:%M:%S %Y",
    ),
    f"%Y{_YEAR}%m\u6708%d\u65e5",
)
"""Formats that are found by themselves, since each can be read in one way alone; ``%b`` reads whole names, too."""
_MONTH = re.compile(
    r"\b(?P<short>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"(uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\b\.?",
    re.IGNORECASE,
)
_UTC = re.compile(r" ?(GMT|UTC)$| \((GMT|UTC)\)$")
_SHORT = tuple(one.replace(".", mark) for mark in "./-" for one in ("%d.%m.%y", "%m.%d.%y", "%y.%m.%d"))
"""Formats with a year of two digits, of which more than one may read a date."""
_LIKELY = re.compile(rf"{_MONTH.pattern}|{_YEAR}|\d[./-]\d|\d, \d{{4}}$", re.IGNORECASE)
_LONGEST = 50  # characters of a date
_SINCE_1970 = {"seconds": (_SECONDS, 1_000_000), "milliseconds": (_MILLISECONDS, 1_000)}  # range, microseconds of one

DateCycleName = Literal["season", "daytime"]
DATE_CYCLES: tuple[DateCycleName, ...] = ("season", "daytime")
"""The place of a date in its year, and of a time in its day: the last of December is next to the first of January."""
DatePartName = Literal["year", "month", "weekday", "hour", "age", "season", "daytime"]
DATE_PARTS: tuple[DatePartName, ...] = ("year", "month", "weekday", "hour", "age")
"""The default parts of a date; the age is the date as a number of years, such as 2024.38."""
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAMED: dict[str, frozenset[str]] = {
    "year": frozenset(map(str, range(dt.MINYEAR, dt.MAXYEAR + 1))),
    "month": frozenset(_MONTHS),
    "weekday": frozenset(_WEEKDAYS),
    "hour": frozenset(map(str, range(24))),
}

Reader: TypeAlias = Callable[[str], "float | int | None"]


def check_date_format(date_format: str, *, since_1970: bool = False) -> None:
    """Check a format of dates: one of `DATE_FORMATS`, or one of ``strptime``, such as ``%d %b %Y``.

    Args:
        since_1970: whether ``seconds`` and ``milliseconds`` since 1970 are formats, too.

    Raises:
        ConfigError: for any other.
    """
    names = (*DATE_FORMATS, *(_SINCE_1970 if since_1970 else ()))
    if date_format in names:
        return
    try:
        if "%" not in date_format:
            raise ValueError("it has no %")
        example = dt.datetime(2024, 5, 31, 13, 7, 9, tzinfo=dt.UTC).strftime(date_format)
        dt.datetime.strptime(example, date_format)
    except (ValueError, re.error) as error:
        raise ConfigError(
            f"date_format is {date_format!r} ({error}): choose one of {', '.join(names)}, or give one of "
            "Python's strptime, such as '%d %b %Y'"
        ) from error


def read_times(texts: Sequence[str | None], *, column: str, date_format: str | None = None) -> Array:
    """Read times as numbers (n,): as they are, or as microseconds since 1970, in UTC where a date has no time zone.

    Without a format the first row tells numbers from dates. Among dates such as 3/4/2024, those whose day is above 12
    tell whether the day or the month comes first.

    Raises:
        RowError: naming a row whose time cannot be read, or is written in another way than those before it.
        ConfigError: for dates that can be read in two ways.
    """
    reader, kind = _found_reader(texts, column) if date_format is None else _reader_of(date_format)
    times = np.empty(len(texts), dtype=np.float64 if kind.startswith("a number") else np.int64)
    known: dict[str, float | int | None] = {}
    for row, text in enumerate(texts, start=1):
        if text is not None and text not in known:
            known[text] = reader(text)
        moment = None if text is None else known[text]
        if text is None:
            raise RowError(f"column {column!r}, ", row, f" has no time: {_CURE}")
        if moment is None:
            cure = f"name its format with {as_argument(_SETTING, '%d/%m/%y')}, for times such as '31/05/24'"
            if row > 1:
                cure = f"one format reads all rows, and {texts[0]!r} is of another: write all times in one format"
            raise RowError(f"column {column!r}, ", row, f": the time {text!r} is not {kind}: {cure}; {_CURE}")
        times[row - 1] = moment
    if kind.startswith("a number"):
        _refuse_mixed_units(times, texts, column)
    return times


def _found_reader(texts: Sequence[str | None], column: str) -> tuple[Reader, str]:
    first = next((text for text in texts if text is not None), "")
    if read_moment(first, numeric=True) is not None:
        return lambda text: read_moment(text, numeric=True), "a number, as the first time is"
    if not _NUMERIC_DATE.fullmatch(first):
        written = _written_format(list(islice(filter(None, texts), _SAMPLE)))
        return (_iso, _ISO_EXAMPLE) if written is None else _reader_of(written)
    order = _order_of(texts)
    if order is None:
        raise _of_two_orders(column, first, [as_argument(_SETTING, one) for one in _ORDERS])
    return _reader_of(order)


def _of_two_orders(column: str, example: str, cures: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"column {column!r}: dates such as {example!r} may begin with the day or the month, and no row tells which: "
        f"give {' or '.join(cures)}"
    )


def _reader_of(date_format: str) -> tuple[Reader, str]:
    """Return what reads the dates of a format, and what to call them."""
    if date_format in _SINCE_1970:
        return lambda text: _since_1970(text, date_format), f"a number of {date_format} since 1970"
    if date_format == "iso":
        return _iso, _ISO_EXAMPLE
    if date_format == "day-first":
        return lambda text: _numeric_date(text, day=1), "a date that begins with the day, such as 31/5/2024"
    if date_format == "month-first":
        return lambda text: _numeric_date(text, day=2), "a date that begins with the month, such as 5/31/2024"
    return lambda text: _of_format(text, date_format), f"of the format {date_format}"


def _order_of(texts: Iterable[str | None]) -> str | None:
    """Return whether dates such as 31/5/2024 begin with the day or the month, by the first that tells; else None."""
    for text in texts:
        match = _NUMERIC_DATE.fullmatch(text or "")
        if match and int(match["first"]) > 12:
            return "day-first"
        if match and int(match["second"]) > 12:
            return "month-first"
    return None


def date_format_of(texts: Sequence[str], *, column: str) -> str:
    """Detect how the dates of a column are written: a format of `DATE_FORMATS`, or a unit of numbers since 1970.

    Args:
        texts: the distinct cells with a value; some may be no dates.

    Raises:
        ConfigError: for dates that can be read in two ways, or where more than half of the texts are no dates.
    """
    for unit in _SINCE_1970:
        if texts and all(_since_1970(text, unit) is not None for text in texts):
            return unit
    marked = [text for text in texts if _NUMERIC_DATE.fullmatch(text)]
    found = _order_of(marked) if 2 * len(marked) > len(texts) else _written_format(texts) or "iso"
    if found is None:
        raise _of_two_orders(column, marked[0], [as_attribute("date", column, one) for one in _ORDERS])
    bad = [text for text in texts if read_date(text, found) is None]
    if 2 * len(bad) > len(texts):
        raise ConfigError(
            f"column {column!r}: {len(bad):,} of {counted(len(texts), 'distinct text')} are not recognised as dates, "
            f"such as {bad[0]!r}: name their format, such as {as_attribute('date', column, '%d/%m/%y')} for "
            "'31/05/24', or leave the column out"
        )
    return found


def _written_format(texts: Sequence[str]) -> str | None:
    """Return the one of `_WRITTEN` that reads most of the texts, by a sample; None where it is less than half."""
    sample = texts[:_SAMPLE]
    found = _read_by(sample, _WRITTEN)
    best = max(found, key=lambda one: found[one], default=None)
    return best if best is not None and 2 * found[best] > len(sample) else None


def _read_by(texts: Sequence[str], formats: Sequence[str]) -> dict[str, int]:
    """Return how many of the texts each format reads, of those that read any."""
    likely = [text for text in texts if len(text) <= _LONGEST and _LIKELY.search(text)]
    found = {one: sum(_of_format(text, one) is not None for text in likely) for one in formats} if likely else {}
    return {one: number for one, number in found.items() if number}


def date_words(date_format: str) -> str:
    """Say what a date of a format is, such as ``a date of the format %d %b %Y``."""
    words = _reader_of(date_format)[1]
    return f"a date {words}" if words.startswith("of ") else words


@lru_cache(maxsize=100_000)  # each part of a date reads it
def read_date(text: str, date_format: str) -> dt.datetime | None:
    """Read a date of a format, in UTC; None for a text that is none."""
    moment = _reader_of(date_format)[0](text)
    is_other = moment is None and date_format not in _SINCE_1970 and not date_format.lower().startswith("%y")
    if is_other and not _NUMERIC_DATE.fullmatch(text):
        moment = _iso(text)  # dates of Python and pandas are written so
    try:
        return None if moment is None else _EPOCH + dt.timedelta(microseconds=moment)
    except OverflowError:
        return None


def has_time_of_day(texts: Iterable[str], date_format: str) -> bool:
    """Whether any date has a time other than midnight."""
    dates = (read_date(text, date_format) for text in texts)
    return any(date is not None and date.time() != dt.time() for date in dates)


def part_of_date(text: str, part: DatePartName, date_format: str) -> str | None:
    """Return a part of a date as text; a text that is such a part already stays, and any other gives None."""
    if text in _NAMED.get(part, ()):
        return text
    if part == "age" and date_format not in _SINCE_1970 and number_of(text) is not None:
        return text if dt.MINYEAR <= float(text) <= dt.MAXYEAR else None
    date = read_date(text, date_format)
    if date is None:
        return None
    if part == "age":
        return f"{date.year + _share_of_year(date):.5f}"
    return {
        "year": str(date.year),
        "month": _MONTHS[date.month - 1],
        "weekday": _WEEKDAYS[date.weekday()],
        "hour": str(date.hour),
    }[part]


def cycle_of_date(text: str, cycle: DateCycleName, wave: Literal["sine", "cosine"], date_format: str) -> str | None:
    """Return the sine or cosine of the place of a date in a cycle as text.

    A text that is a number from -1 to 1 already stays, and any other gives None.
    """
    if date_format not in _SINCE_1970 and (number := number_of(text)) is not None and -1 <= number <= 1:
        return text
    date = read_date(text, date_format)
    if date is None:
        return None
    midnight = date.replace(hour=0, minute=0, second=0, microsecond=0)
    share = _share_of_year(date) if cycle == "season" else (date - midnight) / dt.timedelta(days=1)
    return f"{(math.sin if wave == 'sine' else math.cos)(2 * math.pi * share):.5f}"


def _share_of_year(date: dt.datetime) -> float:
    passed = date - dt.datetime(date.year, 1, 1, tzinfo=dt.UTC)
    return passed / dt.timedelta(days=365 + calendar.isleap(date.year))


def _refuse_mixed_units(times: Array, texts: Sequence[str | None], column: str) -> None:
    """Refuse seconds since 1970 among milliseconds, where all times look like one or the other."""
    seconds, milliseconds = ((low <= times) & (times < high) for low, high in (_SECONDS, _MILLISECONDS))
    if seconds.any() and milliseconds.any() and (seconds | milliseconds).all():
        row = int(np.argmax(milliseconds if seconds[0] else seconds))
        unit, other = ("milliseconds", "seconds") if seconds[0] else ("seconds", "milliseconds")
        raise RowError(
            f"column {column!r}, ",
            row + 1,
            f": the time {texts[row]!r} looks like {unit} since 1970, and that of row 1, {texts[0]!r}, like {other}: "
            "write all in one unit",
        )


def _since_1970(text: str, unit: str) -> int | None:
    """Read a number of seconds or milliseconds since 1970."""
    (low, high), scale = _SINCE_1970[unit]
    number = number_of(text)
    return None if number is None or not low <= number < high else int(number * scale)


def _iso(text: str) -> int | None:
    """Read an ISO date, also with other marks between its parts, halves of the day, or a space before its zone."""
    if match := _ISO_VARIANT.fullmatch(text):
        rest = _SHORT_ZONE.sub(lambda of: f"{of['sign']}{of['hours']:0>2}:{of['minutes'] or '00'}", match["rest"])
        rest = _HALF_DAY.sub(lambda of: f"{_hour(of['hour'], of['half'])}{of['rest']}", rest)
        rest = _ZONE.sub(lambda zone: "Z" if zone["name"] else "", rest)
        text = f"{match['year']}-{match['month']}-{match['day']}{rest}"
    moment = read_moment(text, numeric=False)
    return None if moment is None else int(moment)


def _numeric_date(text: str, *, day: int) -> int | None:
    """Read a date such as 31/5/2024 1:07 PM, whose day is the first or second number."""
    match = _NUMERIC_DATE.fullmatch(text)
    if match is None:
        return None
    days, months = (match["first"], match["second"]) if day == 1 else (match["second"], match["first"])
    zone = {None: "", "UTC": "Z", "GMT": "Z"}.get(match["zone"], match["zone"])
    hour = _hour(match["hour"] or "0", match["half"])
    clock = f"{hour}:{match['minute'] or '00'}:{match['second_of_minute'] or '00'}{match['fraction'] or ''}"
    return _iso(f"{match['year']}-{months:>02}-{days:>02}T{clock}{zone}")


def _hour(hour: str, half: str | None) -> str:
    """Return the hour of a day from that of a half, if it is one; one that no half has gives 25."""
    if not half:
        return hour.zfill(2)
    return f"{int(hour) % 12 + 12 * (half.lower() == 'pm'):02}" if 1 <= int(hour) <= 12 else "25"


def _of_format(text: str, date_format: str) -> int | None:
    if date_format in _WRITTEN:
        text = _UTC.sub(lambda zone: " +0000" if zone[1] else "", _MONTH.sub(lambda month: month["short"], text))
    try:
        return _microseconds(dt.datetime.strptime(text, date_format))
    except ValueError:
        return None


def read_moment(text: str, *, numeric: bool) -> float | int | None:
    """Return a time as a number, or as microseconds since 1970 of an ISO date; None for any other text."""
    try:
        if numeric:
            number = float(text)
            return number if np.isfinite(number) else None
        return _microseconds(dt.datetime.fromisoformat(text))
    except ValueError:
        return None


def _microseconds(moment: dt.datetime) -> int:
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return (zoned - _EPOCH) // dt.timedelta(microseconds=1)


def time_split_finding(column: str) -> Finding:
    """Return the note on a column of times in a table whose rows are split at random."""
    return Finding("times-split-at-random", {"column": column})


def dates_finding(column: str, texts: Sequence[str]) -> Finding:
    """Return the note on a column of dates that is no attribute, with the formats in which they can be read."""
    try:
        date_format_of(texts, column=column)
        formats = [""]
    except ConfigError:
        formats = list(_ORDERS) if any(map(_NUMERIC_DATE.fullmatch, texts)) else []
        if not formats and (read := _read_by(texts, _SHORT)):
            formats = [one for one, number in read.items() if number == max(read.values())]
    return Finding("dates-not-read", {"column": column, "formats": formats, "example": next(iter(texts), "")})


def are_times(cells: Iterable[str | None]) -> bool:
    """Whether the first cells with a value are dates in one of the ways that are found by themselves."""
    found = list(islice(filter(None, cells), _SAMPLE))
    return bool(found) and _found_alone(found) == len(found) and all(number_of(text) is None for text in found)


def times_among(texts: Sequence[str]) -> int:
    """Return how many texts are dates, also such with a year of two digits, of which no text tells the order."""
    return _found_alone(texts) or max(_read_by(texts, _SHORT).values(), default=0)


def _found_alone(texts: Sequence[str]) -> int:
    """Return how many texts are dates in one of the ways that are found by themselves."""
    rest = [text for text in texts if _iso(text) is None]
    rest = [text for text in rest if all(_numeric_date(text, day=day) is None for day in (1, 2))]
    return len(texts) - len(rest) + max(_read_by(rest, _WRITTEN).values(), default=0)
