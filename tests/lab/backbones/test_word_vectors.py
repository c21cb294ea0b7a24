"""Files of word vectors: every published form is read alike, and a file that is none is refused by file and line."""

from __future__ import annotations

import bz2
import codecs
import gzip
from pathlib import Path

import numpy as np
import pytest

from attribune.errors import DataError
from attribune_lab.backbones.word_vectors import read_word_vectors

WORDS = ["the", "cat", "at name@domain.com", "Größe", "1,5"]
MATRIX = np.arange(15, dtype=np.float32).reshape(5, 3) / 8 - 0.5


def lines(*, header: bool = False, separator: str = " ", end: str = "\n") -> bytes:
    rows = [f"{len(WORDS)} 3"] if header else []
    rows += [separator.join([word, *map(str, vector)]) for word, vector in zip(WORDS, MATRIX, strict=True)]
    return "".join(row + end for row in rows).encode()


def binary(*, count: int = len(WORDS), end: bytes = b"\n") -> bytes:
    records = [
        word.encode() + b" " + vector.tobytes() + end for word, vector in zip(WORDS[1::2], MATRIX[1::2], strict=True)
    ]
    return f"{count} 3\n".encode() + b"".join(records)


FORMS = {
    "glove.txt": lines(),
    "windows.txt": lines(end="\r\n"),
    "trailing blanks.vec": lines(header=True, end=" \n"),
    "tabs.tsv": lines(separator="\t"),
    "no last line end.txt": lines().rstrip(b"\n"),
    "blank line at the end.txt": lines() + b"\n",
    "word2vec.txt": lines(header=True),
    "glove.txt.gz": gzip.compress(lines()),
    "glove.txt.bz2": bz2.compress(lines()),
    "twice.txt": lines() + b"cat 9 9 9\n",
    "byte order mark.txt": codecs.BOM_UTF8 + lines(),
    "byte order mark and header.txt": codecs.BOM_UTF8 + lines(header=True),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_text_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMS[name])
    vectors = read_word_vectors(tmp_path / name, ["Größe", "cat", "at name@domain.com", "dog", "the"])
    assert vectors.words == ("the", "cat", "at name@domain.com", "Größe")
    np.testing.assert_array_equal(vectors.matrix, MATRIX[:4])
    assert vectors.matrix.dtype == np.float32
    assert vectors.size == 3


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("name", ["w.bin", "w.bin.gz"])
def test_binary_files_are_read(name: str, end: bytes, tmp_path: Path) -> None:
    content = binary(count=2, end=end)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    vectors = read_word_vectors(tmp_path / name, ["Größe", "the"])
    assert vectors.words == ("Größe",)
    np.testing.assert_array_equal(vectors.matrix, MATRIX[3:4])


@pytest.mark.slow
def test_vectors_longer_than_a_block_are_read(tmp_path: Path) -> None:
    """Of 2,000 numbers, a line is longer than what tells text from binary, and two records longer than a block."""
    matrix = np.random.default_rng(0).normal(size=(150, 2_000)).astype(np.float32)
    rows = [f"w{number} {' '.join(map(repr, vector.tolist()))}" for number, vector in enumerate(matrix)]
    (tmp_path / "w.txt").write_text("150 2000\n" + "\n".join(rows))
    records = b"".join(f"w{number} ".encode() + vector.tobytes() for number, vector in enumerate(matrix))
    (tmp_path / "w.bin").write_bytes(b"150 2000\n" + records)
    for name in ("w.txt", "w.bin"):
        vectors = read_word_vectors(tmp_path / name, {"w149", "w0", "w70"})
        assert vectors.words == ("w0", "w70", "w149")
        np.testing.assert_array_equal(vectors.matrix, matrix[[0, 70, 149]])


def test_no_word_of_the_file_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_bytes(lines())
    assert read_word_vectors(tmp_path / "w.txt", ["dog"]).words == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n", "line 1 is empty"),
        (b"cat\n", "line 1: a word and 0 numbers"),
        (lines() + b"dog 1 2\n", r"line 6: 2 numbers behind 'dog', .* have 3"),
        (lines() + b"dog 1 2 3 4\n", r"line 6: 4 numbers behind 'dog', .* have 3"),
        (lines() + b"dog\n", r"line 6: 0 numbers behind 'dog'"),
        (b"dog 1 nan 2\n", r"line 1: the vector of 'dog' holds NaN"),
        (b"cat 0 0 0\ndog 1 -inf 2\n", r"line 2: the vector of 'dog' holds infinity"),
        (b"cat 0 0 0\ndog 1 1e99 2\n", r"line 2: the vector of 'dog' holds infinity"),
        (b"cat 0 0 0\ndog 1 two 3\n", r"line 2: could not convert string to float: b'two'"),
        (b"cat 0 0 0\n\xff\xfe 1 2 3\n", r"line 2: b'\\xff\\xfe' is not UTF-8"),
        (lines().decode().encode("utf-16"), r"line 1: .* is not UTF-8"),
        (b"6" + lines(header=True)[1:], "the header names 6 words, the file has 5"),
        (b"0 3\n", "line 1: a header of 0 words"),
        (b"4 0\n", "line 1: a header of 4 words and vectors of 0 numbers"),
        (b"4 99999999999999999999999\n", "line 1: a header of 4 words and vectors of 9,999"),
        (b"3 3\n" + binary(count=2)[4:], "truncated at word 3 of the 3"),
        (binary(count=2)[:-9], "truncated at word 2 of the 2"),
        (b"9 3\n" + b"\0" * 9_000, "word 1: more than 4,096 bytes without a space"),
        (b"x" * 600_000, "line 1: more than"),
        (b"cat 1 2 3\n" + b"x" * 600_000, "line 2: more than"),
    ],
)
def test_a_file_that_is_none_is_refused_with_file_and_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"(?s)vectors.txt.*{message}.*get the file again"):
        read_word_vectors(path, ["cat", "dog", "Größe"])


def test_compressed_files_that_are_cut_or_none(tmp_path: Path) -> None:
    random = np.random.default_rng(0).normal(size=(500, 3))
    text = "".join(f"w{number} {' '.join(map(str, row))}\n" for number, row in enumerate(random)).encode()
    for content in (gzip.compress(text)[:-2_000], lines()):
        (tmp_path / "w.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"w\.gz: the compressed file is truncated or damaged"):
            read_word_vectors(tmp_path / "w.gz", ["cat", "w499"])
    with pytest.raises(DataError, match=r"missing\.txt: cannot be read"):
        read_word_vectors(tmp_path / "missing.txt", ["cat"])
    with pytest.raises(DataError, match="cannot be read"):
        read_word_vectors(tmp_path, ["cat"])
