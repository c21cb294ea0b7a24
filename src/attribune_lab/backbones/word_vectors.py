"""Files of pretrained word vectors, as GloVe, word2vec and fastText publish them; only the vectors asked for are kept.

    vectors = read_word_vectors("glove.6B.100d.txt", words)

Shapes: V words, E numbers of a vector.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from attribune.core.wording import shortened
from attribune.data.text_files import open_bytes, readable
from attribune.errors import DataError

_CHUNK = 1 << 20
_LONGEST_WORD, _LONGEST_VECTOR = 1 << 12, 1 << 14  # bytes and numbers; more are no word vectors
_LONGEST_LINE = _LONGEST_WORD + 32 * _LONGEST_VECTOR
_CURE = "get the file again, or give one of GloVe, word2vec or fastText"
_NUMBER = re.compile(rb"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors.

    Args:
        matrix: (V, E) float32.
    """

    words: tuple[str, ...]
    matrix: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        """The numbers of a vector, E."""
        return int(self.matrix.shape[1])


def read_word_vectors(path: str | Path, words: Collection[str]) -> WordVectors:
    """Read the vectors of the given words, in the order of the file.

    The format is detected: in a text file, the first field of a line is the word, which may hold spaces, and the last
    E are the numbers; a first line of two whole numbers is a header. In a binary file of word2vec the header is
    followed by words and little-endian float32 numbers. Both may be compressed (``.gz``, ``.bz2``). If a word
    occurs twice, its first vector counts. The numbers of other words are not parsed.

    Raises:
        DataError: naming file and line of a vector of another width or without a finite number, of a word that is not
            UTF-8, or a file that is missing, empty, truncated, or in another format.
    """
    path, wanted = Path(path), {word.encode(errors="surrogatepass"): word for word in words}
    found: dict[str, npt.NDArray[np.float32]] = {}
    width = 0
    with readable(path), open_bytes(path) as file:
        for place, name, numbers in _vectors(path, file, wanted):
            word = wanted[name]
            if word not in found:
                if not np.isfinite(numbers).all():
                    odd = "NaN" if np.isnan(numbers).any() else "infinity"
                    raise DataError(f"{path}, {place}: the vector of {word!r} holds {odd}: {_CURE}")
                found[word] = numbers
            width = len(numbers)
    matrix = np.stack(list(found.values())) if found else np.zeros((0, width), dtype=np.float32)
    return WordVectors(tuple(found), matrix)


Vectors = Iterator[tuple[str, bytes, npt.NDArray[np.float32]]]
"""Place in the file, word, numbers (E,)."""


def _vectors(path: Path, file: IO[bytes], wanted: Collection[bytes]) -> Vectors:
    """Yield the wanted vectors of a file in whatever format."""
    first = _line(path, file, 1).removeprefix(codecs.BOM_UTF8)
    if not first.strip():
        raise DataError(f"{path}: {'line 1 is' if first else 'the file is'} empty: {_CURE}")
    fields = first.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        width = len(first.rstrip().replace(b"\t", b" ").split(b" ")) - 1
        yield from _text(path, file, first, wanted, width=width, count=None)
        return
    count, width = (int(field[:19]) for field in fields)
    if not 0 < width <= _LONGEST_VECTOR or not count:
        raise DataError(f"{path}, line 1: a header of {count:,} words and vectors of {width:,} numbers: {_CURE}")
    start = file.read(_LONGEST_WORD)
    if _is_text(start, width):
        yield from _text(path, file, start + _line(path, file, 2), wanted, width=width, count=count)
    else:
        yield from _binary(path, file, start, wanted, width=width, count=count)


def _line(path: Path, file: IO[bytes], number: int) -> bytes:
    line = file.readline(_LONGEST_LINE)
    if len(line) == _LONGEST_LINE:
        raise DataError(f"{path}, line {number}: more than {_LONGEST_LINE:,} bytes, so it is no vector: {_CURE}")
    return line


def _is_text(start: bytes, width: int) -> bool:
    """Whether what follows the header are lines of numbers; `start` may end within the first."""
    line, complete, _ = start.partition(b"\n")
    fields = line.replace(b"\t", b" ").strip().split(b" ")[1:]
    numbers = fields[-width:] if complete else fields[:-1]
    return bool(numbers) and all(map(_NUMBER.fullmatch, numbers))


def _text(
    path: Path, file: IO[bytes], start: bytes, wanted: Collection[bytes], *, width: int, count: int | None
) -> Vectors:
    """Yield the wanted vectors of a text file, whose first bytes are read already."""
    if not 0 < width <= _LONGEST_VECTOR:
        raise DataError(f"{path}, line 1: a word and {width:,} numbers: {_CURE}")
    first = number = 1 if count is None else 2
    lines = chain(io.BytesIO(start), iter(lambda: _line(path, file, number), b""))
    for line in lines:
        if line.strip():
            name, *fields = line.rstrip().replace(b"\t", b" ").rsplit(b" ", width)
            _check_width(path, number, name, fields, width)
            if name in wanted:
                yield f"line {number:,}", name, _parsed(path, number, fields)
        number += 1
    if count is not None and number - first < count:
        raise DataError(f"{path}: the header names {count:,} words, the file has {number - first:,}: {_CURE}")


def _check_width(path: Path, number: int, name: bytes, fields: list[bytes], width: int) -> None:
    try:
        word = name.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line {number:,}: {name[:40]!r} is not UTF-8: {_CURE}") from error
    # Words may hold spaces; a word that ends in a number is a vector that is too wide.
    extra = [field for field in name.split(b" ")[1:] if _NUMBER.fullmatch(field)]
    if len(fields) < width or extra:
        shown = len(fields) + len(extra)
        raise DataError(
            f"{path}, line {number:,}: {shown:,} numbers behind {shortened(word.split(' ')[0], 40)!r}, but the vectors "
            f"of this file have {width:,}: {_CURE}"
        )


def _parsed(path: Path, number: int, fields: list[bytes]) -> npt.NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, which is refused
            return np.array([float(field) for field in fields], dtype=np.float64).astype(np.float32)
    except ValueError as error:
        raise DataError(f"{path}, line {number:,}: {error}, so it is no vector: {_CURE}") from error


def _binary(path: Path, file: IO[bytes], start: bytes, wanted: Collection[bytes], *, width: int, count: int) -> Vectors:
    """Yield the wanted vectors of a binary file, whose first bytes after the header are read already."""
    size, buffer, place = 4 * width, start, 0
    for number in range(1, count + 1):
        while (end := buffer.find(b" ", place)) < 0 or len(buffer) < end + 1 + size:
            if (end if end >= 0 else len(buffer)) - place > _LONGEST_WORD:
                raise DataError(f"{path}, word {number:,}: more than {_LONGEST_WORD:,} bytes without a space: {_CURE}")
            chunk = file.read(_CHUNK)
            if not chunk:
                raise DataError(f"{path}: truncated at word {number:,} of the {count:,} that its header names: {_CURE}")
            buffer, place = buffer[place:] + chunk, 0
        name = buffer[place:end].lstrip(b"\n")
        if name in wanted:
            numbers = np.frombuffer(buffer, dtype="<f4", count=width, offset=end + 1)
            yield f"word {number:,}", name, numbers.astype(np.float32)
        place = end + 1 + size
