"""Search for a value of an attribute in all files of a folder, whatever their format."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import html
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable, Collection, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from attribune.core.config import parse_yaml

__all__ = ["files_with_value"]

_WHOLE = re.compile(r"\w|[^\W\d]{2}|[-+.\d]+")  # values that must be a whole text, not a word of one
# The files of a pretrained tokenizer, whose words are those of its language.
_TOKENIZER = {
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
}
# The words of texts that a baseline counts.
_VOCABULARIES = {"linear.json": ("words",), "automl.json": ("words", "features")}
_LABELS = ("true_", "prediction")  # columns of predictions whose texts are classes
_DEPTH = 4  # archives inside archives


def files_with_value(value: str, folder: Path) -> list[Path]:
    """Return the files below a folder that contain a value, or that cannot be read.

    Texts are searched for it as a word, in cells, tags, strings and compressed files alike; values of one or two
    letters, and numbers, must be a whole text, and are not looked for in files of unknown formats, whose bytes hold any
    short name by chance. Not searched are the files of the pretrained tokenizer, labels and predictions, the
    vocabularies of baselines, and the numbers of tensors.
    """
    is_whole_text = _WHOLE.fullmatch(value) is not None
    matches: Any = value.__eq__ if is_whole_text else re.compile(rf"(?<!\w){re.escape(value)}(?!\w)").search
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and _has_match(path, matches)]


def _has_match(path: Path, matches: Callable[[str], Any]) -> bool:
    if path.name in _TOKENIZER and (path.parent / "tokenizer_config.json").is_file():
        return False
    try:
        return any(map(matches, _texts_of(path.name, path.read_bytes())))
    except OSError:
        return True


def _texts_of(name: str, data: bytes, depth: int = 0) -> Iterator[str]:
    """Yield all texts in a file, by what its content says it is."""
    unpacked = list(_unpacked(name, data)) if depth < _DEPTH else []
    for member, content in unpacked:
        yield member
        yield from _texts_of(member, content, depth + 1)
    if unpacked:
        return
    try:
        if data[:4] == b"PAR1":
            yield from _texts_in_table(pq.read_table(pa.BufferReader(data)))
        elif data[:6] == b"ARROW1":
            yield from _texts_in_table(pa.ipc.open_file(pa.BufferReader(data)).read_all())
        elif name.endswith(".safetensors"):  # the header alone
            yield data[8 : 8 + int.from_bytes(data[:8], "little")].decode(errors="replace")
        else:
            yield from _texts_in(name, _decoded(data))
    except (pa.ArrowException, ValueError, RecursionError, yaml.YAMLError, csv.Error):
        yield data.decode(errors="replace")  # the content is not what it seems


def _unpacked(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files in a compressed file; nothing for another file."""
    packers: dict[bytes, Callable[[bytes], bytes]] = {
        b"\x1f\x8b": gzip.decompress,
        b"BZh": bz2.decompress,
        b"\xfd7zXZ": lzma.decompress,
        b"\x28\xb5\x2f\xfd": lambda data: pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(),
    }
    with contextlib.suppress(OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        for start, unpack in packers.items():
            if data.startswith(start):
                yield Path(name).stem, unpack(data)
        if data.startswith(b"PK\x03\x04"):
            archive = zipfile.ZipFile(io.BytesIO(data))
            yield from ((member, archive.read(member)) for member in archive.namelist())


def _texts_in_table(table: pa.Table) -> Iterator[str]:
    for name in table.column_names:
        if not name.startswith(_LABELS):
            yield from _strings(table[name].to_pylist())


def _decoded(data: bytes) -> str:
    for encoding in ("utf-16", "utf-8-sig"):
        if encoding != "utf-16" or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            with contextlib.suppress(UnicodeDecodeError):
                return data.decode(encoding)
    return data.decode("latin-1") if b"\0" not in data else data.decode(errors="replace")


def _texts_in(name: str, text: str) -> Iterator[str]:
    suffixes = Path(name).suffixes
    if ".json" in suffixes:
        yield from _strings(json.loads(text), without=_VOCABULARIES.get(name, ()))
    elif ".jsonl" in suffixes:
        for line in text.splitlines():
            yield from _strings(json.loads(line))
    elif {".yaml", ".yml"}.intersection(suffixes):
        yield from _strings(parse_yaml(text))
    else:
        yield text
    if {".csv", ".tsv", ".txt"}.intersection(suffixes):
        for delimiter in ",;\t|":
            for row in csv.reader(io.StringIO(text), delimiter=delimiter):
                yield from row
    if "<" in text:
        page = _Page()
        page.feed(text)
        yield from page.texts


class _Page(HTMLParser):
    """Collects the texts and the values of attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value for _, value in attrs if value]

    def handle_data(self, data: str) -> None:
        self.texts += [data.strip(), html.unescape(data)]


def _strings(tree: Any, *, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the strings of nested values, keys among them."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, bytes):
        yield tree.decode(errors="replace")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            if key not in without:
                yield str(key)
                yield from _strings(item)
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _strings(item)
