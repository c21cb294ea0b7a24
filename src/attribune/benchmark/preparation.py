"""From the files of a source to Parquet files with a manifest: once, and the same every time."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from attribune.benchmark.cards import Card, Folds, Part, Row, Shuffled
from attribune.benchmark.rows import GET_AGAIN, RowLog
from attribune.data.text_files import readable
from attribune.data.writing import open_writer
from attribune.errors import DataError, ModelFolderError
from attribune.json_file import read_json, replace_file, write_json
from attribune.tasks.labels import sorted_classes

__all__ = ["MANIFEST", "PARTS", "PreparedSet", "load_prepared", "prepare"]

MANIFEST = "manifest.json"
RECIPE = "recipe.yaml"
PARTS: tuple[Part, ...] = ("train", "validation", "test")
_ALL = "all"
_VERSION = 1
_UNFINISHED = ".unfinished"  # marks a folder whose files an interrupted preparation left
_BATCH = 5_000


@dataclass(frozen=True, kw_only=True)
class PreparedSet:
    """A prepared data set in its folder.

    Args:
        folder: with the Parquet files.
        manifest: counts, checksums, columns, what was left out.
        reused: whether it was there before.
    """

    folder: Path
    manifest: Mapping[str, Any]
    reused: bool = False

    @property
    def folds(self) -> int:
        """Number of folds of a set for cross-validation; 0 for one with given parts."""
        return int(self.manifest["folds"])

    def file(self, part: str) -> Path:
        """The Parquet file of a part; ``all`` for a set with folds."""
        return self.folder / str(self.manifest["parts"][part]["file"])

    def parts(self, fold: int = 0) -> dict[Part, pa.Table]:
        """The rows of each part; with folds, those that test, those of the next fold that validate, and the rest."""
        if not self.folds:
            return {part: pq.read_table(self.file(part)) for part in PARTS}
        table = pq.read_table(self.file(_ALL))
        numbers = table["fold"].to_numpy()
        table = table.drop_columns(["fold"])
        chosen = {"test": numbers == fold % self.folds, "validation": numbers == (fold + 1) % self.folds}
        chosen["train"] = ~(chosen["test"] | chosen["validation"])
        return {part: table.filter(pa.array(chosen[part])) for part in PARTS}


def load_prepared(folder: str | Path) -> PreparedSet:
    """A set that `prepare` wrote.

    Raises:
        DataError: for a folder without a manifest, or with a part that is missing or of another size.
    """
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        raise DataError(
            f"{folder} holds no prepared data set (no {MANIFEST}): make one with `attribune data prepare NAME --source "
            f"DIR --output {folder}`"
        )
    manifest = _manifest(folder)
    damaged = _damaged(folder, manifest)
    if damaged is not None:
        raise DataError(f"{damaged} is missing or not as it was prepared: prepare the set again")
    return PreparedSet(folder=folder, manifest=manifest, reused=True)


def prepare(
    card: Card, *, source: str | Path, output: str | Path, skip_bad: bool = False, partial: bool = False
) -> PreparedSet:
    """Read the files of a source and write the set's Parquet files, a manifest and the data part of a recipe.

    Args:
        card: the set.
        source: folder with the files, as the source names them, plain or compressed.
        output: folder to write; one that holds the same set, made of the same files, is left as it is.
        skip_bad: leave broken rows out and count them.
        partial: take files with fewer rows than the source publishes.

    Raises:
        DataError: for a missing, wrong, partial or broken file, naming it and where it is to be had; for an output
            folder that holds something else.
    """
    files = _find(card, Path(source))
    output = Path(output)
    origin = {
        "version": _VERSION,
        "name": card.name,
        "skip_bad": skip_bad,
        "partial": partial,
        "sources": [
            {"role": role, "file": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for role, path in files.items()
        ],
    }
    found = _begin(output, origin)
    if found is not None:
        return found
    log = RowLog(skip_bad=skip_bad)
    kept = _Kept()
    draft = output / f".{_ALL}.parquet"
    try:
        with open_writer(draft) as writer:
            for table in kept.tables(card, files, log):
                writer.write(table)
        _check_counts(card, files, log, partial=partial)
        if not len(kept.parts):
            raise DataError(f"{card.name}: no row is left ({_counted(log)}): give the files of the source")
        parts = _share_out(card, draft, kept, output)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
            if not any((output / f"{name}.parquet").exists() for name in (_ALL, *PARTS)):
                (output / _UNFINISHED).unlink(missing_ok=True)
    manifest = _manifest_of(card, origin, log, parts, output)
    replace_file(output / RECIPE, _recipe(card, output).encode())
    write_json(output / MANIFEST, manifest, what="manifest", indent=1)
    (output / _UNFINISHED).unlink(missing_ok=True)
    return PreparedSet(folder=output, manifest=manifest)


def _manifest_of(
    card: Card, origin: Mapping[str, Any], log: RowLog, parts: Mapping[str, Mapping[str, Any]], output: Path
) -> dict[str, Any]:
    """What a prepared set says of itself."""
    return {
        "name": card.name,
        "title": card.title,
        "folds": card.split.number if isinstance(card.split, Folds) else 0,
        "origin": origin,
        "rows_read": dict(log.read),
        "left_out": dict(log.left_out),
        "bad": {reason: {"rows": count, "first": log.examples[reason]} for reason, count in log.bad.items()},
        "remarks": {kind: count for kind, count in log.remarks.items() if count},
        "parts": parts,
        "columns": {field.name: str(field.type) for field in _schema(card)},
        "attributes": [dict(attribute) for attribute in card.attributes],
        "labels": list(card.labels),
        "task": dict(card.task),
        "classes": _classes(card, [output / str(part["file"]) for part in parts.values()]),
        "citation": card.citation,
        "terms": card.terms,
        "preparation": card.preparation,
    }


def sha256_of(path: Path) -> str:
    """The checksum of a file."""
    with readable(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _begin(output: Path, origin: Mapping[str, Any]) -> PreparedSet | None:
    """Make the folder, cleared of what an interruption left; the set that is there, where it is whole and the same."""
    if (output / MANIFEST).is_file():
        manifest = _manifest(output)
        if manifest["origin"] != origin:
            raise DataError(
                f"{output} holds {manifest['name']}, prepared from other files or with other settings: choose another "
                "folder, or remove that one"
            )
        if _damaged(output, manifest) is None:
            return PreparedSet(folder=output, manifest=manifest, reused=True)
    try:
        output.mkdir(parents=True, exist_ok=True)
        mark = output / _UNFINISHED
        begun = mark.is_file() or (output / MANIFEST).is_file()
        ours = {MANIFEST, RECIPE, *(f"{name}.parquet" for name in (_ALL, *PARTS))} if begun else set()
        others = [path.name for path in output.iterdir() if path.name not in ours and not path.name.startswith(".")]
        if others:
            raise DataError(
                f"{output} holds other files ({', '.join(sorted(others)[:5])}): choose an empty folder, or one that is "
                "not there yet"
            )
        mark.touch()
        for path in (output / MANIFEST, *output.glob(".*.parquet.*.tmp")):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{output} cannot be made ({error.strerror or error}): choose another folder") from error
    return None


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a prepared set; a DataError for the file of something else."""
    manifest = None
    with contextlib.suppress(ModelFolderError):
        manifest = read_json(folder / MANIFEST, what="manifest")
    if not isinstance(manifest, dict) or not {"name", "folds", "origin", "parts"} <= manifest.keys():
        raise DataError(
            f"{folder / MANIFEST} is damaged, or no manifest of a prepared data set: choose another folder, or remove "
            "that file and prepare the set again"
        )
    return manifest


def _damaged(folder: Path, manifest: Mapping[str, Any]) -> Path | None:
    """The first file that is missing or of another size; None where all are there."""
    files = {folder / str(part["file"]): part["bytes"] for part in manifest["parts"].values()}
    return next((path for path, size in files.items() if not path.is_file() or path.stat().st_size != size), None)


def _find(card: Card, folder: Path) -> dict[str, Path]:
    """The files by role; one error for all that are missing."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder: put the files of {card.name} there. {card.obtain}")
    found = {file.role: file.find(folder) for file in card.files}
    missing = [file.names[0] for file in card.files if found[file.role] is None]
    if missing:
        there = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
        raise DataError(f"{folder} lacks {', '.join(missing)} (it has: {there}). {card.obtain} Terms: {card.terms}")
    return {role: path for role, path in found.items() if path is not None}


class _Kept:
    """What is remembered of each row: its part, where the source says it, and a number for its text."""

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.texts: list[int] = []
        self._numbers: dict[bytes, int] = {}

    def tables(self, card: Card, files: Mapping[str, Path], log: RowLog) -> Iterator[pa.Table]:
        schema = _schema(card)
        rows = card.read(files, log)
        while batch := list(islice(rows, _BATCH)):
            for part, row in batch:
                self.parts.append(0 if part is None else PARTS.index(part))
                digest = hashlib.blake2b(row["text"].encode(), digest_size=8).digest()
                self.texts.append(self._numbers.setdefault(digest, len(self._numbers)))
            yield _table([row for _, row in batch], schema)


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    return pa.table({field.name: pa.array([row[field.name] for row in rows], field.type) for field in schema})


def _schema(card: Card) -> pa.Schema:
    """Text, labels and attributes, all as text; lists for attributes with several values."""
    kinds = {
        str(attribute["name"]): pa.list_(pa.string()) if attribute["kind"] == "multi_label" else pa.string()
        for attribute in card.attributes
    }
    return pa.schema([("text", pa.string()), *((label, pa.string()) for label in card.labels), *kinds.items()])


def _check_counts(card: Card, files: Mapping[str, Path], log: RowLog, *, partial: bool) -> None:
    """Tell a partial file from a wrong one."""
    for file in card.files:
        found, path = log.read[file.role], files[file.role]
        if not found:
            raise DataError(f"{path}: the file has no rows: {GET_AGAIN}")
        if file.rows is None or found == file.rows or (found < file.rows and partial):
            continue
        if found < file.rows:
            raise DataError(
                f"{path}: {found:,} of the {file.rows:,} rows that the source publishes: the file is a part, or was "
                "cut off; get it again, or take it as it is with --partial"
            )
        if not partial:
            raise DataError(
                f"{path}: {found:,} rows, more than the {file.rows:,} that the source publishes: this is another file; "
                "get it again, or take it as it is with --partial"
            )


def _counted(log: RowLog) -> str:
    reasons = [f"{reason}: {count:,}" for reason, count in (log.left_out + log.bad).items()]
    return "; ".join([f"{log.read.total():,} rows read", *reasons])


def _share_out(card: Card, draft: Path, kept: _Kept, output: Path) -> dict[str, Any]:
    """Write each row to the file of its part, in the order of the source."""
    if isinstance(card.split, Folds):
        if len(kept.parts) < card.split.number:
            raise DataError(
                f"{card.name}: {len(kept.parts):,} rows are too few for {card.split.number} folds: give the whole files"
            )
        numbers, names = card.split.folds(len(kept.parts)), [_ALL]
        where = np.zeros(len(kept.parts), dtype=np.int8)
    else:
        names = list(PARTS)
        where = np.array(kept.parts, dtype=np.int8)
        if isinstance(card.split, Shuffled):
            where = card.split.parts(kept.texts)
        if empty := [name for place, name in enumerate(names) if not (where == place).any()]:
            raise DataError(f"{card.name}: of {len(where):,} rows none is left for {empty[0]}: give the whole files")
    rows = dict.fromkeys(names, 0)
    with ExitStack() as stack:
        source = stack.enter_context(pq.ParquetFile(draft))
        writers = [stack.enter_context(open_writer(output / f"{name}.parquet")) for name in names]
        start = 0
        for batch in source.iter_batches(batch_size=_BATCH):
            table = pa.Table.from_batches([batch])
            end = start + len(table)
            if isinstance(card.split, Folds):
                table = table.append_column("fold", pa.array(numbers[start:end]))
            for place, name in enumerate(names):
                chosen = table.filter(pa.array(where[start:end] == place))
                rows[name] += len(chosen)
                if len(chosen):
                    writers[place].write(chosen)
            start = end
    found = {}
    for name in names:
        path = output / f"{name}.parquet"
        found[name] = {
            "file": path.name,
            "rows": rows[name],
            "bytes": path.stat().st_size,
            "sha256": sha256_of(path),
        }
    return found


def _classes(card: Card, files: Sequence[Path]) -> dict[str, list[str]]:
    """The classes of each label, over all parts."""
    table = pa.concat_tables(pq.read_table(file, columns=list(card.labels)) for file in files)
    return {label: list(sorted_classes(table[label].unique().to_pylist(), of=label)) for label in card.labels}


def _recipe(card: Card, output: Path) -> str:
    """The data and task parts of a recipe, with which the set can be trained on."""
    files = {_ALL: "train"} if isinstance(card.split, Folds) else {part: part for part in PARTS}
    data: dict[str, Any] = {ours: str(output / f"{name}.parquet") for name, ours in files.items()}
    data |= {
        "text": "text",
        "label": list(card.labels),
        "attributes": [dict(attribute) for attribute in card.attributes],
        "window": card.window,
    }
    comment = f"# {card.title}: {card.citation}\n# attribune train --config {output / RECIPE} --output RUN\n"
    return comment + yaml.safe_dump({"data": data, "task": dict(card.task)}, sort_keys=False, allow_unicode=True)
