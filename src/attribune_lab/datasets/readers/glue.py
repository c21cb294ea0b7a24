"""The reader of GLUE's tasks: rows of one sentence or two (Wang et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attribune.errors import DataError
from attribune_lab.datasets.row_log import (
    Row,
    RowLog,
    Rows,
    read_json_lines,
    read_json_object,
    read_tsv,
    without_test_texts,
)

_PART = "train_part_"  # how the names of files begin that are parts of the training file


@dataclass(frozen=True, kw_only=True)
class Glue:
    """A task of GLUE.

    Args:
        columns: of the files, by ours: ``text``, ``text_pair``, the label and the attributes.
        label: our name of the label.
        classes: the labels; none for numbers from 0 to 5.
        layouts: columns of files without a header.
        fragment: reason by which lines with too few fields are left out.
    """

    columns: Mapping[str, str]
    label: str
    classes: tuple[str, ...]
    layouts: tuple[tuple[str, ...], ...] = ()
    fragment: str | None = None

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the rows of a task with their parts; training rows with the texts of test rows are left out."""
        whole = not files["train"].name.startswith(_PART)
        if whole and (parts := [path.name for path in files.values() if path.name.startswith(_PART)]):
            raise DataError(
                f"{files['train'].parent} holds the whole {files['train'].name}, and {parts[0]}, which is a part of "
                "it: take the part out of the folder"
            )
        yield from without_test_texts(self._all_rows(files, log), log)

    def _all_rows(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        for role in ("test", "train", "rest"):
            if role in files:
                # What continues the training file is counted with it.
                for place, row in self._rows(files[role], log, "train" if role == "rest" else role):
                    if (kept := self._row(place, row, log)) is not None:
                        yield "test" if role == "test" else None, kept

    def _rows(self, path: Path, log: RowLog, role: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield rows by our names of the columns, each with its place."""
        name = path.name.removesuffix(".gz").removesuffix(".bz2")
        if name.endswith((".json", ".jsonl")):
            read = read_json_lines if name.endswith("l") else partial(read_json_object, what="pair")
            keys = {"text": ("text_a", "premise"), "text_pair": ("text_b", "hypothesis"), self.label: ("label",)}
            for place, item in read(path, role=role, log=log):
                yield (
                    place,
                    {ours: next((item[key] for key in theirs if key in item), None) for ours, theirs in keys.items()},
                )
            return
        needs = [theirs for ours, theirs in self.columns.items() if ours in ("text", "text_pair", self.label)]
        rows = read_tsv(path, role=role, log=log, needs=needs, layouts=self.layouts, fragment=self.fragment)
        for place, fields in rows:
            yield place, {ours: fields.get(theirs, "") for ours, theirs in self.columns.items()}

    def _row(self, place: str, row: Mapping[str, Any], log: RowLog) -> Row | None:
        if strange := [name for name, value in row.items() if not isinstance(value, str)]:
            log.broken(place, f"no text as {strange[0]}", found=repr(row[strange[0]])[:30])
            return None
        kept = {name: row.get(name, "").strip() for name in self.columns}
        label = kept[self.label]
        if self.classes:
            fits, known = label in self.classes, f"one of {', '.join(self.classes)}"
        else:
            fits, known = _is_score(label), "a number from 0 to 5"
        if not fits:
            log.broken(place, f"the label is not {known}", found=repr(label[:30]))
            return None
        if not kept["text"] or not kept.get("text_pair", "filled"):
            log.leave_out("rows without a text")
            return None
        return kept if log.writable(place, kept) else None


def _is_score(text: str) -> bool:
    try:
        return 0 <= float(text) <= 5
    except ValueError:
        return False
