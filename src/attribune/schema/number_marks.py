"""Numbers that are written as in other countries: with a decimal comma, or with marks between thousands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from attribune.schema.columns import MISSING, NO_NUMBER

_BETWEEN_THOUSANDS = r"[.' \x{00a0}\x{202f}]"
_NUMBER = rf"^\s*[+-]?(\d{{1,3}}({_BETWEEN_THOUSANDS}\d{{3}})+|\d+)?(,\d+)?\s*$"
_PLAIN = r"^\s*[+-]?(\d+\.?\d*|\.\d+)\s*$"
_SMALL = r"^\s*[+-]?\d{1,3}\s*$"  # a number without thousands
_NO_VALUE = pa.array(sorted({*MISSING, *NO_NUMBER}), pa.string())
_FEWEST = 5  # numbers with a point before three digits, which are rarely all fractions


def _thousands(mark: str) -> str:
    """Return the pattern of whole numbers with a mark between thousands."""
    return rf"^\s*[+-]?[1-9]\d{{0,2}}([{mark}]\d{{3}})+\s*$"


def has_thousands(text: str) -> bool:
    """Whether a text is a number with commas between thousands, or with one before three decimals."""
    return re.match(_thousands(","), text.partition(".")[0]) is not None


@dataclass
class MarkedNumbers:
    """What the numbers of a column, all of them texts, say of a comma or point in them.

    Attributes:
        mark: the comma or point.
        example: the first number with the mark.
        count: numbers with it, and `several` those that have more than one.
        small: whole numbers below 1000, and `others` larger ones and fractions that do not have it between thousands.
    """

    mark: str
    example: str = ""
    count: int = 0
    several: int = 0
    small: int = 0
    others: int = 0

    @property
    def thousands(self) -> Literal["no", "perhaps", "yes"]:
        """Whether the marks are between thousands, as they are where numbers have several, or smaller ones none."""
        if self.others:
            return "no"
        is_likely = self.mark == "," or self.count >= _FEWEST
        return "yes" if is_likely and (self.several or self.small) else "perhaps"

    def add(self, cells: pa.ChunkedArray) -> bool:
        """Count the cells of a batch; False where one is no number."""
        cells = cells.filter(pc.invert(pc.is_in(pc.utf8_trim_whitespace(cells), value_set=_NO_VALUE))).drop_null()
        is_thousands = pc.match_substring_regex(cells, _thousands(self.mark))
        is_small = pc.match_substring_regex(cells, _SMALL)
        rest = cells.filter(pc.invert(pc.or_(is_thousands, is_small)))
        if not pc.all(pc.match_substring_regex(rest, _NUMBER if self.mark == "," else _PLAIN), min_count=0).as_py():
            return False
        with_mark = cells.filter(pc.match_substring(cells, self.mark))
        if len(with_mark) and not self.count:
            self.example = str(with_mark[0].as_py()).strip()
        self.count += len(with_mark)
        self.others += len(rest)
        self.several += pc.sum(pc.greater(pc.count_substring(with_mark, self.mark), 1), min_count=0).as_py()
        self.small += pc.sum(is_small, min_count=0).as_py()
        return not (self.several and self.others)


def marked_columns(batches: Iterable[pa.Table], marks: str) -> dict[str, dict[str, MarkedNumbers]]:
    """Find the columns of texts that hold only numbers, of which at least one has a mark.

    Cells without a value are passed over. Beside decimal commas, points, spaces and apostrophes may stand between
    thousands.

    Args:
        batches: of one table.
        marks: comma, point or both.

    Returns:
        For each mark, what is found of each column, in the order of the columns.
    """
    found: dict[str, dict[str, MarkedNumbers]] | None = None
    for batch in batches:
        if found is None:
            found = {mark: {name: MarkedNumbers(mark) for name in batch.column_names} for mark in marks}
        for mark, columns in found.items():
            found[mark] = {name: counts for name, counts in columns.items() if counts.add(batch[name])}
        if not any(found.values()):
            break
    found = found or {mark: {} for mark in marks}
    return {mark: {name: one for name, one in columns.items() if one.count} for mark, columns in found.items()}


def comma_columns(found: Mapping[str, MarkedNumbers], *, is_given: bool = False) -> dict[str, str]:
    """Choose the columns whose numbers have decimal commas, each with the first of them.

    Args:
        found: the columns with commas.
        is_given: that commas are decimal ones, where those of a column may also be between thousands.
    """
    return {
        name: one.example for name, one in found.items() if not (one.several if is_given else one.thousands == "yes")
    }


def point_columns(found: Mapping[str, MarkedNumbers], *, is_sure: bool) -> dict[str, str]:
    """Choose the columns whose numbers have points that may stand between thousands, each with the first.

    Args:
        found: the columns with points.
        is_sure: only those that have smaller numbers without a point, or numbers with several.
    """
    wanted = ("yes",) if is_sure else ("yes", "perhaps")
    return {name: one.example for name, one in found.items() if one.thousands in wanted}


def with_points(table: pa.Table, columns: Iterable[str]) -> pa.Table:
    """Write the numbers of columns with a decimal point, and nothing between thousands."""
    for name in columns:
        cells = table[name]
        is_number = pc.match_substring_regex(cells, _NUMBER)
        plain = pc.replace_substring(pc.replace_substring_regex(cells, _BETWEEN_THOUSANDS, ""), ",", ".")
        table = table.set_column(table.column_names.index(name), name, pc.if_else(is_number, plain, cells))
    return table
