"""Readers of texts with a class: CSV files, posts, messages and headlines (Houlsby et al. 2019)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator

from attribune.data.text_files import csv_header, readable
from attribune.errors import DataError
from attribune_lab.datasets.row_log import (
    GET_AGAIN,
    Row,
    RowLog,
    Rows,
    SplitName,
    read_csv,
    read_tsv,
    separated,
    without_duplicates,
)


def _by_name(classes: Any) -> Any:
    """Return classes that are listed by what the file may call them."""
    return {str(name).casefold(): name for name in classes} if isinstance(classes, list) else classes


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """The columns of a CSV file.

    Args:
        text: the names that the column has in the versions of the file; so are `label` and `attributes`, by our names.
        named: our name of the label.
        classes: the labels by those of the file, which are compared without regard to case; or those of the file.
        dropped: reasons by which rows are left out, by their label.
        values: by attribute, what becomes of cells that begin so, up to a "_"; others become empty.
        remarks: what is to be known of labels that come from a column.
        cut: the label of the file ends before this mark.
        line_ends: what stands in the text for the end of a line.
        encoding: of the file; None finds it.
    """

    text: tuple[str, ...]
    label: tuple[str, ...]
    named: str
    classes: Annotated[Mapping[str, str], BeforeValidator(_by_name)] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    cut: str = ""
    line_ends: str = ""
    encoding: str | None = None

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the rows of the table, each text once."""
        yield from without_duplicates(((None, row) for row in self._rows(files["rows"], log)), log, label=self.named)

    def _columns(self, path: Path) -> dict[str, str]:
        """Return the columns of a file by our names, without attributes that it lacks."""
        present = csv_header(path, encoding=None, delimiter=",")
        wanted = {"text": self.text, self.named: self.label, **self.attributes}
        found = {ours: next((name for name in names if name in present), names[0]) for ours, names in wanted.items()}
        return {ours: name for ours, name in found.items() if name in present or ours not in self.attributes}

    def _rows(self, path: Path, log: RowLog) -> Iterator[Row]:
        columns = self._columns(path)
        needs = tuple(columns.values())
        for place, cells in read_csv(path, role="rows", log=log, needs=needs, encoding=self.encoding):
            cell = cells[columns[self.named]].strip()
            label = cell.partition(self.cut)[0].strip() if self.cut else cell
            name = self.classes.get(label.casefold()) if self.classes else label or None
            text = cells[columns["text"]]
            text = " ".join(text.replace(self.line_ends, " ").split()) if self.line_ends else text.strip()
            if reason := self.dropped.get(label.casefold()):
                log.leave_out(reason)
            elif name is None:
                known = ", ".join(dict.fromkeys(self.classes.values())) or "filled"
                log.broken(place, f"the label is not one of {known}", found=repr(label[:30]))
            elif not text:
                log.leave_out("rows without a text")
            else:
                if remark := self.remarks.get(columns[self.named]):
                    log.remarks[remark] += 1
                values = {ours: cells[columns[ours]].strip() if ours in columns else "" for ours in self.attributes}
                for ours, known_values in self.values.items():
                    values[ours] = known_values.get(values[ours].partition("_")[0].casefold(), "")
                yield {"text": text, self.named: name, **values}


def posts(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the posts of 20 Newsgroups, of folders or archives with a file for each."""
    yield from without_duplicates(_posts(files, log), log, label="group")


def _posts(files: Mapping[str, Path], log: RowLog) -> Rows:
    for role in ("test", "train"):
        for names, content in _entries(files[role], f"20news-bydate-{role}"):
            if len(names) != 2 or not names[1].isdigit():
                log.remarks["files that are no posts, and not read"] += 1
                continue
            log.read[role] += 1
            if text := content.decode("latin-1").replace("\0", " ").strip():
                yield "test" if role == "test" else None, {"text": text, "group": names[0]}
            else:
                log.leave_out("posts without a text")


def _entries(path: Path, folder: str) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield the files of a folder, or of the folder of this name in an archive: their names from there, and content."""
    if path.is_dir():
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
            with readable(file):
                yield file.relative_to(path).parts, file.read_bytes()
        return
    try:
        with readable(path), tarfile.open(path) as archive:
            for member in archive:
                names = PurePosixPath(member.name).parts
                if member.isfile() and folder in names and (content := archive.extractfile(member)) is not None:
                    yield names[names.index(folder) + 1 :], content.read()
    except tarfile.TarError as error:
        raise DataError(f"{path}: truncated, or not an archive ({error}): {GET_AGAIN}") from error


def messages(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the messages of the SMS spam collection."""
    yield from without_duplicates(_messages(files["rows"], log), log, label="label")


def _messages(path: Path, log: RowLog) -> Rows:
    for place, (label, text) in separated(path, role="rows", columns=("label", "text"), log=log, separator="\t"):
        if label in ("ham", "spam"):
            yield None, {"text": text, "label": label}
        else:
            log.broken(place, "the label is not one of ham, spam", found=repr(label[:30]))


_CATEGORIES = {"b": "business", "e": "entertainment", "m": "health", "t": "technology"}
_NEWS_COLUMNS = ("ID", "TITLE", "URL", "PUBLISHER", "CATEGORY", "STORY", "HOSTNAME", "TIMESTAMP")


def news(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the titles of the news aggregator, with publisher and story."""
    yield from without_duplicates(_news(files["rows"], log), log, label="category")


def _news(path: Path, log: RowLog) -> Rows:
    """Yield the rows of newsCorpora.csv, which is divided by tabs and has no header, or of a CSV file with one."""
    needs = ("TITLE", "CATEGORY", "PUBLISHER", "STORY")
    if set(needs) <= set(csv_header(path, encoding=None, delimiter=",")):
        rows = read_csv(path, role="rows", log=log, needs=needs)
    else:
        rows = read_tsv(path, role="rows", log=log, needs=needs, layouts=(_NEWS_COLUMNS,))
    for place, row in rows:
        if (kept := _titled(place, row, log)) is not None:
            yield None, kept | {"publisher": row["PUBLISHER"].strip(), "story": row["STORY"].strip()}


def _titled(place: str, row: Mapping[str, str], log: RowLog) -> Row | None:
    title, category = row["TITLE"].strip(), row["CATEGORY"].strip()
    if category not in _CATEGORIES:
        log.broken(place, f"the category is not one of {', '.join(_CATEGORIES)}", found=repr(category[:30]))
    elif not title:
        log.leave_out("rows without a title")
    else:
        return {"text": title, "category": _CATEGORIES[category]}
    return None


def titles(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the titles of the parts of the news aggregator."""
    yield from without_duplicates(_titles(files, log), log, label="category")


def _titles(files: Mapping[str, Path], log: RowLog) -> Rows:
    parts: tuple[SplitName, ...] = ("test", "validation", "train")
    for part in parts:
        columns = ("TITLE", "CATEGORY")
        for place, row in read_tsv(files[part], role=part, log=log, needs=columns, layouts=(columns,)):
            if (kept := _titled(place, row, log)) is not None:
                yield part, kept
