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


_WHOLE = re.compile(r"\w|[^\W\d]{2}|[-+.\d]+")  # values that are looked for as whole texts, not as words of one


_PRETRAINED = re.compile(r"tokenizer|vocab|merges|special_tokens|added_tokens|spiece|sentencepiece")


_SKIPPED = (".png", ".svg", ".pt2", ".onnx")


def files_with_value(value: str, folder: Path) -> list[Path]:
    """The files below a folder that have a value in them.

    Texts are searched for it as a word, whatever file format they are in; values of fewer than three characters, and
    numbers, must be a whole text. Not searched are the files of the pretrained tokenizer, labels and predictions,
    words of texts that the linear baseline counts, and numbers of tensors.
    """
    is_it = _matcher(value)
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and any(map(is_it, _texts_of(path)))]


def _matcher(value: str) -> Any:
    if _WHOLE.fullmatch(value):
        return value.__eq__
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)").search


def _texts_of(path: Path) -> Iterator[str]:
    """All texts in a file of a run."""
    if _PRETRAINED.match(path.name) or path.suffix in _SKIPPED:
        return
    if path.suffix == ".safetensors":
        yield from _texts_in_tensors(path)
    elif path.suffix == ".parquet":
        table = pq.read_table(path)
        names = [name for name in table.column_names if not name.startswith(("true_", "prediction"))]
        for name in names:
            if pa.types.is_string(table[name].type) or pa.types.is_large_string(table[name].type):
                yield from (text for text in table[name].to_pylist() if text is not None)
    elif path.suffix == ".arrow":
        yield from Vocabulary.read(path)[0]
    else:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        yield from _texts_in(data.decode(errors="replace"), path.suffixes)


def _texts_in_tensors(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        yield file.read(int.from_bytes(file.read(8), "little")).decode(errors="replace")


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
        yield text  # as it is, where it is not what its name says


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
