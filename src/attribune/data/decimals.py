"""Numbers with a decimal comma, in the columns of text files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from attribune.schema.columns import MISSING, NO_NUMBER

__all__ = ["comma_columns", "with_points"]

_BETWEEN_THOUSANDS = r"[.' \x{00a0}\x{202f}]"
_NUMBER = rf"^\s*[+-]?(\d{{1,3}}({_BETWEEN_THOUSANDS}\d{{3}})+|\d+)?(,\d+)?\s*$"
_NO_VALUE = pa.array(sorted({*MISSING, *NO_NUMBER}), pa.string())


def comma_columns(batches: Iterable[pa.Table]) -> dict[str, str]:
    """Find the columns of texts that hold only numbers, of which at least one has a decimal comma.

    Points, spaces and apostrophes between thousands are read, too; cells without a value are passed over.

    Args:
        batches: of one table.

    Returns:
        For each column the first of these numbers, in the order of the columns.
    """
    found: dict[str, str] = {}
    names: list[str] | None = None
    for batch in batches:
        names = [name for name in names or batch.column_names if _holds_numbers(batch[name])]
        for name in names:
            if name not in found and (example := _first_comma(batch[name])) is not None:
                found[name] = example
        if not names:
            break
    return {name: found[name] for name in names or () if name in found}


def _holds_numbers(column: pa.ChunkedArray) -> bool:
    is_number = pc.match_substring_regex(column, _NUMBER)
    is_no_value = pc.is_in(pc.utf8_trim_whitespace(column), value_set=_NO_VALUE)
    return bool(pc.all(pc.or_(is_number, is_no_value)).as_py())


def _first_comma(column: pa.ChunkedArray) -> str | None:
    found = column.filter(pc.match_substring(column, ","))
    return str(found[0].as_py()).strip() if len(found) else None


def with_points(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Write the numbers of columns with a decimal point, and nothing between thousands."""
    if not columns:
        return table
    cells = [
        _with_point(column) if name in columns else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(cells, names=table.column_names)


def _with_point(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    is_number = pc.match_substring_regex(cells, _NUMBER)
    plain = pc.replace_substring(pc.replace_substring_regex(cells, _BETWEEN_THOUSANDS, ""), ",", ".")
    return pc.if_else(is_number, plain, cells)
