"""Rows of published files, line by line: what is kept, what is left out and why, what is broken and where."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from attribune.data.json_lines import json_objects
from attribune.data.text_files import csv_rows, find_encoding, open_text, readable
from attribune.errors import DataError

__all__ = ["RowLog", "lines", "read_csv", "read_json_lines", "separated", "whole_number", "words"]

_WORD = re.compile(r"https?://\S+|\w+(?:['\u2019-]\w+)*|[^\w\s]")


class RowLog:
    """What happened to the rows of a source.

    Args:
        skip_bad: leave broken rows out and count them, instead of refusing the file.

    Attributes:
        kept: rows that are in the set.
        left_out: rows that the paper leaves out, by reason.
        bad: rows that are broken, by reason; the first of each with its place.
        read: rows of each file, by its role.
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

    def broken(self, place: str, reason: str, cure: str) -> None:
        """Say that a row is broken.

        Raises:
            DataError: with place, reason and cure, unless broken rows are skipped.
        """
        if not self.skip_bad:
            raise DataError(f"{place}: {reason}: {cure}, or leave such rows out with --skip-bad")
        self.bad[reason] += 1
        self.examples.setdefault(reason, place)

    def error(self, error: DataError) -> None:
        """The same for an error that says place, reason and cure itself."""
        place, _, reason = str(error).partition(": ")
        if not self.skip_bad:
            raise DataError(f"{error}, or leave such rows out with --skip-bad") from error
        reason = reason.split(":")[0].split(" (")[0]
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
        self.broken(place, f"{kind} {key!r} stands twice, first in {earlier}", "remove one of the rows")
        return False


def lines(path: Path, *, role: str, log: RowLog, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """The lines that are not blank, each with its place for messages."""
    encoding = find_encoding(path, encoding=encoding)
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
                f"{found} filled fields, not the {len(columns)} that the format has ({', '.join(columns)})",
                f"get the file again; its fields are divided by {separator!r}",
            )
            continue
        yield place, fields


def read_json_lines(path: Path, *, role: str, log: RowLog) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file with one JSON object a line, each with its place."""
    with readable(path):
        for place, item in json_objects(path, find_encoding(path, encoding="utf-8"), bad=log.error):
            log.read[role] += 1
            yield place, item


def read_csv(
    path: Path, *, role: str, log: RowLog, needs: tuple[str, ...], encoding: str | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file, each with its place.

    Raises:
        DataError: for a file that lacks one of the columns in `needs`.
    """
    encoding = find_encoding(path, encoding=encoding)
    for place, row in csv_rows(path, encoding=encoding, delimiter=",", bad=log.error):
        if not log.read[role]:
            missing = [name for name in needs if name not in row]
            if missing:
                raise DataError(
                    f"{path}: the file has no column {', '.join(missing)} (it has: {', '.join(row)}): it is another "
                    "file than the one that the source publishes"
                )
        log.read[role] += 1
        yield place, row


def whole_number(text: Any, *, low: int, high: int) -> int | None:
    """A whole number in a range, however it is written (4, "4", "4.0"); None for anything else."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() and low <= number <= high else None


def words(text: str) -> int:
    """How many words a text has: an address, a word with its hyphens and apostrophes, or a mark of punctuation each.

    So counted, PolMed has the 38 (62) words of the paper's table 1; divided by white space alone it has 32 (51).
    """
    return sum(1 for _ in _WORD.finditer(text))
