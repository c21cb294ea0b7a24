"""Rows of published files, line by line, and a log of those left out and why, and of those broken and where."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attribune.core.door import as_argument
from attribune.data.encodings import find_encoding
from attribune.data.json_lines import json_objects
from attribune.data.table_files import open_parquet
from attribune.data.text_files import csv_rows, open_text, readable
from attribune.errors import DataError

SplitName = Literal["train", "validation", "test"]
PARTS: tuple[SplitName, ...] = ("train", "validation", "test")
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Iterator[tuple[SplitName | None, Row]]
"""Rows, each with its part where the files say which."""
GET_AGAIN = "get the file again"
_WORD = re.compile(r"https?://\S+|\w+(?:['\u2019-]\w+)*|[^\w\s]")


class RowLog:
    """What happened to the rows of a source.

    Args:
        skip_bad: leave broken rows out and count them, instead of refusing the file.

    Attributes:
        left_out: number of rows that the paper leaves out, by reason.
        bad: number of broken rows, by reason.
        examples: file and line of the first broken row, by reason.
        read: number of rows of each file, by its role, including broken ones.
        remarks: number of rows of the set with a peculiarity that users should know, by kind.
    """

    def __init__(self, *, skip_bad: bool = False) -> None:
        self.skip_bad = skip_bad
        self.left_out: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.read: Counter[str] = Counter()
        self.remarks: Counter[str] = Counter()
        self._seen: dict[str, dict[Hashable, str]] = {}

    def broken(self, place: str, reason: str, cure: str = GET_AGAIN, *, found: object = "") -> None:
        """Report a broken row.

        Args:
            place: file and line.
            reason: what is wrong, in the same words for each such row, because rows are counted by it.
            found: the value seen, for the message.

        Raises:
            DataError: with place, reason and cure, unless broken rows are skipped.
        """
        if not self.skip_bad:
            seen = f" ({found})" if found else ""
            raise DataError(
                f"{place}: {reason}{seen}: {cure}, or leave such rows out with {as_argument('skip_bad', True)}"
            )
        self.bad[reason] += 1
        self.examples.setdefault(reason, place)

    def error(self, error: DataError) -> None:
        """Report a broken row by an error that names place, reason and cure itself."""
        place, _, reason = str(error).partition(": ")
        if not self.skip_bad:
            raise DataError(f"{error}, or leave such rows out with {as_argument('skip_bad', True)}") from error
        reason = re.split(r":|;| \(", reason)[0]
        self.bad[reason] += 1
        self.examples.setdefault(reason, place)

    def leave_out(self, reason: str) -> None:
        """Count a row that the paper leaves out."""
        self.left_out[reason] += 1

    def leave_out_if(self, reasons: Mapping[str, bool]) -> bool:
        """Leave a row out for the first reason that holds, and return whether there is one."""
        reason = next((reason for reason, holds in reasons.items() if holds), None)
        if reason is not None:
            self.leave_out(reason)
        return reason is not None

    def first(self, kind: str, key: Hashable, place: str) -> bool:
        """Return whether an id is new; a row whose id stands twice is broken."""
        earlier = self._seen.setdefault(kind, {}).setdefault(key, place)
        if earlier is place:
            return True
        self.broken(
            place, f"the same {kind} stands twice", "remove one of the rows", found=f"{key!r}, first in {earlier}"
        )
        return False

    def writable(self, place: str, row: Mapping[str, Any]) -> bool:
        """Return whether a row's texts can be written; one with half of a character pair is broken."""
        try:
            for value in row.values():
                (value if isinstance(value, str) else "".join(value)).encode()
        except UnicodeEncodeError:
            self.broken(place, "half of a character pair (\\ud800 to \\udfff), which is not text", "correct the row")
            return False
        return True


def lines(path: Path, *, role: str, log: RowLog) -> Iterator[tuple[str, str]]:
    """Yield the lines that are not blank, each with its place for messages."""
    encoding = find_encoding(path, encoding="utf-8", cure=GET_AGAIN)
    with readable(path), open_text(path, encoding) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                log.read[role] += 1
                yield f"{path}, line {number}", line.rstrip("\r\n")


def separated(
    path: Path, *, role: str, columns: tuple[str, ...], log: RowLog, separator: str = "\t\t"
) -> Iterator[tuple[str, list[str]]]:
    """Yield the fields of each line; the last column takes what remains."""
    for place, line in lines(path, role=role, log=log):
        fields = [part.strip() for part in line.split(separator, len(columns) - 1)]
        if len(fields) != len(columns) or not all(fields):
            log.broken(
                place,
                f"not the {len(columns)} filled fields that the format has",
                f"{GET_AGAIN}; its fields are {', '.join(columns)}, divided by {separator!r}",
                found=f"{sum(map(bool, fields))} of them",
            )
            continue
        yield place, fields


def read_json_lines(path: Path, *, role: str, log: RowLog) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file with one JSON object a line, each with its place."""
    with readable(path):
        encoding = find_encoding(path, encoding="utf-8", cure=GET_AGAIN)
        for place, item in json_objects(path, encoding, bad=partial(_bad_row, log, role)):
            log.read[role] += 1
            yield place, item


def read_json_object(
    path: Path, *, role: str, log: RowLog, what: str, beside: str | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the items of a file that is one JSON object of items by their ids, each with its place.

    Args:
        what: an item, in words.
        beside: how ids begin of values that are no items, and are passed over.
    """
    with readable(path), open_text(path, find_encoding(path, encoding="utf-8", cure=GET_AGAIN)) as file:
        try:
            items = json.load(file)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: truncated, or not JSON ({error}): {GET_AGAIN}") from error
    if not isinstance(items, dict):
        raise DataError(f"{path}: a {type(items).__name__}, not an object of {what}s by id: {GET_AGAIN}")
    for identifier, item in items.items():
        if not isinstance(item, dict) and beside is not None and identifier.startswith(beside):
            continue
        log.read[role] += 1
        place = f"{path}, {what} {identifier}"
        if isinstance(item, dict):
            yield place, item
        else:
            log.broken(place, "not an object", found=repr(str(item)[:40]))


def read_csv(
    path: Path, *, role: str, log: RowLog, needs: Sequence[str], encoding: str | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a CSV file, each with its place.

    Raises:
        DataError: for a file that lacks one of the columns in `needs`.
    """
    encoding = find_encoding(path, encoding=encoding, cure=GET_AGAIN)
    rows = csv_rows(path, encoding=encoding, delimiter=",", bad=partial(_bad_row, log, role))
    for number, (place, row) in enumerate(rows):
        missing = [name for name in needs if name not in row] if not number else []
        if missing:
            raise _other_file(path, missing, row)
        log.read[role] += 1
        yield place, row


def read_parquet(path: Path, *, role: str, log: RowLog, needs: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the columns in `needs` of a Parquet file as text, "" where there is nothing, each row with its place.

    Raises:
        DataError: for a file that is damaged, or lacks one of the columns.
    """
    with open_parquet(path, cure=GET_AGAIN) as file:
        if missing := [name for name in needs if name not in file.schema_arrow.names]:
            raise _other_file(path, missing, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(columns=list(needs)):
            for row in batch.to_pylist():
                log.read[role] += 1
                number += 1
                yield f"{path}, row {number}", {name: "" if row[name] is None else str(row[name]) for name in needs}


def read_csv_or_parquet(
    path: Path, *, role: str, log: RowLog, needs: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a file with columns as `read_csv` or `read_parquet` does, by its ending."""
    return (read_parquet if path.suffix == ".parquet" else read_csv)(path, role=role, log=log, needs=needs)


def _other_file(path: Path, missing: Sequence[str], columns: Iterable[str]) -> DataError:
    return DataError(
        f"{path}: the file has no column {', '.join(missing)} (it has: {', '.join(columns)}): it is another file "
        "than the one that the source publishes; get that one"
    )


def read_tsv(
    path: Path,
    *,
    role: str,
    log: RowLog,
    needs: Sequence[str],
    layouts: Sequence[Sequence[str]],
    fragment: str | None = None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a file with one row a line, fields divided by tabs, in which quotes are plain characters.

    Args:
        needs: columns that a header must name; a file whose first line has other fields has no header.
        layouts: columns of a file without a header, by their number; further ones may have no name, "".
        fragment: reason by which lines with fewer fields are left out; None takes them for broken.

    Raises:
        DataError: for a file without a header whose first line has other fields than the layouts.
    """
    columns: Sequence[str] = ()
    fewest = 0
    for place, line in lines(path, role=role, log=log):
        fields = line.split("\t")
        if not columns:
            names = [field.strip() for field in fields]
            columns = names if set(needs) <= set(names) else _layout(path, fields, needs, layouts)
            fewest = len(columns) - list(columns).count("")
            if columns is names:
                log.read[role] -= 1  # a header is no row
                continue
        if fewest <= len(fields) <= len(columns):
            yield place, dict(zip(columns, fields, strict=False))
        elif fragment is not None and len(fields) < fewest:
            log.leave_out(fragment)
        else:
            cure = f"{GET_AGAIN}; its fields, divided by tabs, are {', '.join(filter(None, columns))}"
            log.broken(place, f"not the {fewest} fields that the file has", cure, found=f"{len(fields)} fields")


def _layout(path: Path, fields: list[str], needs: Sequence[str], layouts: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the first layout with as many fields."""
    for layout in layouts:
        if len(layout) - list(layout).count("") <= len(fields) <= len(layout):
            return layout
    known = " or ".join(str(len(layout) - list(layout).count("")) for layout in layouts)
    raise DataError(
        f"{path}, line 1: {len(fields)} fields, {' | '.join(fields)[:60]!r}, are neither a header with the columns "
        f"{', '.join(needs)}{f' nor a row of {known} fields' if known else ''}: {GET_AGAIN}"
    )


def _bad_row(log: RowLog, role: str, error: DataError) -> None:
    """Report a row that cannot be read, and count it as one that the file has."""
    log.error(error)
    log.read[role] += 1


def without_duplicates(rows: Rows, log: RowLog, *, label: str) -> Rows:
    """Yield the first row of each text; a text that has several labels is left out, all its rows.

    All rows are held in memory, since the last one may contradict the first.
    """
    kept: dict[str, tuple[SplitName | None, Row]] = {}
    disputed: set[str] = set()
    for part, row in rows:
        text = row["text"]
        if text in disputed:
            log.leave_out("texts with several labels")
        elif text not in kept:
            kept[text] = part, row
        elif kept[text][1][label] == row[label]:
            log.leave_out("texts that stand earlier in the files")
        else:
            disputed.add(text)
            del kept[text]
            log.left_out["texts with several labels"] += 2
    yield from kept.values()


def without_test_texts(rows: Rows, log: RowLog) -> Rows:
    """Yield rows, those of the test part first, but no others with the texts of a test row."""
    tested: set[tuple[str, str]] = set()
    for part, row in rows:
        texts = row["text"], row.get("text_pair", "")
        if part == "test":
            tested.add(texts)
        elif texts in tested:
            log.leave_out("training rows with the texts of a test row")
            continue
        yield part, row


def whole_number(text: Any, *, low: int, high: int) -> int | None:
    """Return a whole number in a range, however it is written (4, "4", "4.0"); None for anything else."""
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and low <= number <= high else None


def cell_text(value: Any) -> str:
    """Return a value of JSON as text without white space around it; "" for null."""
    return "" if value is None else str(value).strip()


def words(text: str) -> int:
    """Count the words of a text: each address, word with its hyphens and apostrophes, and mark of punctuation is one.

    Counted like this, PolMed has the 38 (62) words of the paper's table 1; split at white space it has 32 (51).
    """
    return sum(1 for _ in _WORD.finditer(text))
