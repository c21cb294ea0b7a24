"""Columns of dates as several attributes: the format is found in the training rows, and each part is an attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attribune.errors import DataError
from attribune.schema.columns import Table, column_batches
from attribune.schema.kinds import Date, DateAge, DateCycle, DatePart, Kind, checked_names
from attribune.schema.times import DATE_CYCLES, DATE_PARTS, date_format_of, has_time_of_day


def with_parts(kinds: Sequence[Kind], table: Table, *, missing: frozenset[str]) -> list[Kind]:
    """Return the attributes that are fitted: those of the kind `Date` become one for each of their parts.

    Raises:
        DataError: for a missing column, or a column of dates without a value.
        ConfigError: for dates that are not recognised, or that can be read in two ways; for a part that is called like
            another attribute.
    """
    fitted: list[Kind] = []
    for spec in kinds:
        fitted += _parts(spec, _texts(spec, table, missing)) if isinstance(spec, Date) else [spec]
    checked_names(fitted)
    return fitted


def _texts(spec: Date, table: Table, missing: frozenset[str]) -> list[str]:
    """Return the distinct texts of a column that are values."""
    found: dict[str, None] = {}
    for first_row, columns in column_batches(table, [spec.column]):
        found |= dict.fromkeys(spec.read(columns[spec.column], missing=missing, first_row=first_row).texts)
    if not found:
        raise DataError(f"attribute {spec.name!r} has no date in any training row: leave it out, or check the column")
    return list(found)


def _parts(spec: Date, texts: Sequence[str]) -> list[Kind]:
    date_format = spec.date_format or date_format_of(texts, column=spec.name)
    parts = spec.parts or [one for one in DATE_PARTS if one != "hour" or has_time_of_day(texts, date_format)]
    fitted: list[Kind] = []
    for part in parts:
        name = f"{spec.name}.{part}"
        if part == "age":
            fitted.append(DateAge(name, of=spec.name, date_format=date_format))
        elif part in DATE_CYCLES:
            fitted += [
                DateCycle(f"{name}.{wave}", of=spec.name, date_format=date_format, cycle=part, wave=wave)
                for wave in ("sine", "cosine")
            ]
        else:
            settings: dict[str, Any] = {one: getattr(spec, one) for one in ("min_count", "max_values", "unseen")}
            fitted.append(DatePart(name, of=spec.name, part=part, date_format=date_format, **settings))
    return fitted
