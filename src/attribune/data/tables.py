"""Tables: a file, a data frame, an Arrow table, a Dataset or a hub id becomes a `datasets.Dataset`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribune.data.json_lines import json_batches
from attribune.data.storage import IN_MEMORY, ArrowStore
from attribune.data.text_files import checked_columns, csv_batches, csv_header, find_encoding, readable
from attribune.errors import ConfigError, DataError
from attribune.schema.columns import as_array, as_table

__all__ = [
    "ENDINGS",
    "Source",
    "check_same_columns",
    "header_columns",
    "open_parquet",
    "read_table",
    "refuse_input_as_output",
    "table_batches",
    "table_files",
    "table_source_name",
]

Source: TypeAlias = "str | Path | pd.DataFrame | pa.Table | datasets.Dataset"

_HUB_ID = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?::(?P<split>[\w.]+(?:\[[\d:%]+\])?))?")
_TEXT_ENDINGS = {".csv": ",", ".tsv": "\t", ".jsonl": None, ".ndjson": None, ".json": None}
_TIMES = re.compile("timestamp|date|time|duration")
_COMPRESSED = ("", ".gz", ".bz2")

ENDINGS: tuple[str, ...] = (*(text + packed for text in _TEXT_ENDINGS for packed in _COMPRESSED), ".parquet")
"""File endings that can be read."""


def read_table(
    source: Source,
    *,
    encoding: str | None = None,
    quoting: bool = True,
    cache_dir: str | Path | None = None,
    in_memory: int = IN_MEMORY,
) -> datasets.Dataset:
    """Read a table; one too large for memory is kept in an Arrow file and read from there as needed.

    Args:
        source: a path (see `ENDINGS`), a DataFrame, an Arrow table or anything that has its interface
            (``__arrow_c_stream__``), a Dataset, or a hub id, `owner/name` or `owner/name:split`, when there is no such
            file. Every column of a CSV or TSV file is text.
        encoding: of a text file; None detects it.
        quoting: for CSV and TSV, whether double quotes enclose fields; False takes them as plain characters.
        cache_dir: folder for a table too large for memory; None takes a temporary one, removed when Python ends.
        in_memory: maximum size in bytes of a table kept in memory.

    Raises:
        DataError: naming file, line or column of what cannot be used.
        ConfigError: for an unknown encoding.
    """
    if isinstance(source, datasets.Dataset):
        return _named_classes(source.with_format(None))
    if isinstance(source, dict):
        splits = ", ".join(map(repr, source))
        raise DataError(f"the source holds several tables ({splits}): choose one, as in source[{next(iter(source))!r}]")
    store = ArrowStore(folder=cache_dir, in_memory=in_memory)
    if isinstance(source, pd.DataFrame) or hasattr(source, "__arrow_c_stream__"):
        table = _from_pandas(source) if isinstance(source, pd.DataFrame) else as_table(source)
        store.write(_plain(table, table_source_name(source)))
        return store.finish()
    if not isinstance(source, str | Path):
        raise DataError(f"a table cannot be read from {type(source).__name__}: give a path, a DataFrame or a Dataset")
    path = Path(source)
    if not path.exists() and (hub := _hub_id(source)) is not None:
        return _named_classes(_from_hub(hub["name"], hub["split"]))
    with store:
        for batch in table_batches(path, encoding=encoding, quoting=quoting):
            store.write(batch)
    return store.finish()


def table_batches(path: Path, *, encoding: str | None = None, quoting: bool = True) -> Iterator[pa.Table]:
    """Read a file batch by batch, as `read_table` does; all batches have the same columns and types."""
    ending = _ending(path)
    if ending == ".parquet":
        return _read_parquet(path)
    return _read_text(path, encoding=find_encoding(path, encoding=encoding), quoting=quoting)


def _read_text(path: Path, *, encoding: str, quoting: bool) -> Iterator[pa.Table]:
    delimiter = _delimiter(_ending(path))
    try:
        if delimiter is None:
            yield from json_batches(path, encoding=encoding)
        else:
            yield from csv_batches(path, encoding=encoding, delimiter=delimiter, quoting=quoting)
    except UnicodeDecodeError as error:  # its encoding was checked before
        raise DataError(f"{path}: the file changed while it was read: read it again") from error


def header_columns(path: Path, *, encoding: str | None = None) -> list[str] | None:
    """Return the columns of a file, read at its beginning or end; None for JSON, where any row may add a column.

    Raises:
        DataError: naming a file that cannot be read.
        ConfigError: for an unknown encoding.
    """
    ending = _ending(path)
    if ending == ".parquet":
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    delimiter = _delimiter(ending)
    return None if delimiter is None else csv_header(path, encoding=encoding, delimiter=delimiter)


def refuse_input_as_output(output: str | Path, sources: Iterable[object]) -> None:
    """Refuse an output that is a file to read, by whatever path.

    Raises:
        ConfigError: naming the output.
    """
    paths = [Path(source) for source in sources if isinstance(source, str | Path)]
    if Path(output).exists() and any(path.exists() and path.samefile(output) for path in paths):
        raise ConfigError(f"{output} is the table that is read: choose another output file")


def table_files(sources: Iterable[str | Path]) -> list[Path]:
    """List files that are named, and those with a known ending in folders that are named, sorted by name.

    Raises:
        DataError: for a folder that cannot be read or holds no such file, or a file that is named twice.
    """
    files: dict[Path, Path] = {}
    for source in map(Path, sources):
        for file in _files_in(source) if source.is_dir() else [source]:
            if file.resolve() in files:
                raise DataError(f"{file} is given twice, so that its rows would be: name it once")
            files[file.resolve()] = file
    return list(files.values())


def _files_in(folder: Path) -> list[Path]:
    with readable(folder):
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    files = [folder / name for name in names if name[0] not in "._" and name.lower().endswith(ENDINGS)]
    if not files:
        raise DataError(
            f"{folder}: the folder holds no table ({len(names)} other files): name a folder whose files end in one of "
            f"{', '.join(ENDINGS)}"
        )
    return files


def _named_classes(table: datasets.Dataset) -> datasets.Dataset:
    """Write class numbers, also in lists, as the names of the classes, since labels and values are text here."""
    kinds = {name: kind.feature if isinstance(kind, datasets.List) else kind for name, kind in table.features.items()}
    classes = {name: kind for name, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)}
    if not classes:
        return table

    def name_of(kind: datasets.ClassLabel, number: Any) -> Any:
        if isinstance(number, list):
            return [name_of(kind, one) for one in number]
        return None if number is None or number < 0 else kind.int2str(number)

    def named(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {name: [name_of(kind, number) for number in batch[name]] for name, kind in classes.items()}

    features, text = table.features.copy(), datasets.Value("string")
    is_list = {name: isinstance(table.features[name], datasets.List) for name in classes}
    features.update({name: datasets.List(text) if is_list[name] else text for name in classes})
    return table.map(named, batched=True, features=features, keep_in_memory=not table.cache_files)


def check_same_columns(columns: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Check that files have the same columns, in any order.

    Args:
        columns: names of files, each with its columns.

    Raises:
        DataError: naming the file and the columns in which it differs from the first.
    """
    for name, present in columns[1:]:
        first, expected = columns[0]
        less, more = (", ".join(map(repr, sorted({*a} - {*b}))) for a, b in ((expected, present), (present, expected)))
        words = [f"has no column {less}"] * bool(less) + [f"has {more} beside its columns"] * bool(more)
        if words:
            raise DataError(
                f"{name} {' and '.join(words)}, unlike {first}: give all files the same columns, or predict it into "
                "an output of its own"
            )


def table_source_name(source: Source) -> str:
    """Name a source in messages."""
    return str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"


def _ending(path: Path) -> str:
    """Find the file's ending, after checking that there is a file to read."""
    ending = next((known for known in ENDINGS if path.name.lower().endswith(known)), None)
    if not path.exists():
        raise _no_file(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder: name the file in it")
    if ending is None:
        raise DataError(f"{path}: unknown ending {path.suffix!r}: convert the file to one of {', '.join(ENDINGS)}")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty: give a file with rows")
    return ending


def _delimiter(ending: str) -> str | None:
    return _TEXT_ENDINGS[ending.removesuffix(".gz").removesuffix(".bz2")]


@contextmanager
def open_parquet(path: Path, *, cure: str = "write it again") -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; DataError with the cure for one that is damaged, within the block, too."""
    try:
        with readable(path), pq.ParquetFile(path) as file:
            yield file
    except pa.ArrowException as error:
        raise DataError(f"{path}: truncated, or not a Parquet file ({error}): {cure}") from error


def _read_parquet(path: Path) -> Iterator[pa.Table]:
    with open_parquet(path) as file:
        if not file.metadata.num_rows:
            raise DataError(f"{path}: the file has columns but no rows: give a file with rows")
        checked_columns(file.schema_arrow.names, source=str(path))
        rows = 0
        for batch in file.iter_batches(batch_size=10_000):
            rows += len(batch)
            yield _plain(pa.Table.from_batches([batch]), str(path))
        if rows != file.metadata.num_rows:
            raise DataError(f"{path}: holds {rows:,} rows, and says {file.metadata.num_rows:,}: write it again")


def _plain(table: pa.Table, source: str) -> pa.Table:
    """Return the table with types that a Dataset can hold: categories become their values, nothing becomes text."""
    checked_columns(table.column_names, source=source)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        _check_values(column, f"{source}: column {name!r}")
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        elif pa.types.is_null(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _check_values(column: pa.ChunkedArray, what: str) -> None:
    """Refuse types that a Dataset cannot hold, and times that Python cannot: beyond the year 9999, or of no zone."""
    kind = str(column.type)
    if "map<" in kind or "interval" in kind:
        raise DataError(f"{what} is of the type {kind:.80}: write it as texts, numbers or lists of them")
    if not _TIMES.search(kind):
        return
    try:
        if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
            pc.min_max(column).as_py()
        else:
            column.to_pylist()
    except (OverflowError, ValueError, KeyError) as error:  # a KeyError for zones
        raise DataError(
            f"{what}, {kind:.80}, holds a time that does not exist in Python ({error}): write times of the years 1 to "
            "9999, of a known zone, or texts"
        ) from error


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    names = checked_columns([str(name) for name in frame.columns], source="the DataFrame")
    columns = [as_array(frame.iloc[:, index], column=name) for index, name in enumerate(names)]
    return pa.table(columns, names=names)


def _no_file(path: Path) -> DataError:
    if not path.parent.is_dir():
        return DataError(f"{path}: there is no such file, nor a folder {path.parent}: check the path")
    names = sorted(entry.name for entry in path.parent.iterdir())
    close = difflib.get_close_matches(path.name, names, n=1)
    hint = f"did you mean {str(path.parent / close[0])!r}?" if close else f"{path.parent} holds no similar name"
    return DataError(f"{path}: there is no such file; {hint}")


def _hub_id(source: str | Path) -> re.Match[str] | None:
    """Recognise `owner/name`: not a known ending, and `owner` is not a folder here."""
    if not isinstance(source, str) or source.lower().endswith(ENDINGS) or Path(source).parent.is_dir():
        return None
    return _HUB_ID.fullmatch(source)


def _from_hub(name: str, split: str | None) -> datasets.Dataset:
    try:
        loaded = datasets.load_dataset(name, split=split)
    except Exception as error:  # the hub's client raises errors of many libraries
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"{name!r} is neither a file here nor a table that the hub gave ({reason}): check the path, the name and "
            "the connection"
        ) from error
    if isinstance(loaded, datasets.Dataset):
        return loaded
    if isinstance(loaded, datasets.DatasetDict) and len(loaded) == 1:
        return next(iter(loaded.values()))
    splits = ", ".join(repr(f"{name}:{part}") for part in loaded)
    raise DataError(f"{name!r} has several splits: name one of {splits}")
