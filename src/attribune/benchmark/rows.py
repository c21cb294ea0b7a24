"""Rows of published files, line by line: what is kept, what is left out and why, what is broken and where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.data.json_lines import json_objects
from attribune.data.text_files import csv_rows, find_encoding, open_text, readable
from attribune.errors import DataError

if TYPE_CHECKING:
    from attribune.benchmark.cards import Part, Row

__all__ = [
    "GET_AGAIN",
    "RowLog",
    "lines",
    "read_csv",
    "read_json_lines",
    "read_reviews",
    "separated",
    "whole_number",
    "words",
]

GET_AGAIN = "get the file again"
_WORD = re.compile(r"https?://\S+|\w+(?:['\u2019-]\w+)*|[^\w\s]")


class RowLog:
    """What happened to the rows of a source.

    Args:
        skip_bad: leave broken rows out and count them, instead of refusing the file.

    Attributes:
        kept: rows that are in the set.
        left_out: rows that the paper leaves out, by reason.
        bad: rows that are broken, by reason; the first of each with its place.
        read: rows of each file, by its role, the broken ones among them.
        remarks: what a user should know of rows that are kept, by kind.
    """

    def __init__(self, *, skip_bad: bool = False) -> None:
        self.skip_bad = skip_bad
        self.left_out: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.read: Counter[str] = Counter()
        self.remarks: Counter[str] = Counter()
        self._seen: dict[str, dict[Hashable, str]] = {}

    def broken(self, place: str, reason: str, cure: str, *, found: object = "") -> None:
        """Say that a row is broken.

        Args:
            place: file and line.
            reason: what is wrong, in the same words for each such row: rows are counted by it.
            cure: what to do.
            found: what this row has, for the message.

        Raises:
            DataError: with place, reason and cure, unless broken rows are skipped.
        """
        if not self.skip_bad:
            seen = f" ({found})" if found else ""
            raise DataError(f"{place}: {reason}{seen}: {cure}, or leave such rows out with --skip-bad")
        self.bad[reason] += 1
        self.examples.setdefault(reason, place)

    def error(self, error: DataError) -> None:
        """The same for an error that says place, reason and cure itself."""
        place, _, reason = str(error).partition(": ")
        if not self.skip_bad:
            raise DataError(f"{error}, or leave such rows out with --skip-bad") from error
        reason = re.split(r":|;| \(", reason)[0]
        self.bad[reason] += 1
        self.examples.setdefault(reason, place)

    def leave_out(self, reason: str) -> None:
        """Count a row that the paper leaves out."""
        self.left_out[reason] += 1

    def first(self, kind: str, key: Hashable, place: str) -> bool:
        """Whether an id is new; a row whose id stands twice is broken."""
        seen = self._seen.setdefault(kind, {})
        earlier = seen.setdefault(key, place)
        if earlier is place:
            return True
        self.broken(
            place, f"the same {kind} stands twice", "remove one of the rows", found=f"{key!r}, first in {earlier}"
        )
        return False

    def writable(self, place: str, row: Mapping[str, Any]) -> bool:
        """Whether a row's texts can be written; one with half of a character pair is broken."""
        try:
            for value in row.values():
                (value if isinstance(value, str) else "".join(value)).encode()
        except UnicodeEncodeError:
            self.broken(place, "half of a character pair (\\ud800 to \\udfff), which is not text", "correct the row")
            return False
        return True


def lines(path: Path, *, role: str, log: RowLog, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """The lines that are not blank, each with its place for messages."""
    encoding = find_encoding(path, encoding=encoding, cure=GET_AGAIN)
    with readable(path), open_text(path, encoding) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                log.read[role] += 1
                yield f"{path}, line {number}", line.rstrip("\r\n")


def separated(
    path: Path, *, role: str, columns: tuple[str, ...], log: RowLog, separator: str = "\t\t"
) -> Iterator[tuple[str, list[str]]]:
    """The fields of each line; the last column takes what remains."""
    for place, line in lines(path, role=role, log=log):
        fields = [part.strip() for part in line.split(separator, len(columns) - 1)]
        if len(fields) != len(columns) or not all(fields):
            found = sum(map(bool, fields))
            log.broken(
                place,
                f"not the {len(columns)} filled fields that the format has",
                f"{GET_AGAIN}; its fields are {', '.join(columns)}, divided by {separator!r}",
                found=f"{found} of them",
            )
            continue
        yield place, fields


def read_json_lines(path: Path, *, role: str, log: RowLog) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file with one JSON object a line, each with its place."""
    with readable(path):
        encoding = find_encoding(path, encoding="utf-8", cure=GET_AGAIN)
        for place, item in json_objects(path, encoding, bad=partial(_bad_row, log, role)):
            log.read[role] += 1
            yield place, item


def read_csv(
    path: Path, *, role: str, log: RowLog, needs: tuple[str, ...], encoding: str | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file, each with its place.

    Raises:
        DataError: for a file that lacks one of the columns in `needs`.
    """
    encoding = find_encoding(path, encoding=encoding, cure=GET_AGAIN)
    rows = csv_rows(path, encoding=encoding, delimiter=",", bad=partial(_bad_row, log, role))
    for number, (place, row) in enumerate(rows):
        missing = [name for name in needs if name not in row] if not number else []
        if missing:
            raise DataError(
                f"{path}: the file has no column {', '.join(missing)} (it has: {', '.join(row)}): it is another file "
                "than the one that the source publishes; get that one"
            )
        log.read[role] += 1
        yield place, row


def _bad_row(log: RowLog, role: str, error: DataError) -> None:
    """Count a row that cannot be read as one that the file has."""
    log.error(error)
    log.read[role] += 1


def whole_number(text: Any, *, low: int, high: int) -> int | None:
    """A whole number in a range, however it is written (4, "4", "4.0"); None for anything else."""
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and low <= number <= high else None


def read_reviews(
    path: Path, log: RowLog, *, lowest: int, columns: Mapping[str, str]
) -> Iterator[tuple[Part | None, Row]]:
    """Reviews of a CSV file with a rating of at most 5; those without a text, or rated 0, are left out.

    Args:
        path: of the file.
        log: of what is left out or broken.
        lowest: rating that the file may have; 0 stands for none.
        columns: of the file, by the names ``text``, ``rating`` and the attributes, of which each pair has one review.
    """
    attributes = [name for name in columns if name not in ("text", "rating")]
    for place, row in read_csv(path, role="reviews", log=log, needs=tuple(columns.values())):
        text, given = row[columns["text"]].strip(), row[columns["rating"]]
        rating = whole_number(given, low=lowest, high=5)
        values = {name: row[columns[name]] for name in attributes}
        if rating is None:
            reason = f"{columns['rating']} is not a rating from {lowest} to 5"
            log.broken(place, reason, GET_AGAIN, found=repr(given[:30]))
        elif not rating:
            log.leave_out("reviews without a rating (0)")
        elif not text:
            log.leave_out("reviews without a text")
        elif log.first("review", tuple(values.values()), place):
            yield None, {"text": text, "rating": str(rating), **values}


def words(text: str) -> int:
    """How many words a text has: an address, a word with its hyphens and apostrophes, or a mark of punctuation each.

    So counted, PolMed has the 38 (62) words of the paper's table 1; divided by white space alone it has 32 (51).
    """
    return sum(1 for _ in _WORD.finditer(text))
