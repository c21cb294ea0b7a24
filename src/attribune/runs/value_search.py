"""Search for a value of an attribute in all files of a folder, whatever their format."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from attribune.schema.vocabulary import Vocabulary

__all__ = ["files_with_value"]

_WHOLE = re.compile(r"\w|[^\W\d]{2}|[-+.\d]+")  # values that must be a whole text, not a word of one
_PRETRAINED = re.compile(r"tokenizer|vocab|merges|special_tokens|added_tokens|spiece|sentencepiece")
_SKIPPED = (".png", ".svg", ".pt2", ".onnx")


def files_with_value(value: str, folder: Path) -> list[Path]:
    """Return the files below a folder that contain a value.

    Texts are searched for it as a word, whatever the file format; values of fewer than three characters, and numbers,
    must be the whole text. Not searched are the files of the pretrained tokenizer, labels and predictions, the
    vocabulary of the linear baseline, and the numbers of tensors.
    """
    is_whole_text = _WHOLE.fullmatch(value) is not None
    matches: Any = value.__eq__ if is_whole_text else re.compile(rf"(?<!\w){re.escape(value)}(?!\w)").search
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and any(map(matches, _texts_of(path)))]


def _texts_of(path: Path) -> Iterator[str]:
    """Yield all texts in a file of a run."""
    if _PRETRAINED.match(path.name) or path.suffix in _SKIPPED:
        return
    if path.suffix == ".safetensors":  # the header alone
        with path.open("rb") as file:
            yield file.read(int.from_bytes(file.read(8), "little")).decode(errors="replace")
    elif path.suffix == ".parquet":
        table = pq.read_table(path)
        names = [name for name in table.column_names if not name.startswith(("true_", "prediction"))]
        for name in names:
            if pa.types.is_string(table[name].type) or pa.types.is_large_string(table[name].type):
                yield from table[name].drop_null().to_pylist()
    elif path.suffix == ".arrow":
        yield from Vocabulary.read(path)[0]
    else:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        yield from _texts_in(data.decode(errors="replace"), path.suffixes)


def _texts_in(text: str, suffixes: Sequence[str]) -> Iterator[str]:
    try:
        if ".json" in suffixes:
            yield from _strings(json.loads(text))
        elif ".jsonl" in suffixes:
            for line in text.splitlines():
                yield from _strings(json.loads(line))
        elif ".yaml" in suffixes:
            yield from _strings(yaml.safe_load(text))
        else:
            yield text
    except (ValueError, yaml.YAMLError):
        yield text  # the content does not match the file's name


def _strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for key, item in tree.items():
            if key != "words":
                yield str(key)
                yield from _strings(item)
    elif isinstance(tree, list):
        for item in tree:
            yield from _strings(item)
