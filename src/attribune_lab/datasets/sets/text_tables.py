"""What the sets of Houlsby et al. 2019 share: CSV files of texts with a class, and cards with the paper's table 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribune.data.text_files import csv_header
from attribune_lab.datasets.card import NOT_STATED, Card, Hashed, categorical
from attribune_lab.datasets.duplicates import without_duplicates
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv

__all__ = ["AT_RANDOM", "CLEANED", "TextTable", "read_table", "same", "table_3", "text_card"]

_HOULSBY = "Houlsby et al. 2019, Parameter-Efficient Transfer Learning for NLP, ICML"
CLEANED = (
    "A text that stands several times is kept once, its first row; where such rows have several labels, none is kept."
)
AT_RANDOM = "The paper shares rows out at random, 80 % for training; a hash of the text does here."


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """The columns of a CSV file.

    Args:
        text: the names that the column has in the versions of the file; so are `label` and `attributes`, by our names.
        named: our name of the label.
        classes: the labels by those of the file, which are compared without regard to case.
        dropped: reasons by which rows are left out, by their label.
        values: what becomes of an attribute's cells; by our names.
        remarks: what is to be known of labels that come from a column.
        cut: the label of the file ends before this mark.
        line_ends: what stands in the text for the end of a line.
        encoding: of the file; None finds it.
    """

    text: tuple[str, ...]
    label: tuple[str, ...]
    named: str
    classes: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    cut: str = ""
    line_ends: str = ""
    encoding: str | None = None

    def columns(self, path: Path) -> dict[str, str]:
        """Return the columns of a file by our names, without attributes that it lacks."""
        present = csv_header(path, encoding=None, delimiter=",")
        wanted = {"text": self.text, self.named: self.label, **self.attributes}
        found = {ours: next((name for name in names if name in present), names[0]) for ours, names in wanted.items()}
        return {ours: name for ours, name in found.items() if name in present or ours not in self.attributes}

    def name_of(self, label: str) -> str | None:
        """Return our name of a class; None for a label that is no class."""
        return self.classes.get(label.casefold()) if self.classes else label or None


def read_table(files: Mapping[str, Path], log: RowLog, *, table: TextTable) -> Iterator[tuple[SplitName | None, Row]]:
    """Yield the rows of a table, each text once."""
    yield from without_duplicates(
        ((None, row) for row in _table_rows(files["rows"], log, table)), log, label=table.named
    )


def _table_rows(path: Path, log: RowLog, table: TextTable) -> Iterator[Row]:
    columns = table.columns(path)
    needs = tuple(columns.values())
    for place, cells in read_csv(path, role="rows", log=log, needs=needs, encoding=table.encoding):
        cell = cells[columns[table.named]].strip()
        label = cell.partition(table.cut)[0].strip() if table.cut else cell
        text = cells[columns["text"]]
        text = " ".join(text.replace(table.line_ends, " ").split()) if table.line_ends else text.strip()
        if reason := table.dropped.get(label.casefold()):
            log.leave_out(reason)
        elif (name := table.name_of(label)) is None:
            known = ", ".join(dict.fromkeys(table.classes.values())) or "filled"
            log.broken(place, f"the label is not one of {known}", GET_AGAIN, found=repr(label[:30]))
        elif not text:
            log.leave_out("rows without a text")
        else:
            if remark := table.remarks.get(columns[table.named]):
                log.remarks[remark] += 1
            values = {ours: cells[columns[ours]].strip() if ours in columns else "" for ours in table.attributes}
            values |= {ours: change(values[ours]) for ours, change in table.values.items()}
            yield {"text": text, table.named: name, **values}


def same(*names: str) -> dict[str, str]:
    """Return classes whose names are those of the file."""
    return {name.casefold(): name for name in names}


def table_3(train: int, validation: int, test: int, *, classes: int, characters: int) -> dict[str, float]:
    """Return a row of table 3 of Houlsby et al. 2019."""
    return {"train": train, "validation": validation, "test": test, "classes": classes, "characters": characters}


def text_card(*, label: str, attributes: tuple[str, ...] = (), published: Mapping[str, float], **texts: Any) -> Card:
    """Return a set of the paper, by default of one label whose metric is the accuracy."""
    texts = {"revision": NOT_STATED, "licence": NOT_STATED, "split": Hashed(), **texts}
    texts["citation"] = f"{texts['citation']}; {_HOULSBY}"
    return Card(
        attributes=categorical(*attributes),
        labels=(label,),
        task={"kind": "classification"},
        classes=int(published["classes"]),
        metric="accuracy",
        window="head",
        recipe="houlsby",
        published=published,
        **texts,
    )
