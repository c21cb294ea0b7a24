"""Preparation of a data set: from the files of its source to Parquet files with a manifest, the same every time."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from attribune.core.door import as_argument
from attribune.core.hashing import text_digest
from attribune.core.wording import counted
from attribune.data.writing import open_writer
from attribune.errors import DataError
from attribune.schema.columns import MISSING
from attribune.schema.kinds import KINDS, MultiLabel
from attribune.tasks.labels import sorted_classes
from attribune_lab.datasets.card import Card, Folds, Hashed
from attribune_lab.datasets.prepared import ALL, RECIPE, PreparedFolder, PreparedSet, sha256_of, size_of
from attribune_lab.datasets.row_log import GET_AGAIN, PARTS, Row, RowLog

_VERSION = 1
_BATCH = 5_000
_NEAR = 0.01  # the share by which sizes may differ, many of which are published in hundreds


def prepare(
    card: Card, *, source: str | Path, output: str | Path, skip_bad: bool = False, partial: bool = False
) -> PreparedSet:
    """Read the files of a source and write the set's Parquet files, a manifest and the data part of a recipe.

    An interrupted preparation begins anew.

    Args:
        source: folder with the files, named as the source names them, plain or compressed.
        output: folder to write; if it holds the same set, made from the same files, it is left as it is.
        skip_bad: leave broken rows out and count them.
        partial: accept files with fewer rows than the source publishes.

    Raises:
        DataError: for a missing, wrong, partial or broken file, naming it and where to get it; for an output folder
            with another set.
        ConfigError: for an output folder with something else, or in which another process works.
        ModelFolderError: for an output folder that cannot be written.
    """
    files = _source_files(card, Path(source))
    origin = {
        "version": _VERSION,
        "name": card.name,
        "skip_bad": skip_bad,
        "partial": partial,
        "sources": [
            {"role": role, "file": path.name, "bytes": size_of(path), "sha256": sha256_of(path)}
            for role, path in files.items()
        ],
    }
    folder = PreparedFolder(Path(output))
    if (earlier := folder.finished(origin)) is not None and not folder.plan_file.exists():
        return earlier
    with folder.held():
        if (earlier := folder.finished(origin)) is not None:  # interrupted at its end, or by another process just now
            folder.plan_file.unlink(missing_ok=True)
            return earlier
        folder.begin(origin)
        log = RowLog(skip_bad=skip_bad)
        rows = _Rows()
        draft = folder.path / f".{ALL}.parquet"
        try:
            with open_writer(draft) as writer:
                for table in rows.tables(card, files, log):
                    writer.write(table)
            _check_counts(card, files, log, partial=partial)
            if not rows.parts:
                raise DataError(f"{card.name}: no row is left ({_log_summary(log)}): give the files of the source")
            described = rows.described(card)
            parts = _write_parts(described, draft, rows, folder.path)
            values = _write_values(described, rows, folder.path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        manifest = _manifest_of(described, origin, log, parts, folder.path) | ({"values": values} if values else {})
        manifest["differences"] = _differences(card, manifest)
        folder.finish(manifest, _recipe(described, folder.path))
    return PreparedSet(folder=folder.path, manifest=manifest)


def _manifest_of(
    card: Card, origin: Mapping[str, Any], log: RowLog, parts: Mapping[str, Mapping[str, Any]], output: Path
) -> dict[str, Any]:
    """Return the description of a prepared set."""
    return {
        "name": card.name,
        "title": card.title,
        "folds": card.split.fold_count,
        "origin": origin,
        "rows_read": dict(log.read),
        "left_out": dict(log.left_out),
        "bad": {reason: {"rows": count, "first": log.examples[reason]} for reason, count in log.bad.items()},
        "remarks": {kind: count for kind, count in log.remarks.items() if count},
        "parts": parts,
        **({"pair": True} if card.pair else {}),
        **({"prompt": True} if card.prompt else {}),
        "columns": {field.name: str(field.type) for field in _schema(card)},
        "attributes": [dict(attribute) for attribute in card.attributes],
        "labels": list(card.labels),
        "task": dict(card.task),
        "classes": _classes(card, [output / str(part["file"]) for part in parts.values()]),
        "citation": card.citation,
        "revision": card.revision,
        "licence": card.licence,
        "terms": card.terms,
        "preparation": card.preparation,
    }


def _source_files(card: Card, folder: Path) -> dict[str, Path]:
    """Find the files by role; one error for all that are missing."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder: put the files of {card.name} there. {card.obtain}")
    paths = {file.role: file.find(folder) for file in card.files}
    missing = [file.names[0] for file in card.files if paths[file.role] is None and not file.optional]
    if missing:
        present = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
        raise DataError(f"{folder} lacks {', '.join(missing)} (it has: {present}). {card.obtain} Terms: {card.terms}")
    return {role: path for role, path in paths.items() if path is not None}


class _Rows:
    """What is remembered of the rows.

    Attributes:
        parts: number of the part of each row, where the source says it, else -1.
        texts: a number for the text of each row, or for its two texts.
        hashes: of 64 bits of the text of each row, of its two texts, or of its group.
        filled: names of the attributes of which a row has a value.
        about: by attribute, what describes each of its values.
    """

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.texts: list[int] = []
        self.hashes = array("Q")
        self.filled: set[str] = set()
        self.about: dict[str, dict[str, tuple[str, ...]]] = {}
        self._numbers: dict[bytes, int] = {}

    def tables(self, card: Card, files: Mapping[str, Path], log: RowLog) -> Iterator[pa.Table]:
        schema, names = _schema(card), card.names()
        group = card.split.group if isinstance(card.split, Hashed) else None
        rows = card.read(files, log)
        while batch := list(islice(rows, _BATCH)):
            for part, row in batch:
                self.parts.append(-1 if part is None else PARTS.index(part))
                digest = text_digest("\0".join(row[name] for name in card.texts))
                self.texts.append(self._numbers.setdefault(digest, len(self._numbers)))
                self.hashes.append(int.from_bytes(digest if group is None else text_digest(row[group]), "big"))
                self.filled.update(name for name in names if row.get(name) and row[name] not in MISSING)
                self._remember(card, row, log)
            yield pa.Table.from_pylist([row for _, row in batch], schema=schema)

    def _remember(self, card: Card, row: Row, log: RowLog) -> None:
        """Remember what describes the values of a row, the first time that a value is met."""
        for name, columns in card.values.items():
            said = tuple(str(row.get(column) or "") for column in columns)
            if self.about.setdefault(name, {}).setdefault(str(row[name]), said) != said:
                log.remarks[f"rows that describe their {name} in other words than an earlier row"] += 1

    def described(self, card: Card) -> Card:
        """Return the card without the attributes of which no row has a value."""
        return replace(card, attributes=tuple(spec for spec in card.attributes if str(spec["name"]) in self.filled))


def _schema(card: Card) -> pa.Schema:
    """Return the types of texts, labels and attributes: text, and lists for attributes with several values."""
    kinds = {
        str(attribute["name"]): pa.list_(pa.string())
        if issubclass(KINDS[attribute["kind"]], MultiLabel)
        else pa.string()
        for attribute in card.attributes
    }
    return pa.schema([*((name, pa.string()) for name in (*card.texts, *card.labels)), *kinds.items()])


def _check_counts(card: Card, files: Mapping[str, Path], log: RowLog, *, partial: bool) -> None:
    """Refuse a file with fewer or more rows than the source publishes, unless a partial one is accepted."""
    for file in card.files:
        if file.role not in files:
            continue
        row_count, path = log.read[file.role], files[file.role]
        if not row_count and not file.optional:  # a file that need not be there may continue another one
            raise DataError(f"{path}: the file has no rows: {GET_AGAIN}")
        if file.rows is None or row_count in (file.rows, *file.other_rows) or partial:
            continue
        if row_count < file.rows:
            problem = f"of the {file.rows:,} rows that the source publishes: the file is a part, or was cut off"
        else:
            problem = f"rows, more than the {file.rows:,} that the source publishes: this is another file"
        raise DataError(
            f"{path}: {row_count:,} {problem}; get it again, or take it as it is with {as_argument('partial', True)}"
        )


def _differences(card: Card, manifest: Mapping[str, Any]) -> list[str]:
    """Say in which sizes and attributes a set differs from what its card says."""
    said = []
    for file in card.files:
        row_count = manifest["rows_read"].get(file.role, 0)
        if file.rows is not None and row_count not in (file.rows, *file.other_rows):
            said.append(f"{file.role}: {counted(row_count, 'row')} read, {file.rows:,} are published")
    published = {part: card.published[part] for part in PARTS if part in card.published}
    rows = sum(part["rows"] for name, part in manifest["parts"].items() if name in (*published, ALL))
    found = {
        "rows": (rows, sum(published.values())),
        "classes": (max(map(len, manifest["classes"].values()), default=0), card.published.get("classes", 0)),
    }
    for name, (number, expected) in found.items():
        if expected and abs(number - expected) > _NEAR * expected:
            said.append(f"{name}: {number:,} here, {expected:,.0f} in the paper")
    present = {attribute["name"] for attribute in manifest["attributes"]}
    return said + [f"{name}: no row has a value, so it is no attribute" for name in card.names() if name not in present]


def _log_summary(log: RowLog) -> str:
    reasons = [f"{reason}: {count:,}" for reason, count in (log.left_out + log.bad).items()]
    return "; ".join([f"{counted(log.read.total(), 'row')} read", *reasons])


def _write_parts(card: Card, draft: Path, rows: _Rows, output: Path) -> dict[str, Any]:
    """Write each row to the file of its part, in the order of the source; returns what the manifest says of each."""
    names, part_of_row, folds = _assign_parts(card, rows)
    row_counts = dict.fromkeys(names, 0)
    with ExitStack() as stack:
        source = stack.enter_context(pq.ParquetFile(draft))
        writers = {name: stack.enter_context(open_writer(output / f"{name}.parquet")) for name in names}
        start = 0
        for batch in source.iter_batches(batch_size=_BATCH):
            table = pa.Table.from_batches([batch]).select(_schema(card).names)
            end = start + len(table)
            if folds is not None:
                table = table.append_column("fold", pa.array(folds[start:end]))
            for number, name in enumerate(names):
                selected = table.filter(pa.array(part_of_row[start:end] == number))
                row_counts[name] += len(selected)
                if len(selected):
                    writers[name].write(selected)
            start = end
    files = {name: output / f"{name}.parquet" for name in names}
    return {
        name: {"file": path.name, "rows": row_counts[name], "bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for name, path in files.items()
    }


def _write_values(card: Card, rows: _Rows, output: Path) -> dict[str, Any]:
    """Write what describes the values of attributes; returns what the manifest says of each file."""
    written = {}
    for name in [name for name in card.values if name in card.names()]:
        path, about = output / _values_file(name), rows.about[name]
        columns = dict(zip(card.values[name], zip(*about.values(), strict=True), strict=True))
        with open_writer(path) as writer:
            writer.write(pa.table({name: pa.array(about, pa.string()), **columns}))
        written[name] = {"file": path.name, "values": len(about), "bytes": path.stat().st_size}
        written[name]["sha256"] = sha256_of(path)
    return written


def _values_file(attribute: str) -> str:
    return f"{attribute}-values.parquet"


def _assign_parts(card: Card, rows: _Rows) -> tuple[tuple[str, ...], npt.NDArray[np.int8], npt.NDArray[np.int8] | None]:
    """Return the names of the parts, the number of each row's part and, for cross-validation, each row's fold."""
    row_count = len(rows.parts)
    part_of_row = card.split.parts(rows.parts, rows.texts, rows.hashes)
    if isinstance(card.split, Folds):
        if row_count < card.split.number:
            raise DataError(
                f"{card.name}: {row_count:,} rows are too few for {card.split.number} folds: give the whole files"
            )
        return (ALL,), part_of_row, card.split.folds(row_count)
    if empty := [name for number, name in enumerate(PARTS) if not (part_of_row == number).any()]:
        raise DataError(f"{card.name}: of {row_count:,} rows none is left for {empty[0]}: give the whole files")
    return PARTS, part_of_row, None


def _classes(card: Card, files: Sequence[Path]) -> dict[str, list[str]]:
    """Return the classes of each label, over all parts; none for a card without classes."""
    if not card.classes:
        return {}
    table = pa.concat_tables(pq.read_table(file, columns=list(card.labels)) for file in files)
    return {label: list(sorted_classes(table[label].unique().to_pylist(), of=label)) for label in card.labels}


def _recipe(card: Card, output: Path) -> str:
    """Return the data and task parts of a recipe, with which the set can be trained on."""
    files = {ALL: "train"} if card.split.fold_count else {part: part for part in PARTS}
    data: dict[str, Any] = {ours: str(output / f"{name}.parquet") for name, ours in files.items()}
    data |= {
        "text": "text",
        **({"text_pair": "text_pair"} if card.pair else {}),
        **({"prompt": "prompt"} if card.prompt else {}),
        "label": list(card.labels),
        "attributes": [dict(attribute) for attribute in card.attributes],
        **({"values": _described_by(card, output)} if card.values else {}),
        "window": card.window,
    }
    method = {} if card.attributes else {"method": {"name": "adapter"}}  # the usual method reads attributes
    comment = f"# {card.title}: {card.citation}\n# attribune train --config {output / RECIPE} --output RUN\n"
    return comment + yaml.safe_dump(
        {"data": data, "task": dict(card.task), **method}, sort_keys=False, allow_unicode=True
    )


def _described_by(card: Card, output: Path) -> dict[str, Any]:
    """Return the tables of values as a recipe has them; all columns that the source has are categories."""
    return {
        name: {
            "table": str(output / _values_file(name)),
            "fields": [{"kind": "categorical", "name": column} for column in columns],
        }
        for name, columns in card.values.items()
        if name in card.names()
    }
