"""Files of a table in every format: the same rows come out, and what is damaged is named."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import re
import struct
import uuid
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from read_files import read, write

from attribune.core.wording import one_line
from attribune.data import table_files, text_files
from attribune.data.file_options import FileOptions
from attribune.data.table_files import ENDINGS, _extent, header_columns
from attribune.data.tables import read_table
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema.columns import canonical

FRAME = pd.DataFrame(
    {
        "text": ["a; b, c|d", "zwei\nZeilen", "größer", ""],
        "user": ["u1", "NA", "u,2", "u1"],
        "stars": ["1", "2", "3", "4"],
    }
)


def compressed_by(compress: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(compress(FRAME.to_csv(index=False).encode()))


def zipped(path: Path, *, names: tuple[str, ...] = ("folder/reviews.csv",)) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        for name in names:
            text = FRAME.to_json(orient="records") if name.endswith(".json") else FRAME.to_csv(index=False)
            archive.writestr(name, text)
        archive.writestr("__MACOSX/._reviews.csv", b"\0\0")


def zstandard(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


def _book(path: Path, rows: list[list[object]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def stream(path: Path) -> None:
    table = pa.Table.from_pandas(FRAME)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def csv(**options: Any) -> Callable[[Path], object]:
    return lambda path: FRAME.to_csv(path, index=False, **options)


WRITERS: dict[str, Callable[[Path], object]] = {
    "comma.csv": csv(),
    "semicolon.csv": csv(sep=";"),
    "tab.csv": csv(sep="\t"),
    "bar.csv": csv(sep="|"),
    "utf-16.csv": csv(sep=";", encoding="utf-16"),
    "cp1252.csv": csv(sep=";", encoding="cp1252"),
    "t.tsv": csv(sep="\t"),
    "g.csv.gz": compressed_by(gzip.compress),
    "b.csv.bz2": compressed_by(bz2.compress),
    "x.csv.xz": compressed_by(lzma.compress),
    "Z.CSV.ZST": compressed_by(zstandard),
    "z.csv.zip": zipped,
    "z.zip": zipped,
    "json.zip": lambda path: zipped(path, names=("reviews.json",)),
    "lines.jsonl": lambda path: FRAME.to_json(path, orient="records", lines=True),
    "list.json": lambda path: FRAME.to_json(path, orient="records"),
    "columns.json": lambda path: path.write_text(json.dumps(FRAME.to_dict("list")), encoding="utf-8"),
    "pandas.json": lambda path: FRAME.to_json(path),
    "indented.json": lambda path: FRAME.to_json(path, indent=2),
    "split.json": lambda path: FRAME.to_json(path, orient="split"),
    "p.parquet": lambda path: FRAME.to_parquet(path),
    "f.feather": lambda path: feather.write_feather(FRAME, path),
    "f.arrow": lambda path: feather.write_feather(FRAME, path, compression="uncompressed"),
    "s.arrow": stream,
    "e.xlsx": lambda path: FRAME.to_excel(path, index=False),
}


def assert_same(table: Any, frame: pd.DataFrame = FRAME) -> None:
    found = table.to_pandas().fillna("").astype(str)
    assert (list(found), found.to_numpy().tolist()) == (list(frame), frame.to_numpy().tolist())


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_the_same_rows_come_out(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    assert_same(read_table(str(path)))
    assert name.lower().endswith(ENDINGS)
    assert header_columns(path) == (None if "json" in name else list(FRAME))


PACKED = ("gz", "bz2", "xz", "ZST", "zip", "parquet", "feather", "arrow", "xlsx")


@pytest.mark.parametrize("name", [name for name in WRITERS if name.endswith(PACKED)])
def test_a_truncated_file_is_named(name: str, tmp_path: Path) -> None:
    """Whatever is left of a compressed or binary file, the rows are all there or an error says what is wrong."""
    path = tmp_path / name
    WRITERS[name](path)
    whole = path.read_bytes()
    for size in {1, 3, 20, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 1}:
        path.write_bytes(whole[:size])
        rows = 0
        with suppress(DataError):
            rows = len(read_table(str(path)))
        assert rows in (0, len(FRAME))
        if not rows:
            with pytest.raises(DataError, match=re.escape(str(path))):
                read_table(str(path))


@pytest.mark.parametrize("name", ["e.xlsx", "f.feather", "f.arrow", "z.csv.zip", "x.csv.xz", "z.csv.zst", "p.parquet"])
@pytest.mark.parametrize("content", [b"", b"no such format", b"\0" * 300, b"PK\x03\x04 and then nothing"])
def test_what_is_not_of_the_format(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=name):
        read_table(str(path))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a.csv", "b.csv"), r"t.zip: the archive holds 2 files \(a.csv, b.csv\): unpack it"),
        ((), "the archive holds 0 files"),
        (("a.png",), r"t.zip: holds a.png, of the unknown ending '.png'"),
    ],
)
def test_an_archive_of_other_than_one_table_is_named(names: tuple[str, ...], message: str, tmp_path: Path) -> None:
    zipped(tmp_path / "t.zip", names=names)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.zip")


def test_an_archive_with_a_password_is_named(tmp_path: Path) -> None:
    zipped(tmp_path / "t.zip")
    data = bytearray((tmp_path / "t.zip").read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag is in both headers of each member
        for found in re.finditer(re.escape(mark), bytes(data)):
            data[found.start() + place] |= 1
    with pytest.raises(DataError, match="the archive has a password"):
        read(tmp_path, "t.zip", bytes(data))


def test_a_workbook_of_several_sheets_is_read_from_the_first(tmp_path: Path) -> None:
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        more = FRAME.assign(price=[1.5, None, 2.0, 3.0], seen=pd.Timestamp("2024-05-01"))
        more.to_excel(book, sheet_name="reviews", index=False)
        FRAME.to_excel(book, sheet_name="other", index=False)
    with pytest.warns(AttribuneWarning, match="has 2 sheets: the first one, 'reviews', is read"):
        table = read_table(tmp_path / "book.xlsx")
    assert table["price"] == [1.5, None, 2.0, 3.0]
    assert table["seen"][0].year == 2024
    assert table["user"][1] == "NA", "the schema decides what is missing, as for CSV"
    with pytest.raises(DataError, match=r"empty.xlsx: the file has columns but no rows"):
        read_table(_book(tmp_path / "empty.xlsx", [["text", "user"]]))


def test_without_the_package_for_spreadsheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.to_excel(tmp_path / "e.xlsx", index=False)
    monkeypatch.setattr(table_files.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"spreadsheets need a package of their own: pip install 'attribune\[tables\]'"):
        read_table(tmp_path / "e.xlsx")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("text;user\na,b;c\n", ["text", "user"]),
        ("text\na;b\n", ["text"]),
        ("a;b,user\nx,y\n", ["a;b", "user"]),  # a comma that makes fields is one
        ('"a,b";user\nx;y\n', ["a,b", "user"]),
        ("\n\ntext|user;x|label\n1|2|3\n", ["text", "user;x", "label"]),
    ],
)
def test_the_delimiter_is_found(text: str, names: list[str], tmp_path: Path) -> None:
    assert list(read(tmp_path, "t.csv", text)) == names


def test_an_open_quote_hides_no_delimiter(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read(tmp_path, "t.csv", '"open;user\n";x\n')


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ({"text": ["a", "b"], "tags": [["x"], ["y", "z"]]}, 2),
        ({"text": {"0": "a", "7": "b"}, "user": {"0": "u", "7": "v"}}, 2),
        ({"text": "a", "tags": ["x", "y"]}, 1),  # a row
        ({"text": ["a", "b"], "tags": ["x"]}, 1),  # columns of different lengths are none
        ({"columns": ["text"], "data": [["a"], ["b"], ["c"]], "index": [0, 1, 2]}, 3),
    ],
)
def test_one_object_of_columns_or_one_row(content: object, rows: int, tmp_path: Path) -> None:
    text = json.dumps(content)
    assert len(read_table(write(tmp_path, "t.json", text))) == rows
    lines = write(tmp_path, "t.json", f'{text}\n{{"text": "another"}}\n')
    assert len(read_table(lines)) == 2, "a file with an object a line has rows"


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_the_format_of_the_standard_input_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    piped(monkeypatch, path.read_bytes())
    assert_same(read_table("-"))
    assert_same(read_table("-", rows=1), FRAME[:1])


def test_the_standard_input_may_be_empty_or_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"")
    with pytest.raises(DataError, match="the file is empty") as error:
        read_table("-")
    assert one_line(str(error.value)).startswith("the standard input: the file is empty")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ConfigError, match="nothing in the standard input"):
        read_table("-")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux has files without a name that have a path")
def test_the_standard_input_is_nowhere_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of it, also when the process is killed."""
    monkeypatch.setattr(text_files, "temporary_folder", lambda: tmp_path)
    piped(monkeypatch, b"text,stars\na secret,1\n")
    assert read_table("-")["text"] == read_table("-")["text"] == ["a secret"]
    (path,) = tmp_path.glob("*/*")
    assert (path.name, path.is_symlink(), path.read_text()) == ("stdin.csv", True, "text,stars\na secret,1\n")
    assert path.readlink().parent == Path(f"/proc/{os.getpid()}/fd")


def test_a_full_temporary_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(text_files, "temporary_folder", lambda: tmp_path)
    monkeypatch.setattr("shutil.copyfileobj", full)
    piped(monkeypatch, b"text\na\n")
    with pytest.raises(ConfigError, match=f"standard input cannot be saved in {re.escape(str(tmp_path))}, .*TMPDIR"):
        read_table("-")


def test_delimiters_and_formats_are_named(tmp_path: Path) -> None:
    content = "text~stars\na, b~1\nc~2\nd~3\n"
    found = read(tmp_path, "t.txt", content, file_format="csv", delimiter="~", rows=2)
    assert found == {"text": ["a, b", "c"], "stars": ["1", "2"]}
    path = write(tmp_path, "t.txt", "text,or,not\tstars\na\t1\n")
    assert read_table(path, file_format="csv", delimiter="tab").column_names == ["text,or,not", "stars"]
    assert header_columns(path, options=FileOptions(file_format="tsv")) == ["text,or,not", "stars"]
    frame = pd.DataFrame({"a": range(9)})
    assert read_table(frame, rows=4)["a"][:] == [0, 1, 2, 3]
    assert len(read_table(frame, rows=40)) == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ";;"}, "delimiter is ';;': give one character"),
        ({"delimiter": '"'}, "give one character"),
        ({"file_format": "docx"}, "file_format is 'docx': choose one of csv, "),
        ({"rows": 0}, "rows is 0: give at least 1"),
        ({"delimiter": ";", "file_format": "jsonl"}, "a file of jsonl has no delimiter ';'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, "t.csv", "a,b\n1,2\n", **options)


TEXTS_OF_NUMBERS = [["007", "7"], ["9007199254740992", "9007199254740993", None], ["1e3", "1000"], ["True", "False"]]


@pytest.mark.parametrize("cells", [*TEXTS_OF_NUMBERS, [9007199254740, 3, None], [1.5, 2], [True, False]], ids=str)
def test_cells_of_a_workbook_are_what_they_are_there(cells: list[object], tmp_path: Path) -> None:
    """Texts stay texts, and an empty cell makes no number another one."""
    path = _book(tmp_path / "cells.xlsx", [["text", "user"], *(["a", cell] for cell in cells)])
    found = read_table(path)["user"]
    assert [canonical(cell) for cell in found] == [canonical(cell) for cell in cells]
    assert [isinstance(cell, str) for cell in found] == [isinstance(cell, str) for cell in cells]


@pytest.mark.parametrize(
    ("header", "message"),
    [(["text", "user", "user"], "two columns are named 'user'"), (["text", None, "user"], "no name")],
)
def test_the_header_of_a_workbook_is_checked(header: list[object], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_table(_book(tmp_path / "cells.xlsx", [header, ["a", "b", "c"]]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"is a pipe or a device, which can be read only once: .* `zcat"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc failed"), RuntimeError("bad_alloc")])
def test_a_table_that_does_not_fit_into_memory_is_named(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(_: object) -> Any:
        raise error
        yield

    monkeypatch.setattr(table_files._File, "batches", unpack)
    with pytest.raises(DataError, match=rf"{tmp_path}/t.csv: there is not enough memory to read the table"):
        read(tmp_path, "t.csv", "text\na\n")


def far_cell(path: Path, *, first: bool) -> None:
    """A workbook with a cell in the last corner of one of its sheets."""
    book = openpyxl.Workbook()
    sheets = [book.active, book.create_sheet()]
    for sheet in sheets:
        sheet.append(["text", "user"])
        sheet.append(["a film", "u1"])
    sheets[0 if first else 1].cell(row=1048576, column=16384, value="x")
    book.save(path)


def test_a_cell_far_from_the_others_is_named(tmp_path: Path) -> None:
    """The reader lays out all cells between, and aborts the process."""
    path = tmp_path / "t.xlsx"
    far_cell(path, first=True)
    found = r"1,048,576 rows and 16,384 columns up to the cell XFD1048576, needs .* GB .*: delete cells far"
    with pytest.raises(ConfigError, match=found):
        read_table(path)
    far_cell(path, first=False)
    with pytest.warns(AttribuneWarning, match="the first one"):
        assert read_table(path).to_dict() == {"text": ["a film"], "user": ["u1"]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<sheetData/>", (0, 0, "A1")),
        (b'<row r="3"><c r="B3" s="1"/><c r="D3"/></row><row r="9"><c r="C9"/></row>', (7, 3, "D9")),
        (b'<x:c t="s" r="AA10"><x:v>1</x:v></x:c>', (1, 1, "AA10")),
        (b'<col min="1"/><cols r="ZZ99"/>', (0, 0, "A1")),
    ],
)
def test_the_extent_of_a_sheet(content: bytes, expected: tuple[int, int, str]) -> None:
    assert _extent(iter([content])) == expected
    assert _extent(iter([content[place : place + 1] for place in range(len(content))])) == expected


def not_utf8() -> pa.Array:
    raw = "café".encode("latin-1")
    return pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("<ii", 0, len(raw))), pa.py_buffer(raw))


TEXTS: dict[str, tuple[Callable[[pa.Array], pa.Array], str]] = {
    "texts": (lambda texts: texts, r"column 'x' holds b'caf\\xe9', which is not UTF-8"),
    "lists": (lambda texts: pa.ListArray.from_arrays([0, 1], texts), "holds damaged values.*UTF-8"),
    "categories": (
        lambda texts: pa.DictionaryArray.from_arrays(pa.array([0]), texts),
        r"holds damaged values.*UTF-8|not a Parquet file \(Invalid UTF8",
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("write", [feather.write_feather, parquet.write_table])
def test_texts_that_are_not_utf8_are_named(kind: str, write: Callable[..., None], tmp_path: Path) -> None:
    made, message = TEXTS[kind]
    path = tmp_path / ("t.parquet" if write is parquet.write_table else "t.feather")
    write(pa.table({"text": ["a film"], "x": made(not_utf8())}), str(path))
    with pytest.raises(DataError, match=message):
        read_table(path)


ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
EXTENSIONS: dict[str, tuple[Callable[[], pa.Array], list[Any] | None]] = {
    "uuid": (lambda: extended(pa.uuid(), [ID.bytes, None]), [str(ID), None]),
    "bool8": (lambda: extended(pa.bool8(), [1, None]), [True, None]),
    "json": (lambda: extended(pa.json_(), ["[1]", None]), ["[1]", None]),
    "runs": (lambda: pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["p", "q"])), ["p", "q"]),
    "periods": (lambda: pa.array(pd.Series(pd.period_range("2020-01", periods=2, freq="M"))), None),
    "intervals": (lambda: pa.array(pd.Series(pd.interval_range(0, 2))), None),
    "unions": (lambda: pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array(["a", "b"])]), None),
    "views of lists": (lambda: pa.array([["a"], []], pa.list_view(pa.string())), None),
    "tensors": (lambda: extended(pa.fixed_shape_tensor(pa.int8(), [1]), [[1], [2]]), None),
}


def extended(kind: pa.BaseExtensionType, values: list[Any]) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_extensions_of_arrow_are_read_or_named(kind: str, tmp_path: Path) -> None:
    made, expected = EXTENSIONS[kind]
    table = pa.table({"text": ["a", "b"], "x": made()})
    feather.write_feather(table, str(tmp_path / "t.feather"))
    for source in (table, tmp_path / "t.feather"):
        if expected is None:
            with pytest.raises(DataError, match=r"column 'x' is of the type .*: write it as texts"):
                read_table(source)
        else:
            assert read_table(source)["x"] == expected
