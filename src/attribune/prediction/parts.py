"""A folder of predictions in parts: its files, and how it is created, resumed and finished.

``_manifest.json`` is written first and ``_summary.json`` last: a folder with only the former is an interrupted
prediction. Readers that take a folder of Parquet files as one table ignore names with a leading underscore or dot.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, TypeAdapter

from attribune.core.config import Settings
from attribune.core.files import write_json
from attribune.core.hashing import file_sha256, sha256
from attribune.core.job_folder import JobFolder
from attribune.core.progress import Reporter
from attribune.core.wording import counted
from attribune.data.file_options import AS_FOUND, FileOptions, Reading
from attribune.data.table_files import header_columns, table_batches
from attribune.data.tables import check_same_columns
from attribune.data.writing import open_writer
from attribune.errors import ConfigError, DataError
from attribune.models.predictor import Predictor, Quantisation
from attribune.prediction.rows import note_empty_texts, score_rows
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_predictor
from attribune.schema import EncodingReport

PART_ROWS = 16_384
"""Rows of a part, except the last one of a file."""
_KEY = b"attribune"
_NOTE_INTERVAL = 60  # seconds between notes about the progress


@dataclass(frozen=True, kw_only=True)
class Job:
    """A prediction into a folder.

    Args:
        backbone: new location of the backbone's weights, if they were moved.
        files: input files, numbered from 1.
        part_rows: rows of a part.
        reading: how the files are read.
        quantise: ``int8``, or None.
    """

    run: str
    backbone: str | Path | None
    files: tuple[str, ...]
    part_rows: int
    output: str
    reading: FileOptions = AS_FOUND
    quantise: Quantisation | None = None


@dataclass(frozen=True, kw_only=True)
class FilePart:
    """Rows of a file that are scored and written together; the other fields are those of `Mark`."""

    file: int
    first_row: int
    last: bool
    rows: pa.Table


def read_parts(job: Job, file: int, *, done: Collection[int]) -> Iterator[FilePart]:
    """Cut a file into parts while it is read; the same file and arguments give the same parts.

    Args:
        file: number of the file, from 1.
        done: first rows of the parts to skip.

    Raises:
        AttribuneError: naming file, line or column of what cannot be read.
    """
    first, waiting = 1, list[pa.Table]()
    for batch in table_batches(Path(job.files[file - 1]), options=job.reading):
        waiting.append(batch)
        # `waiting` stays non-empty, so that the last part is known to be the last.
        while sum(map(len, waiting)) > job.part_rows:
            rows = pa.concat_tables(waiting)
            if first not in done:
                yield FilePart(file=file, first_row=first, last=False, rows=rows.slice(0, job.part_rows))
            first, waiting = first + job.part_rows, [rows.slice(job.part_rows)]
    if first not in done:
        yield FilePart(file=file, first_row=first, last=True, rows=pa.concat_tables(waiting))


class _Manifest(Settings):
    run: str
    encoding: str | None
    part_rows: int = Field(ge=1)
    quantise: Quantisation | None = None
    delimiter: str | None = None
    quoting: bool | None = None
    decimal: str | None = None
    columns: list[str] | None = None
    file_format: str | None = None
    rows: int | None = None
    files: list[tuple[str, int]]


class _Summary(Settings):
    rows: int
    parts: int
    files: dict[str, int]
    attributes: dict[str, dict[str, int | str]]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The description of a part in the metadata of its file.

    Args:
        file: number of the input file, from 1.
        first_row: number of its first row in that file, from 1.
        last: whether it is the last part of the file.
        columns: of the input file.
        report: of the encoding of attributes.
    """

    file: int
    first_row: int
    rows: int
    last: bool
    columns: tuple[str, ...]
    report: EncodingReport

    def to_json(self) -> str:
        """Return the mark as JSON text."""
        fields = {name: getattr(self, name) for name in ("file", "first_row", "rows", "last", "columns")}
        report = {name: value for name, value in asdict(self.report).items() if value or name == "attributes"}
        return json.dumps({**fields, **report}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> Mark:
        """Read the result of `to_json`; ValueError or KeyError for other text."""
        fields = json.loads(text)
        report = {one.name: fields.pop(one.name) for one in dataclass_fields(EncodingReport) if one.name in fields}
        return _marks().validate_python(fields | {"report": report})

    def on(self, rows: pa.Table) -> pa.Table:
        """Return the rows with the mark in their metadata."""
        return rows.replace_schema_metadata({_KEY: self.to_json().encode()})

    @classmethod
    def of(cls, path: Path) -> Mark | None:
        """Read the mark of a part; None if the file is missing or damaged."""
        try:
            return cls.from_json(pq.read_schema(path).metadata[_KEY])
        except (OSError, pa.ArrowException, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return None


@cache
def _marks() -> TypeAdapter[Mark]:
    return TypeAdapter(Mark)


@dataclass(frozen=True)
class PartsFolder(JobFolder):
    """Paths inside a folder of predictions; the plan has run and files, the summary rows and counts."""

    contents = "predictions"
    plan_name = "_manifest.json"
    summary_name = "_summary.json"

    def part(self, file: int, first_row: int) -> Path:
        """Return the path of a part; sorted by name, parts are in the order of the rows."""
        return self.path / f"part-{file:05}-{first_row:012}.parquet"

    def marks(self) -> dict[tuple[int, int], Mark]:
        """Read the marks of the complete parts, by number of the file and of the first row."""
        marks = filter(None, map(Mark.of, sorted(self.path.glob("part-*.parquet"))))
        return {(mark.file, mark.first_row): mark for mark in marks}

    def part_rows(self) -> int:
        """Return the number of rows of a part: that of the plan, or `PART_ROWS` for a new folder."""
        saved = self._manifest()
        return PART_ROWS if saved is None else int(saved["part_rows"])

    def begin(self, job: Job, *, digest: str) -> dict[tuple[int, int], Mark]:
        """Create the folder, or check that its plan has the same run and files; returns the marks of its parts.

        Args:
            digest: of the run.

        Raises:
            ConfigError: for a folder of something else, with the cure.
            ModelFolderError: for a folder that cannot be written.
        """
        saved = self._manifest()
        wanted = {
            "run": digest,
            "part_rows": job.part_rows,
            "quantise": job.quantise,
            **asdict(job.reading),
            "columns": None if job.reading.columns is None else list(job.reading.columns),
            "files": [[name, Path(name).stat().st_size] for name in job.files],
        }
        marks = self.marks() if saved else {}
        if saved and (marks or self.summary_file.is_file()):
            self._check(saved, wanted, {file for file, _ in marks})
        if saved != wanted:
            self.write_plan((json.dumps(wanted, ensure_ascii=False) + "\n").encode())
        return marks

    def _manifest(self) -> dict[str, Any] | None:
        self.refuse_foreign()
        if not self.is_begun:
            return None
        saved = _read(self.plan_file)
        try:
            return _Manifest.from_dict(saved).model_dump(mode="json")
        except ConfigError as error:
            reason = str(error).partition("  - ")[2]
            raise ConfigError(
                f"{self.plan_file} is not what a prediction writes ({reason}): choose another output folder"
            ) from error

    def _check(self, saved: dict[str, Any], wanted: dict[str, Any], begun: set[int]) -> None:
        """Refuse to mix predictions of another run, or of other files."""
        before, names = ([name for name, _ in manifest["files"]] for manifest in (saved, wanted))
        different = {
            "with another run": saved["run"] != wanted["run"],
            **{
                f"with {name}={saved[name]!r}": saved[name] != wanted[name]
                for name in (*Reading.__annotations__, "quantise")
            },
            f"in parts of {saved['part_rows']:,} rows": saved["part_rows"] != wanted["part_rows"],
            f"of other files ({_shown(before)})": before != names,
        }
        if any(different.values()):
            what = " and ".join(words for words, differs in different.items() if differs)
            raise ConfigError(f"{self.path} was started {what}: give the same, or choose another output folder")
        pairs = zip(saved["files"], wanted["files"], strict=True)
        for number, ((name, old), (_, size)) in enumerate(pairs, start=1):
            if size != old and (number in begun or self.summary_file.is_file()):
                raise ConfigError(
                    f"{name} had {old:,} bytes when it was predicted into {self.path}, and has {size:,} now: choose "
                    f"another output folder, or remove {self.summary_name} and part-{number:05}-*.parquet there and "
                    "run again to predict this file"
                )

    def finished(self) -> dict[str, Any] | None:
        """Read the summary of a finished prediction; None if it is missing or damaged."""
        with contextlib.suppress(ConfigError):
            return _Summary.from_dict(_read(self.summary_file)).model_dump()
        return None

    def finish(self, job: Job, marks: Mapping[tuple[int, int], Mark]) -> dict[str, EncodingReport]:
        """Check that no row is missing, write the summary, and return the report on each file.

        Raises:
            DataError: for a file with missing parts.
            ModelFolderError: for a summary that cannot be written.
        """
        missing = [name for number, name in enumerate(job.files, start=1) if not is_whole(number, marks)]
        if missing:
            raise DataError(f"{self.path}: parts of {_shown(missing)} are missing: run the same command again")
        reports = {name: EncodingReport({}) for name in job.files}
        rows = dict.fromkeys(job.files, 0)
        for _, mark in sorted(marks.items()):
            reports[job.files[mark.file - 1]] += mark.report
            rows[job.files[mark.file - 1]] += mark.rows
        report = sum(reports.values(), EncodingReport({}))
        summary = {
            "rows": sum(rows.values()),
            "parts": len(marks),
            "files": rows,
            "attributes": {name: asdict(counts) for name, counts in report.attributes.items()},
        }
        write_json(self.summary_file, summary, what="summary of the predictions")
        for draft in self.path.glob(".part-*.tmp"):  # of a process that was killed
            draft.unlink(missing_ok=True)
        return reports


def is_whole(file: int, marks: Mapping[tuple[int, int], Mark]) -> bool:
    """Whether the parts of an input file cover it from its first row to its last."""
    row = 1
    while (mark := marks.get((file, row))) is not None:
        if mark.last:
            return True
        row += mark.rows
    return False


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def predict_parts(job: Job, *, reporter: Reporter) -> int:
    """Make the missing parts of a folder; returns the number of rows of all parts.

    Arguments and errors are those of `predict`.
    """
    headers = [(name, header_columns(Path(name), options=job.reading)) for name in job.files]
    check_same_columns([(name, columns) for name, columns in headers if columns is not None])
    folder = PartsFolder(Path(job.output))
    folder.refuse_foreign()
    with folder.held():
        return _predict_parts(job, folder, reporter)


def _predict_parts(job: Job, folder: PartsFolder, reporter: Reporter) -> int:
    marks = folder.begin(job, digest=_digest(job.run))
    summary = folder.finished()
    if summary is not None:
        reporter.note(f"{job.output} is finished already: {_amount(summary['rows'], summary['parts'])}")
        return int(summary["rows"])
    if marks:
        reporter.note(f"resuming after {_amount(_rows(marks), len(marks))}")
    told = time.monotonic()
    for mark in _missing(job, marks):
        # `header_columns` does not know the columns of all files beforehand.
        other = next(iter(marks.values()), mark)
        check_same_columns([(job.files[one.file - 1], one.columns) for one in (other, mark)])
        marks[mark.file, mark.first_row] = mark
        if time.monotonic() - told > _NOTE_INTERVAL:
            told = time.monotonic()
            reporter.note(f"{_amount(_rows(marks), len(marks))} done")
    reports = folder.finish(job, marks)
    for name, report in reports.items():
        note_empty_texts(report, name, reporter)
    for line in sum(reports.values(), EncodingReport({})).lines():
        reporter.note(line)
    reporter.note(f"{_amount(_rows(marks), len(marks))} written to {job.output}")
    return _rows(marks)


def _missing(job: Job, marks: Mapping[tuple[int, int], Mark]) -> Iterator[Mark]:
    """Make the missing parts."""
    numbers = [number for number in range(1, len(job.files) + 1) if not is_whole(number, marks)]
    if not numbers:
        return
    predictor = load_predictor(job.run, backbone=job.backbone, quantise=job.quantise)
    for number in numbers:
        done = {row for file, row in marks if file == number}
        for part in read_parts(job, number, done=done):
            yield _write_part(part, job, predictor)


def _write_part(part: FilePart, job: Job, predictor: Predictor) -> Mark:
    """Score a part and write it; returns its mark."""
    scored, report = score_rows(predictor, part.rows, source=job.files[part.file - 1], first_row=part.first_row)
    mark = Mark(
        file=part.file,
        first_row=part.first_row,
        rows=len(part.rows),
        last=part.last,
        columns=tuple(part.rows.column_names),
        report=report,
    )
    with open_writer(PartsFolder(Path(job.output)).part(part.file, part.first_row)) as writer:
        writer.write(mark.on(scored))
    return mark


def _digest(run: str) -> str:
    """Return a digest of a run's recipe and of all files of its model, or of those of a model alone."""
    folder = RunFolder.of(run)
    model, others = folder.path, list[Path]()
    if not folder.is_model_alone:
        folder.read_recipe()
        model, others = folder.model, [folder.plan_file]
    files = (*others, *sorted(path for path in model.rglob("*") if path.is_file()))
    named = ((path.relative_to(folder.path).as_posix().encode(), file_sha256(path)) for path in files)
    return sha256(part for name, content in named for part in (name, bytes.fromhex(content)))


def _amount(rows: int, parts: int) -> str:
    return f"{counted(rows, 'row')} in {counted(parts, 'part')}"


def _rows(marks: Mapping[tuple[int, int], Mark]) -> int:
    return sum(mark.rows for mark in marks.values())
