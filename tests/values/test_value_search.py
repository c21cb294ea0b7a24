"""What `forget` searches: files of strangers, each of which is read whole, or named; and marks of rows and exports."""

from __future__ import annotations

import base64
import bz2
import gzip
import html
import io
import json
import lzma
import pickle
import quopri
import sqlite3
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tally import tell

from attribune import Categorical, MultiLabel, Schema
from attribune.core.checksums import checksum_of
from attribune.values import traces
from attribune.values.traces import (
    EXPORT_MARKS,
    Wanted,
    drop_rows,
    export_marks,
    marked_exports,
    marked_rows,
    search_files,
    value_marks,
)

NAME = "Zoë O'Neil"
OTHER = "Noë O'Zeil"  # of the same length, with letters of the same kinds
TEXT = "a review by {}, last year"


def zipped(*files: tuple[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return sink.getvalue()


def table(columns: pa.Table, *, is_stream: bool | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    if is_stream is None:
        pq.write_table(columns, sink)
    else:
        with (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(sink, columns.schema) as writer:
            writer.write_table(columns)
    return bytes(sink.getvalue().to_pybytes())


def saved(array: np.ndarray, save: Callable[..., None] = np.save) -> bytes:
    sink = io.BytesIO()
    save(sink, array)
    return sink.getvalue()


def database(name: str, encoding: str) -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute(f"pragma encoding = '{encoding}'")
        connection.execute("create table t (a, user, b)")
        connection.execute("insert into t values ('x', ?, 'y')", (name,))
        connection.commit()
        return bytes(connection.serialize())


def tarred(name: str) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        content = TEXT.format(name).encode()
        member = tarfile.TarInfo("note.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def with_unused_entry(name: str) -> pa.Table:
    return pa.table({"u": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), [TEXT, name])})


def note(name: str) -> bytes:
    return TEXT.format(name).encode()


READ: dict[str, Callable[[str], bytes]] = {
    "plain text": note,
    "utf-8 with a mark": lambda name: TEXT.format(name).encode("utf-8-sig"),
    "utf-16": lambda name: TEXT.format(name).encode("utf-16"),
    "utf-32": lambda name: TEXT.format(name).encode("utf-32"),
    "accents apart": lambda name: note(unicodedata.normalize("NFD", name)),
    "wrapped": lambda name: note(name.replace(" ", "\n   ")),
    "a name with underscores": lambda name: f"true_{name}_x".encode(),
    "cell of a page": lambda name: f"<td>{html.escape(name)}</td>".encode(),
    "entities": lambda name: f"<td>{html.escape(name).replace('ë', '&euml;')}</td>".encode(),
    "attribute of a tag": lambda name: f'<td title="{html.escape(name)}"></td>'.encode(),
    "runs of a document": lambda name: f"<t>{name[:2]}</t><t>{name[2:]}</t>".encode(),
    "cell": lambda name: f'user,text\n"{name}",fine\n'.encode(),
    "quotes in a cell": lambda name: f'user,text\n"the ""{name}""",fine\n'.encode(),
    "quotes of YAML": lambda name: f"user: '{name.replace(chr(39), chr(39) * 2)}'\n".encode(),
    "escapes of JSON": lambda name: json.dumps({"rows": [{"user": name}]}).encode(),
    "escapes of Python": lambda name: ascii(name).encode(),
    "key": lambda name: json.dumps({name: 1}).encode(),
    "half an object": lambda name: f'{{"user": "{name}"'.encode(),
    "address": lambda name: f"https://example.org/?user={quote(name)}&n=1".encode(),
    "form": lambda name: f"user={quote_plus(name)}&n=1".encode(),
    "quoted-printable": lambda name: quopri.encodestring(note(name)),
    "base64": lambda name: base64.b64encode(note(name)),
    "base64 in lines": lambda name: base64.encodebytes(b"a film, " * 12 + note(name)),
    "base64 of addresses": lambda name: base64.urlsafe_b64encode(note(name)).rstrip(b"="),
    "gzip": lambda name: gzip.compress(note(name)),
    "two gzips": lambda name: gzip.compress(b"a") + gzip.compress(note(name)),
    "bz2": lambda name: bz2.compress(note(name)),
    "two bz2": lambda name: bz2.compress(b"a") + bz2.compress(note(name)),
    "xz": lambda name: lzma.compress(note(name)),
    "bz2 of gzip": lambda name: bz2.compress(gzip.compress(note(name))),
    "zip": lambda name: zipped(("a.txt", b"x"), ("inner/notes.csv", note(name))),
    "name in a zip": lambda name: zipped((f"{name}.csv", b"x")),
    "parquet": lambda name: table(pa.table({"user": [name]})),
    "labels": lambda name: table(pa.table({"true_author": [name], "prediction": [name]})),
    "name of a column": lambda name: table(pa.table({name: [1]})),
    "metadata": lambda name: table(pa.table({"a": [1]}).replace_schema_metadata({"by": name})),
    "lists": lambda name: table(pa.table({"user": [["x", name]]})),
    "structs": lambda name: table(pa.table({"u": [{"name": name}]})),
    "bytes": lambda name: table(pa.table({"u": [name.encode()]})),
    "arrow file": lambda name: table(pa.table({"user": [name]}), is_stream=False),
    "arrow stream": lambda name: table(pa.table({"user": [name]}), is_stream=True),
    "unused entry of a dictionary": lambda name: table(with_unused_entry(name), is_stream=False),
}
UNREAD: dict[str, Callable[[str], bytes]] = {
    "cp1251": lambda name: f"отзыв {name.replace('ë', 'ё')}".encode("cp1251"),
    "koi8-r": lambda name: f"отзыв {name.replace('ë', 'ё')}".encode("koi8-r"),
    "shift_jis": lambda name: f"感想 {name.replace('ë', 'e')}".encode("shift_jis"),
    "iso-2022-jp": lambda name: f"感想 {name.replace('ë', 'e')}".encode("iso2022_jp"),
    "latin-1": lambda name: TEXT.format(name).encode("latin-1"),
    "utf-16 without a mark": lambda name: f"user\n{name}\n".encode("utf-16-le"),
    "utf-32 without a mark": lambda name: f"user\n{name}\n".encode("utf-32-be"),
    "npy": lambda name: saved(np.array([name])),
    "npz": lambda name: saved(np.array([name]), np.savez_compressed),
    "pickle": lambda name: pickle.dumps({"user": name}),
    "sqlite": lambda name: database(name, "UTF-8"),
    "sqlite in utf-16": lambda name: database(name, "UTF-16le"),
    "graph": lambda name: b"\x08\x01\x12" + f"user={name}".encode() + bytes(9),
    "tensors": lambda name: bytes([9, 0, 0, 0, 0, 0, 0, 0]) + name.encode(),
    "pdf": lambda name: f"%PDF-1.4\n{name}".encode(),
    "rtf": lambda name: b"{\\rtf1 " + name.encode("ascii", "backslashreplace"),
    "tar": tarred,
    "zstd": lambda name: bytes(pa.compress(note(name), codec="zstd", asbytes=True)),
    "half a table": lambda name: b"PAR1\0" + name.encode(),
    "gzip with a tail": lambda name: gzip.compress(b"x") + note(name),
    "gzip without its end": lambda name: gzip.compress(note(name))[:-9],
    "bz2 with a tail": lambda name: bz2.compress(b"x") + note(name),
    "xz with a tail": lambda name: lzma.compress(b"x") + note(name),
    "zip after another": lambda name: zipped(("a", note(name))) + zipped(("b", b"x")),
    "zip with a prefix": lambda name: b"MZ\0" + zipped(("a", note(name))),
    "zip with a tail": lambda name: zipped(("b", b"x")) + note(name),
    "zip without its end": lambda name: zipped(("a", note(name)))[:-30],
    "zip of very much": lambda name: zipped(
        *[(str(n), gzip.compress(b" " * (1 << 20))) for n in range(9)], ("a", note(name))
    ),
    "gzip of very much": lambda name: gzip.compress(note(name) + b" " * (9 << 20)),
    "bz2 of very much": lambda name: bz2.compress(note(name) + b" " * (9 << 20)),
    "xz of very much": lambda name: lzma.compress(note(name) + b" " * (9 << 20)),
    "table of very much": lambda name: table(pa.table({"user": [name] * (9 << 17)})),
    "deep archives": lambda name: zipped(("1", zipped(("2", zipped(("3", zipped(("4", gzip.compress(note(name)))))))))),
    "a database in a zip": lambda name: zipped(("t.sqlite", database(name, "UTF-8"))),
}


@pytest.mark.parametrize("kind", READ)
def test_a_value_is_found_and_a_file_without_it_is_clean(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(READ[kind](NAME))
    found = search_files(Wanted([NAME]), tmp_path)
    tell("refused" if found.places or found.unsearched else "wrong")
    assert (found.places, found.unsearched) == ([path], {})
    path.write_bytes(READ[kind](OTHER))
    found = search_files(Wanted([NAME, NAME[:-1]]), tmp_path)
    tell("wrong" if found.places or found.unsearched else "survived")
    assert (found.places, found.unsearched) == ([], {})


@pytest.mark.parametrize("kind", UNREAD)
@pytest.mark.parametrize("name", [NAME, OTHER])
def test_what_cannot_be_read_is_named(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_MOST", 8 << 20)
    path = tmp_path / "file"
    path.write_bytes(UNREAD[kind](name))
    found = search_files(Wanted([NAME]), tmp_path)
    tell("refused" if found.unsearched else "wrong")
    assert found.places == []
    assert list(found.unsearched) == [path]
    assert ("very much" in kind) == found.unsearched[path].startswith("it has more than 8 MB")


@pytest.mark.parametrize(
    ("value", "text", "there"),
    [
        ("u3", "u33", False),
        ("u3", "xu3", False),
        ("u3", "u3,u4", True),
        ("u3", "«u3»", True),
        ("john", "john smith", True),  # who that is, a foreign file does not say
        ("17", "17", True),
        ("17", "in 17 steps", False),
        ("17", "user,n\n17,3\n", True),
        ("17", "user,n\n17.0,3\n", True),
        ("17", "<td> 17 </td>", True),
        ("17", '["17"]', True),
        ("17", '{"user": 17}', True),
        ("17", "users:\n  - 17\n", True),
        ("17", "a\t17\n", True),
        ("17", "a, \t  17 \t \n", True),
        ("17", "-   17", True),
        ("17", "a  17  b", False),
        ("17", "\t" * 1_000_000, False),  # neither takes long
        ("u3", "<" * 1_000_000, False),
        ("17", "1,170,2", False),
        ("7", "17", False),
        ("true", "user: True", True),
        ("a", "a film", False),
        ("a", "a", True),
        ("né", "né", True),
        ("née", "la née.", True),
        ("a.b", "axb", False),
        ("(x)y", "say (x)y", True),
        ("李明", "作者李明说", True),
    ],
)
def test_what_counts_as_the_value(value: str, text: str, there: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text, encoding="utf-8")
    found = bool(search_files(Wanted([value]), tmp_path).places)
    tell("wrong" if found is not there else "refused" if there else "survived")
    assert found is there


@pytest.mark.parametrize(
    ("value", "name", "there"),
    [
        (NAME, f"name of file {NAME}.csv", True),
        (NAME, unicodedata.normalize("NFD", f"{NAME}_notes.csv"), True),
        (NAME, f"folder of {NAME}/x", True),
        (NAME, f"{NAME}s.csv", False),
        ("17", "17.csv", True),
        ("17", "epoch 17.csv", False),
    ],
)
def test_names_are_searched(value: str, name: str, there: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    found = search_files(Wanted([value]), tmp_path)
    assert found.places == ([tmp_path / name.partition("/")[0]] if there else [])


def test_numbers_of_tables_are_cells(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(table(pa.table({"user": pa.array([17.0, None]), "n": [3, 4]})))
    assert search_files(Wanted(["17"]), tmp_path).places == search_files(Wanted(["4"]), tmp_path).places == [path]
    assert search_files(Wanted(["1"]), tmp_path).places == []


def test_links_are_named_and_known_files_are_not_searched(tmp_path: Path) -> None:
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    (run / NAME).mkdir(parents=True)
    (outside / "note").write_text(NAME)
    (run / NAME / "known").write_text(NAME)
    (run / "link").symlink_to(outside)
    (run / "gone").symlink_to(tmp_path / "nothing")
    (run / "file").symlink_to(outside / "note")
    found = search_files(Wanted([NAME]), run, known={run / NAME / "known"})
    assert found.places == [run / "file"]
    assert list(found.unsearched) == [run / "gone", run / "link"]


def test_marks_follow_their_rows() -> None:
    table = {"user": ["a", None, "b", " a ", "new"], "tags": ["x;y", "y", "", "x", None]}
    schema = Schema.fit(
        {name: values[:4] for name, values in table.items()}, [Categorical("user"), MultiLabel("tags", separator=";")]
    )
    arrays = {"rows": np.array([4, 9, 2, 7, 5]), "logits": np.arange(10).reshape(5, 2), **value_marks(table, schema)}
    assert marked_rows(arrays, "user", ["a"]).tolist() == [0, 3]
    assert marked_rows(arrays, "user", ["new", "b"]).tolist() == [2, 4]
    assert marked_rows(arrays, "tags", ["y"]).tolist() == [0, 1]
    assert marked_rows(arrays, "year", ["y"]) is None
    rest = drop_rows(arrays, np.array([0, 2]))
    assert rest["rows"].tolist() == [9, 7, 5]
    assert rest["logits"].tolist() == [[2, 3], [6, 7], [8, 9]]
    assert marked_rows(rest, "user", ["a"]).tolist() == [1]
    assert marked_rows(rest, "user", ["b"]).tolist() == []
    assert marked_rows(rest, "tags", ["x", "y"]).tolist() == [0, 1]


def test_exports_are_found_by_their_marks(tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    folder.mkdir()
    for name in ("model.safetensors", "README.md"):
        (folder / name).write_text("x")
    files = {name: checksum_of(folder / name) for name in ("model.safetensors", "README.md")}
    (folder / EXPORT_MARKS).write_text(export_marks({"user": ["Zoë"], "tags": []}, files))
    (folder / "README.md").write_text("of Zoë")
    everyone = export_marks({"user": ["Zoë", "17"]})
    (tmp_path / "a.onnx").write_bytes(b"\x08\0" + everyone.encode() + b"\xff")
    with zipfile.ZipFile(tmp_path / "a.pt2", "w") as archive:
        archive.writestr(f"a/extra/{EXPORT_MARKS}", everyone)
    for name in ("earlier.onnx", "earlier.pt2"):
        (tmp_path / name).write_bytes(b"\x08\0")
    for number in range(len(everyone)):  # a bit of each byte turned over
        damaged = bytearray(everyone.encode())
        damaged[number] ^= 1 << number % 8
        (tmp_path / f"damaged-{number}.onnx").write_bytes(damaged)
    found = {export.path.name: export for export in marked_exports(tmp_path)}
    assert list(found) == ["exported", "a.onnx", "a.pt2"]
    assert found["exported"].files == (folder / EXPORT_MARKS, folder / "model.safetensors")  # the card has changed
    assert [export.has("user", ["Zoë"]) for export in found.values()] == [True, True, True]
    assert [export.has("user", ["17", "u"]) for export in found.values()] == [False, True, True]
    assert [export.has("tags", ["Zoë"]) for export in found.values()] == [False, False, False]
